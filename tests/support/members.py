"""Suites that take their members from a union: none is left out by hand."""

from typing import Any, get_args

import pytest

from accounting import Privacy
from solvers.losses import Huber, HuberHinge, Loss, Power, Quantile, Squared
from solvers.losses.one_margin import OneMargin
from solvers.methods import AdaptiveGd, DpGd, DpSvrg, InverseSensitivity, Method, NoisyMirrorDescent, NoisySgd
from solvers.statistics import AnyStatistic, Counts, Profile


def every(union: Any, *given: Any) -> list[Any]:
    """The given members with their settings, and each member that is not among them with its defaults."""
    kinds = {type(member) for member in given}
    assert kinds <= set(get_args(union)), "no member of the union"
    return [*given, *(kind() for kind in get_args(union) if kind not in kinds)]


def name_of(kind: Any) -> str:
    """Return the `name` of a kind in JSON."""
    return str(kind.__dataclass_fields__["name"].default)


LOSSES: list[OneMargin] = [
    loss
    for loss in every(
        Loss,
        *(HuberHinge(), HuberHinge(0.01), HuberHinge(3.0), Squared(), Squared(0.3), Huber(), Huber(2.0)),
        *(Quantile(), Quantile(0.9), Quantile(0.1, 0.2)),
        *(Power(), Power(1.1, 0.5), Power(2.0, 0.7), Power(1.001, 3.0), Power(1.3, 1.0, 0.05)),
    )
    if isinstance(loss, OneMargin)
]
"""Every loss of one margin; softmax, of several, has `test_softmax.py`."""

PROMISES = [Privacy(1.0, 1e-6), Privacy(1.0)]
DEFAULT_METHODS = [*(kind() for kind in get_args(Method)), DpGd(release="last"), DpGd(release="random")]
WIDE_LIMIT = AdaptiveGd(steps=40, slope_limit=4.0)  # for classes, some gradients then have the largest slope limit
STATISTICS: list[Any] = [
    Profile(bins=4) if kind is Profile else Counts(bins=4) if kind is Counts else kind()
    for kind in get_args(AnyStatistic)
]
_SHORT: dict[type, Any] = {
    NoisyMirrorDescent: NoisyMirrorDescent(passes=2, batch=8),  # by default there are 900 answers of the same kind
    NoisySgd: NoisySgd(steps=20),
    InverseSensitivity: InverseSensitivity(grid=8),  # by default there are 4096 scores
}
ANSWERING: list[Any] = [
    *(_SHORT.get(type(method), method) for method in DEFAULT_METHODS),
    *STATISTICS,
    DpSvrg(form="printed", epochs=1, inner_steps=4, batch=40),
    DpSvrg(batch=40, form="centred"),
    WIDE_LIMIT,
]
"""Every method and statistic, and other forms of some, whose answers contract tests compare with their bounds."""
every_method = pytest.mark.parametrize(
    "method",
    ANSWERING,
    ids=lambda method: (
        "adaptive_gd-wide" if method is WIDE_LIMIT else f"{method.name}-{getattr(method, 'form', '')}".strip("-")
    ),
)
