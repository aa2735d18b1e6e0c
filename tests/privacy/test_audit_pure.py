"""Audits at delta = 0: choices by their exact law on worst-case pairs, Laplace releases by an attacker; and mutants.

A choice's probabilities are the product's own weights over their sum, so its loss is computed, not estimated.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.mechanisms import Exponential, exponential
from accounting.mechanisms.exponential import weights
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from solvers import plan
from solvers.audit.bounds import epsilon_lower_bound
from solvers.data_access import inputs
from solvers.data_access.access import DataAccess
from solvers.data_access.oracles import DataOracles
from solvers.domains import LinfBall
from solvers.losses import Absolute, HuberHinge, Logistic
from solvers.methods import InverseSensitivity, OutputPerturbation
from solvers.methods.data.descent import Piece
from solvers.methods.data.inverse_sensitivity import InverseSensitivityRun
from solvers.methods.data.output_perturbation import OutputPerturbationRun
from solvers.methods.run import Bounds
from solvers.problem import Problem
from solvers.regularizers import L2
from tests.support.runs import access_to
from tests.support.seeded import SeededBits

Array = NDArray[np.float64]
EPSILON = 1.0
CELLS = 1024
MEDIAN = Problem(Absolute(), domain=LinfBall(1.0), n=20, d=1, row_norm=1.0)
# The wide middle moves from score 1 to 0, the right end from n/2 - 1 to n/2: exponent and normalizer move as far as
# they can, against each other (the pair of docs/spec 7, on [-1, 1]).
TARGETS = np.array([-1.0] * 9 + [0.99] * 10 + [1.0])
MOVED = np.array([-1.0] * 9 + [0.99] * 10 + [-1.0])


def law(method: InverseSensitivity, problem: Problem, X: Array, y: Array) -> list[Fraction]:
    """Return the probability of each point of the grid, computed from the weights of a run."""
    probabilities: list[Fraction] = []

    def watched(_: Exponential, value: Array, z: float, bound: float, _noise: Noise) -> Array:
        probabilities.extend(shares(weights(value, z, bound)))
        return np.zeros(1)

    quote = plan(method, problem, Privacy(EPSILON))
    with patch.object(Exponential, "perturb", watched):
        quote.method.answer(DataOracles(inputs.of_arrays(X, y, problem), quote.release.plan, Noise()))
    return probabilities


def shares(masses: Array | list[int]) -> list[Fraction]:
    """Return the weights divided by their sum."""
    exact = [Fraction(weight) for weight in masses]
    whole = sum(exact)
    return [weight / whole for weight in exact]


def loss(first: list[Fraction], second: list[Fraction]) -> float:
    """Return the largest |ln(P(j | D) / P(j | D'))|, which is the exact epsilon of the pair."""
    return max(abs(math.log(p / q)) for p, q in zip(first, second, strict=True))


def median_loss() -> float:
    X = np.ones((20, 1))
    first, second = (law(InverseSensitivity(grid=CELLS), MEDIAN, X, y) for y in (TARGETS, MOVED))
    return loss(first, second)


def test_a_median_has_a_loss_just_below_its_guarantee() -> None:
    assert 0.95 * EPSILON < median_loss() <= EPSILON


def test_mutant_exponent_not_halved_is_caught() -> None:
    """Equations (4) and (5) as printed: twice the promise."""
    with patch.object(exponential, "SCORE_MARGIN", 2.0):
        assert 1.9 * EPSILON < median_loss() <= 2 * EPSILON


def test_mutant_sensitivity_forgotten_is_caught() -> None:
    """2 b = 1/2: as if a record moved a score by G/n, which is right for add-or-remove neighbors only."""
    with patch.object(InverseSensitivityRun, "score_bound", lambda _self, _problem: 0.25):
        assert median_loss() > 1.9 * EPSILON


def test_mutant_weights_without_the_floor_are_caught() -> None:
    """With ceil alone the weight of a score 200 above the least changes from 1 to 2; the guarantee allows e^(1/2)."""

    def bare(scores: Array, z: float, bound: float) -> list[int]:
        return [max(1, math.ceil(2.0**80 * math.exp(-(s - scores.min()) / (2 * z * bound)))) for s in scores]

    edge = 160 * math.log(2)
    first, second = np.array([0.0, edge + 0.5]), np.array([0.0, edge - 0.5])
    honest, caught = ([shares(law(scores, 2.0, 0.5)) for scores in (first, second)] for law in (weights, bare))
    assert loss(*honest) <= EPSILON / 2 + 1e-12
    assert loss(*caught) > 0.69


@pytest.mark.parametrize("d", [1, 2])
def test_random_pairs_of_regressions_keep_the_guarantee(d: int) -> None:
    rng, worst = np.random.default_rng(d), 0.0
    problem = Problem(Logistic(), L2(0.01), LinfBall(2.0), n=12, d=d, row_norm=1.0)
    for _ in range(12):
        X, y = rng.normal(size=(12, d)), np.sign(rng.normal(size=12))
        neighbor_rows = X.copy()
        neighbor_rows[3] = -neighbor_rows[3]
        worst = max(worst, loss(*(law(InverseSensitivity(grid=15), problem, rows, y) for rows in (X, neighbor_rows))))
    assert 0.2 * EPSILON < worst <= EPSILON


def test_drawn_choices_have_the_loss_of_the_weights() -> None:
    """The lower bound on epsilon from 6,000 draws of each dataset is 1.3. For the mutant it is 2.7."""
    scores = [np.r_[np.ones(9), 0.0], np.r_[np.zeros(9), 1.0]]
    noise = Noise(SeededBits(3))
    choices = [np.array([Exponential().perturb(s, 1.0, 0.5, noise)[0] for _ in range(6000)]) for s in scores]
    assert 1.0 < epsilon_lower_bound(choices[0], choices[1], 0.0) <= 2.0
    with patch.object(exponential, "SCORE_MARGIN", 2.0):
        choices = [np.array([Exponential().perturb(s, 1.0, 0.5, noise)[0] for _ in range(6000)]) for s in scores]
        assert epsilon_lower_bound(choices[0], choices[1], 0.0) > 2.0


WIDE = Problem(HuberHinge(0.1), L2(2.0), n=4, d=4, row_norm=1.0)
EPSILON_OF_RELEASE = 2.0  # guarantee of the release
RUNS = 3000


def released(which: int) -> tuple[Array, Array]:
    """Return many releases on one of two datasets, and the minimizers of both, which are as far apart as possible."""
    X, y = np.full((4, 4), 0.5), np.ones(4)
    neighbor_rows = X.copy()
    neighbor_rows[0] = -neighbor_rows[0]
    centers = []
    for rows in (X, neighbor_rows):
        access = access_to(inputs.of_arrays(rows, y, WIDE))
        centers.append(Piece(WIDE, range(4), 0.0).minimize(access, np.zeros(4), np.zeros(4), 60))
    quote = plan(OutputPerturbation(steps=60), WIDE, Privacy(EPSILON_OF_RELEASE))
    noise, data = Noise(SeededBits(10 + which)), inputs.of_arrays((X, neighbor_rows)[which], y, WIDE)
    method: Any = quote.method
    reached: list[Array] = []  # the minimizer of one dataset is the same for every run
    minimize = Piece.minimize

    def once(*arguments: Any) -> Array:
        if not reached:
            reached.append(minimize(*arguments))
        return reached[0].copy()

    with patch.object(Piece, "minimize", once):
        outputs = [method.run(DataAccess(WIDE, data, quote.release.plan, noise), WIDE) for _ in range(RUNS)]
    return np.array(outputs), np.array(centers)


def attacked() -> float:
    """Return the lower bound on epsilon of an attacker who knows both candidates."""
    (first, centers), (second, _) = released(0), released(1)
    tilts = [np.abs(x - centers[1]).sum(axis=1) - np.abs(x - centers[0]).sum(axis=1) for x in (first, second)]
    return epsilon_lower_bound(tilts[0], tilts[1], 0.0)


def test_output_perturbation_keeps_its_guarantee() -> None:
    assert 0.3 * EPSILON_OF_RELEASE < attacked() <= EPSILON_OF_RELEASE  # each coordinate reveals a quarter of it


def half_noise(lattice: Lattice, value: Array, noise: Noise) -> Array:
    steps = np.rint(value / lattice.spacing)
    return (steps + np.rint(noise.rounded_laplace(len(value), lattice.std / lattice.spacing) / 2)) * lattice.spacing


BOUNDS = OutputPerturbationRun.bounds


def l2_bound(method: OutputPerturbationRun, problem: Problem) -> Bounds:
    """Return a mutant's bounds, in which the factor sqrt(d) of the l1 sensitivity is forgotten."""
    bound, size = BOUNDS(method, problem)["minimizer"]
    return {"minimizer": (bound / math.sqrt(problem.d), size)}


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [(Lattice, "perturb_laplace", half_noise), (OutputPerturbationRun, "bounds", l2_bound)],
    ids=["half the noise", "sqrt(d) forgotten"],
)
def test_mutants_of_the_laplace_release_are_caught(owner: Any, name: str, mutant: Callable[..., Any]) -> None:
    with patch.object(owner, name, mutant):
        assert attacked() > EPSILON_OF_RELEASE
