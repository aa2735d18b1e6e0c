"""Whole runs on coded records, which equal runs on the unfolded rows to the last bit."""

from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access.data import Data
from solvers.losses import Huber, HuberHinge, Logistic, Quantile, Softmax, Squared
from solvers.methods import AdaptiveGd, DpAccMd, DpGd, DpSvrg, DpSvrgPp, NoisyMirrorDescent, NoisySgd
from solvers.preparation import Declared, Private
from solvers.regularizers import L2
from tests.support.coded_rows import folded, unfolded
from tests.support.plain_loops import Unfolded
from tests.support.runs import run_quote

N, COLUMNS = 700, Columns((1, 3, 1, 300, 1, 2, 1))
RUNS: list[tuple[Any, Any]] = [
    (DpGd(steps=5), Logistic()),
    (DpGd(steps=5), Softmax(3)),
    (NoisySgd(), Logistic()),
    (DpSvrg(), Logistic()),
    (DpSvrgPp(), Squared()),
    (DpAccMd(), Huber()),
    (NoisyMirrorDescent(), Logistic()),
    (AdaptiveGd(steps=5), Logistic()),
    (AdaptiveGd(steps=5), Squared()),
    (AdaptiveGd(steps=5), Softmax(3)),
    (AdaptiveGd(steps=5), Quantile(0.9)),
    (AdaptiveGd(steps=5), HuberHinge()),
]


@pytest.mark.slow
@pytest.mark.parametrize("preparation", [Declared(), Private()], ids=lambda value: value.name)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("method", "loss"), RUNS, ids=lambda value: value.name)
def test_a_run(method: Any, loss: Any, kind: type, preparation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = unfolded(N, COLUMNS, kind=kind)
    if isinstance(method, AdaptiveGd):
        preparation = None
    labels = {"class": np.array([1.0, -1.0]), "number": np.array([-0.7, 0.2, 0.9])}
    y = np.random.default_rng(2).choice(np.arange(3.0) if loss.outputs > 1 else labels[loss.takes], N)
    problem = Problem(loss, L2(0.01), n=N, d=COLUMNS.d, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    quote = plan(method, problem, Privacy(4.0, 1e-5), preparation=preparation)
    # No walk, because it draws all noise before its first step, and single answers do not.
    monkeypatch.setattr("solvers.data_access.walk.MOST_EXPECTED_ROWS", 0)
    results = []
    for is_plain in (False, True):
        data = Data.coded(folded(stored, COLUMNS), y, quote.problem)
        with monkeypatch.context() as patch:
            if is_plain:
                Unfolded(stored.astype(float), COLUMNS, loss).put(patch)
            results.append(run_quote(quote, data, 3))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert np.abs(results[0][0]).max() > 0
