"""Smooth forms of losses with a kink: the slope is a mean over a window, and the loss hardly changes."""

from typing import Any, get_args

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid

from solvers.frame import Frame
from solvers.losses import Absolute, Hinge, Huber, HuberHinge, Quantile
from solvers.losses.smoothing import BoundedSlope, Surrogate, at_least, surrogate
from solvers.methods.slopes import GradientRequest

KINKS = [Absolute(), Hinge(), Quantile(0.5), Quantile(0.1), Quantile(0.95)]
MARGINS, TARGETS = np.linspace(-3, 3, 60_001), (1.0, -1.0)


def slope(form: Surrogate, y: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return form.loss.slope(form.factor * MARGINS + form.shift, np.full(len(MARGINS), y))


@pytest.mark.parametrize("loss", KINKS, ids=repr)
@pytest.mark.parametrize("smoothing", [0.05, 0.5])
@pytest.mark.parametrize("y", TARGETS)
def test_the_slope_is_the_mean_slope_over_a_window(loss: BoundedSlope, smoothing: float, y: float) -> None:
    form = surrogate(loss, smoothing)
    jump = 2.0 if isinstance(loss, Absolute) else 1.0
    window = jump / form.curvature
    ends = MARGINS[:, None] + np.array([-0.5, 0.5]) * window
    values = loss.value(ends, np.full(ends.shape, y))
    assert slope(form, y) == pytest.approx((values[:, 1] - values[:, 0]) / window, abs=1e-9)
    added = cumulative_trapezoid(slope(form, y), MARGINS, initial=0.0)
    excess = added - (loss.value(MARGINS, np.full(len(MARGINS), y)) - loss.value(MARGINS[:1], np.array([y])))
    assert excess.min() > -1e-6  # the forms are equal at the first margin, which is outside of the window
    assert excess.max() == pytest.approx(jump * window / 8, rel=1e-3)


@pytest.mark.parametrize("kind", get_args(BoundedSlope), ids=lambda kind: str(kind.__name__))
def test_no_form_has_longer_slopes_or_more_curvature(kind: type[BoundedSlope]) -> None:
    loss = kind()
    for smoothing in (1e-9, 0.3, 1e9):
        form = at_least(loss, smoothing)
        assert form.slope_bound == loss.slope_bound
        assert form.curvature_bound <= min(loss.curvature_bound, 1 / min(smoothing, 100.0))


@pytest.mark.parametrize("loss", [Huber(0.7), HuberHinge(0.7), Quantile(0.2, 0.7)], ids=repr)
def test_a_loss_that_is_smooth_enough_is_kept(loss: Huber | HuberHinge | Quantile) -> None:
    assert surrogate(loss, 0.3) == Surrogate(loss, 1 / 0.7)


@pytest.mark.parametrize("loss", [Huber(0.1), HuberHinge(0.1), Quantile(0.2, 0.1)], ids=repr)
@pytest.mark.parametrize("y", TARGETS)
def test_a_wider_line_keeps_its_center(loss: BoundedSlope, y: float) -> None:
    """Where the slope is halfway between its ends, for the loss and for its form."""
    form = surrogate(loss, 0.6)
    halves = []
    for slopes in (loss.slope(MARGINS, np.full(len(MARGINS), y)), slope(form, y)):
        low, high = float(slopes.min()), float(slopes.max())
        halves.append(MARGINS[np.argmin(np.abs(slopes - (low + high) / 2))])
    assert halves[0] == pytest.approx(halves[1], abs=1e-3)
    assert form.curvature < 1 / 0.1


@pytest.mark.parametrize("loss", [Quantile(0.9), Hinge()], ids=repr)
def test_a_gradient_is_requested_where_every_margin_has_moved(loss: BoundedSlope) -> None:
    """In a frame whose constant is not 1; the method's own point stays."""
    form, row, requests = surrogate(loss, 0.5), np.array([0.7, -1.2, 0.3]), []

    class Recorder:
        share = 1.0

        def gradient(self, query: str, w: Any, *arguments: Any) -> Any:
            requests.append((query, w, arguments))
            return w

    point, frame = np.array([0.5, -2.0, 1.5]), Frame(np.zeros(2), np.ones(2), float(row[-1]))
    GradientRequest(0.25, 1.0, form).answer(Recorder(), point, frame)  # type: ignore[arg-type]
    ((query, w, arguments),) = requests
    assert (query, arguments) == ("gradient", (frame, 0.25, form.loss.smoothing))
    assert row @ w == pytest.approx(form.factor * (row @ point) + form.shift, rel=1e-12)
    assert point.tolist() == [0.5, -2.0, 1.5]
