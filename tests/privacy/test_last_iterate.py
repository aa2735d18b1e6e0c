"""Audits of dp_gd's last iterate where its law is known exactly, and mutants that they must catch.

A smoothed hinge is linear while margins are small, so with l2 the last iterate is exactly Gaussian, and the two rows
y = +1 and y = -1 move its mean as far as any record may at every step: the bound of T6 is attained there.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

import solvers.methods.oracle.dp_gd
from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import LastIterate
from accounting.mechanisms.mechanism import Curves
from accounting.noise.lattice import Lattice
from accounting.plan import Plan, PlannedQuery
from solvers.audit.attack import excess
from solvers.audit.bounds import mu_lower_bound
from solvers.bounds import gradient_bound
from solvers.data_access import inputs
from solvers.data_access import last_iterate as hidden
from solvers.data_access.data import Data
from solvers.data_access.last_iterate import pulled_back
from solvers.data_access.meter import Meter
from solvers.data_access.oracles import DataOracles
from solvers.data_access.sums import mean_gradient
from solvers.domains import LinfBall
from solvers.hidden_steps import contraction, step_bound
from solvers.losses import HuberHinge
from solvers.methods.oracle.dp_gd import DpGdRun
from solvers.problem import Problem, Vector
from solvers.regularizers import L2
from tests.support.audit import Attack, source, violates
from tests.support.mutants import half_noise, mutated

PROMISE = Privacy(20.0, 1e-5)  # mu* = 3.4, where 1,500 runs tell mu to a fifth
MILD = Privacy(4.0, 1e-5)
STEP = 1 / 16  # 1/L, a power of two
SLOW = Problem(HuberHinge(1 / 16), L2(4.0), n=40, d=2, row_norm=1.0)  # c = 4/5, T_eff near 9
HALF = Problem(HuberHinge(1 / 16), L2(16.0), n=40, d=2, row_norm=1.0)  # c = 1/2, T_eff near 3
FAST = Problem(HuberHinge(1 / 16), L2(144.0), n=40, d=2, row_norm=1.0)  # c = 1/10, T_eff near 11/9

last_iterate, perturbed = hidden.HiddenStepsOracle.last_iterate, Meter.perturb
Scores = tuple[NDArray[np.float64], NDArray[np.float64]]


def planned(problem: Problem, steps: int, promise: Privacy = PROMISE) -> Plan:
    return calibrate(DpGdRun(steps, STEP, "last").queries(problem), promise).plan


def attacked(problem: Problem, plan: Plan, steps: int, score: Callable[[Vector], float]) -> Attack:
    """Return an attack that scores the releases from each of two neighbors."""
    method, sides = DpGdRun(steps, STEP, "last"), []
    for which, label in enumerate((1.0, -1.0)):
        X, y = np.zeros((problem.n, problem.d)), np.zeros(problem.n)
        X[0, 0], y[0] = 1.0, label
        sides.append((inputs.of_arrays(X, y, problem), source(10, which)))

    def attack(runs: int) -> Scores:
        first_scores, second_scores = (
            np.array([score(method.answer(DataOracles(data, plan, noise))) for _ in range(runs)])
            for data, noise in sides
        )
        return first_scores, second_scores

    return attack


def first(w: Vector) -> float:
    return float(w[0])


@cache  # two tests use the same releases
def honest(problem: Problem, steps: int) -> Scores:
    return attacked(problem, planned(problem, steps), steps, first)(1500)


def is_caught(
    problem: Problem,
    steps: int,
    runs: int = 500,
    score: Callable[[Vector], float] = first,
    promise: Privacy = PROMISE,
) -> bool:
    """Return whether the audit's lower bound on mu exceeds the guarantee within so many runs."""
    attack = attacked(problem, planned(problem, steps, promise), steps, score)
    promised = gauss_mu(promise.epsilon, promise.delta)
    return violates(
        attack,
        runs,
        lambda first_scores, second_scores, alarm: mu_lower_bound(first_scores, second_scores, alarm) - promised,
    )


@pytest.mark.parametrize(("problem", "steps"), [(SLOW, 12), (FAST, 1)], ids=["slow", "one step"])
def test_the_last_iterate_has_a_loss_just_below_its_guarantee(problem: Problem, steps: int) -> None:
    """The bound is below mu* and near it: the noise is the smallest that T6 allows, and the audit has power."""
    plan, both_scores = planned(problem, steps), honest(problem, steps)
    bound, promised = mu_lower_bound(*both_scores), gauss_mu(PROMISE.epsilon, PROMISE.delta)
    assert 0.8 * promised < bound <= promised
    assert excess(*both_scores, plan) <= 0


def test_the_law_is_the_known_gaussian() -> None:
    """Mean +- eta (c + .. + c^T) / n, variance tau^2 (c^2 + .. + c^2T); their ratio is the guarantee."""
    steps, c = 12, 0.8
    plan = planned(SLOW, steps)
    tau = plan.queries[0].mechanism.std(plan.queries[0].noise_multiplier, step_bound(SLOW, STEP), 2)
    mean = STEP / SLOW.n * sum(c**j for j in range(1, steps + 1))
    std = tau * math.sqrt(sum(c ** (2 * j) for j in range(1, steps + 1)))
    first_scores, second_scores = honest(SLOW, steps)
    assert 2 * mean / std == pytest.approx(gauss_mu(PROMISE.epsilon, PROMISE.delta), rel=1e-4)
    for sample, sign in ((first_scores, 1), (second_scores, -1)):
        assert abs(sample.mean() - sign * mean) < 6 * std / math.sqrt(len(sample))
        assert abs(sample.std() / std - 1) < 6 / math.sqrt(2 * len(sample))


def test_mutant_half_the_noise_is_caught() -> None:
    with mutated(Lattice, "perturb", half_noise):
        assert is_caught(SLOW, 12)


def test_mutant_a_stronger_contraction_claimed_is_caught() -> None:
    """T_eff at c^2 = .64 is 4.6 where 9 is due."""

    def stronger(problem: Problem, step: float) -> float:
        return contraction(problem, step) ** 2

    with (
        mutated(solvers.methods.oracle.dp_gd, "contraction", stronger),
        mutated(hidden, "contraction", stronger),
    ):
        assert is_caught(SLOW, 12, 1200)


def test_mutant_factor_two_forgotten_is_caught() -> None:
    """The bound of one record taken for the sensitivity: the noise is calibrated as if mu = sqrt(T_eff) / z."""
    multiplier = LastIterate.multiplier
    with (
        mutated(LastIterate, "curves", lambda self, z, *_: Curves.gaussian(math.sqrt(self.effective_steps) / z)),
        mutated(LastIterate, "multiplier", lambda self, m, *_: multiplier(self, m) / 2),
    ):
        assert is_caught(SLOW, 12)


def _with_previous_iterate(oracle: hidden.HiddenStepsOracle, query: str, steps: int, step: float) -> Vector:
    """Return the last iterate, with the previous iterate in its unused second coordinate."""
    iterates: list[Vector] = []

    def noted(y: Vector, limit: float) -> Vector:
        iterates.append(FAST.prox(pulled_back(y, limit), step))
        return pulled_back(y, limit)

    with patch.object(hidden, "pulled_back", noted):
        w = last_iterate(oracle, query, steps, step)
    assert np.array_equal(w, iterates[-1])
    return np.array([w[0], iterates[-2][0]])


def test_mutant_an_extra_iterate_released_is_caught() -> None:
    """Two looks where one was paid for: the last noise alone, and all earlier noise."""
    c = 0.1
    mean, spread = sum(c**j for j in range(1, 6)), sum(c ** (2 * j) for j in range(1, 6))

    def both(w: Vector) -> float:
        return float((w[0] / c - w[1]) + mean / spread * w[1])

    assert not is_caught(FAST, 6, 2000, both)
    with mutated(hidden.HiddenStepsOracle, "last_iterate", _with_previous_iterate):
        assert is_caught(FAST, 6, 2000, both)


# The low bits. Gradients on a lattice of spacing gamma, eta a power of two, c = 1/2: iterates live on multiples of
# eta gamma / 2^j, until one meets a boundary that is off every such lattice. From then on their class tells how long
# ago that was and on which side, although T6 says that it is forgotten.
STEPS = 24
REACH = 1.6  # the boundary, in stationary standard deviations of an iterate
DEPTH = 18


def _spacings(plan: Plan) -> tuple[float, float]:
    """tau, and the spacing of the lattice, of iterates or of eta times gradients: they are the same here."""
    z = plan.queries[0].noise_multiplier
    iterates = Lattice.fit(z, step_bound(HALF, STEP), HALF.d)
    gradients = Lattice.fit(z, gradient_bound(HALF), HALF.d)
    assert iterates.spacing == STEP * gradients.spacing
    return iterates.std, iterates.spacing


def _boxed() -> tuple[Problem, float, float]:
    """HALF in a box, its radius, and the spacing. The box is independent of the noise's plan: the plan is the same."""
    tau, spacing = _spacings(planned(HALF, STEPS, MILD))
    radius = REACH * tau / math.sqrt(3)  # c tau / sqrt(1 - c^2)
    assert abs(radius / spacing - round(radius / spacing)) > 1e-3  # off the lattice
    boxed = Problem(HALF.loss, HALF.regularizer, LinfBall(radius), n=HALF.n, d=HALF.d, row_norm=HALF.row_norm)
    assert planned(boxed, STEPS, MILD) == planned(HALF, STEPS, MILD)
    return boxed, radius, spacing


def _last_side(w: float, radius: float, spacing: float) -> int:
    """+1 or -1: the side of the box that the class of w says the path left last; 0 if it says nothing."""
    for j in range(DEPTH):
        for side in (1, -1):
            steps = (w * 2**j - side * radius) / spacing
            if abs(steps - round(steps)) < 2.0 ** (j - 26):
                return side
    return 0


@contextmanager
def rounded_gradients() -> Iterator[None]:
    """Round gradients to a lattice, and not iterates: the form for which T6 is not proven."""
    exact: list[Vector] = []

    def zeros(data: Data, w: Vector) -> Vector:
        exact.append(mean_gradient(data, w))
        return np.zeros_like(w)

    def perturb(meter: Meter, planned: PlannedQuery, w: Vector, _bound: float) -> Vector:
        return w - STEP * perturbed(meter, planned, exact[-1], gradient_bound(HALF))

    with mutated(hidden, "mean_gradient", zeros), mutated(Meter, "perturb", perturb):
        yield


def test_the_low_bits_of_the_last_iterate_do_not_depend_on_the_path() -> None:
    """Inside the boundary w_T is half a lattice point for every path, and its low bits identify no side."""
    boxed, radius, spacing = _boxed()
    plan = planned(boxed, STEPS, MILD)
    iterates = np.concatenate(attacked(boxed, plan, STEPS, first)(150))
    inside = iterates[np.abs(iterates) < radius]
    assert 100 < len(inside) < 300
    assert all(float(2 * w / spacing).is_integer() for w in inside)
    assert sum(_last_side(w, radius, spacing) != 0 for w in inside) <= 3
    with rounded_gradients():
        leaky = np.concatenate(attacked(boxed, plan, STEPS, first)(150))
    inside = leaky[np.abs(leaky) < radius]
    assert np.mean([float(2 * w / spacing).is_integer() for w in inside]) < 0.5
    assert np.mean([_last_side(w, radius, spacing) != 0 for w in inside]) > 0.5


def test_mutant_rounded_gradients_is_caught_by_its_low_bits() -> None:
    """The same attacker, who reads the side off the class, gains nothing on lattice iterates."""
    boxed, radius, spacing = _boxed()

    def attack(w: Vector) -> float:
        return REACH * _last_side(float(w[0]), radius, spacing) + 0.5 * float(w[0]) / (radius / REACH)

    assert not is_caught(boxed, STEPS, 500, attack, MILD)
    with rounded_gradients():
        assert is_caught(boxed, STEPS, 500, attack, MILD)
        assert not is_caught(boxed, STEPS, 500, first, MILD)  # its value alone, without the low bits, tells no more
