"""Problem: derived constants by hand and by numerical maximization, the joint prox, the border."""

import math
from typing import Any

import numpy as np
import pytest

from solvers import Problem
from solvers.domains import L2Ball
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Loss, Squared
from solvers.regularizers import L2

RNG = np.random.default_rng(3)


def test_constants_by_hand() -> None:
    logistic = Problem(Logistic(), L2(0.01), L2Ball(10.0), n=100, d=5, row_norm=3.0)
    assert (logistic.G, logistic.L, logistic.mu) == (3.0, 2.25, 0.01)
    squared = Problem(Squared(0.5), n=100, d=5, row_norm=3.0)
    assert (squared.G, squared.L, squared.mu) == (1.5, 9.0, 0.0)
    assert squared.start.tolist() == [0.0] * 5


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Logistic(), Squared(0.8)], ids=repr)
def test_constants_bound_every_record_and_are_approached(loss: Loss) -> None:
    """||grad f_i(w)|| <= G and ||grad f_i(w) - grad f_i(v)|| <= L ||w - v||, over rows of norm at most R."""
    problem = Problem(loss, n=1, d=3, row_norm=2.0)
    largest, steepest = 0.0, 0.0
    for _ in range(4000):
        x = RNG.standard_normal(3)
        x *= problem.row_norm * RNG.choice([1.0, 1.0, RNG.random()]) / np.linalg.norm(x)
        y = RNG.choice([-1.0, 1.0], 1)
        w = RNG.standard_normal(3) * RNG.choice([0.01, 1.0, 30.0])
        v = w + x * RNG.choice([1e-4, 0.1, 3.0])

        def gradient(at: np.ndarray[Any, Any], x: Any = x, y: Any = y) -> np.ndarray[Any, Any]:
            return np.asarray(loss.slope(np.array([x @ at]), y)[0] * x)

        largest = max(largest, float(np.linalg.norm(gradient(w))))
        steepest = max(steepest, float(np.linalg.norm(gradient(w) - gradient(v)) / np.linalg.norm(w - v)))
    assert 0.99 * problem.G <= largest <= problem.G * (1 + 1e-12)
    assert 0.9 * problem.L <= steepest <= problem.L * (1 + 1e-8)


def test_prox_is_the_minimizer_over_the_ball() -> None:
    """argmin over ||u|| <= 1 of step (lambda/2) ||u||^2 + ||u - w||^2 / 2, against points all over the ball."""
    problem = Problem(Logistic(), L2(0.5), L2Ball(1.0), n=10, d=2, row_norm=1.0)
    angles, radii = np.meshgrid(np.linspace(0, 2 * np.pi, 721), np.linspace(0, 1, 201))
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)
    for w in (np.array([3.0, 1.0]), np.array([0.4, -0.2]), np.array([0.0, 1.3])):
        u = problem.prox(w, 0.8)
        best = 0.4 / 2 * u @ u + (u - w) @ (u - w) / 2
        values = 0.4 / 2 * (points**2).sum(-1) + ((points - w) ** 2).sum(-1) / 2
        assert np.linalg.norm(u) <= 1 + 1e-14  # two norms and a quotient of two entries
        assert best <= values.min() + 1e-12


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


def test_what_a_release_left_behind_is_checked() -> None:
    with pytest.raises(Unsuitable, match="declared columns"):
        Problem(Logistic(), n=10, d=2, row_norm=1.0, moments=((0.0,), (1.0,), (0.1,)))
    with pytest.raises(Unsuitable, match="at least 1"):
        Problem(Logistic(), n=10, d=2, row_norm=1.0, stretch=0.5)
