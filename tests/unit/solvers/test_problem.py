"""Problem: derived constants by hand and by numerical maximization, the joint prox, and checks of values."""

import math
from typing import Any

import pytest

from solvers import Problem
from solvers.domains import L2Ball
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Softmax, Squared
from solvers.regularizers import L2


def test_constants_by_hand() -> None:
    logistic = Problem(Logistic(), L2(0.01), L2Ball(10.0), n=100, d=5, row_norm=3.0)
    assert (logistic.G, logistic.L, logistic.mu) == (3.0, 2.25, 0.01)
    squared = Problem(Squared(0.5), n=100, d=5, row_norm=3.0)
    assert (squared.G, squared.L, squared.mu) == (1.5, 9.0, 0.0)
    assert squared.start.tolist() == [0.0] * 5
    softmax = Problem(Softmax(3), n=1, d=4, row_norm=2.0)
    assert (softmax.G, softmax.L, softmax.shape) == (2 * math.sqrt(2), 2.0, (3, 4))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0},
        {"n": -1},
        {"n": 2.0},
        {"n": True},
        {"n": 10**11},
        {"d": 0},
        {"d": 1.5},
        {"d": 10**7},
        {"row_norm": 0.0},
        {"row_norm": -1.0},
        {"row_norm": math.nan},
        {"row_norm": math.inf},
        {"row_norm": 1e7},
        {"row_norm": 5e-324},
        {"row_norm": True},
        {"row_norm": "1"},
    ],
    ids=repr,
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Problem(Logistic(), **({"n": 10, "d": 2, "row_norm": 1.0} | wrong))


def test_the_moments_and_the_stretch_of_a_release_are_checked() -> None:
    with pytest.raises(Unsuitable, match="declared columns"):
        Problem(Logistic(), n=10, d=2, row_norm=1.0, moments=((0.0,), (1.0,), (0.1,)))
    with pytest.raises(Unsuitable, match="at least 1"):
        Problem(Logistic(), n=10, d=2, row_norm=1.0, stretch=0.5)
