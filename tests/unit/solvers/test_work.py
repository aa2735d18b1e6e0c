"""Counts of operations, which must not depend on the records, on pairs that differ as much as possible.

The work after an answer may depend on that answer, which is private. So all draws are the same here, and the compared
runs release nothing before their end, or have no branch after an answer.
"""

from collections import Counter
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy, Unit
from accounting.noise import Noise
from solvers import methods, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall
from solvers.losses import Hinge, Logistic, Loss, Power, Quantile, Sigmoid, Softmax, Squared
from solvers.problem import Problem
from solvers.regularizers import L2, ElasticNet, NoRegularizer, Regularizer
from solvers.solve import run
from tests.support.operations import operations
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits

Array = NDArray[np.float64]
N, D = 130, 3
PURE, BALL = Privacy(1.0), Privacy(1.0, 1e-6)


def pairs(classes: bool, d: int) -> list[tuple[Array, Array]]:
    """Return zero rows, equal rows, rows of all lengths, mostly beyond the norm, and zero rows with one exception."""
    rng = np.random.default_rng(1)
    alike, mixed, single = (
        np.ones((N, d)),
        rng.standard_normal((N, d)) * np.logspace(-3, 3, N)[:, None],
        np.zeros((N, d)),
    )
    single[7] = 1.0
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0 if classes else -0.3)
    return [(np.zeros((N, d)), np.ones(N)), (alike, np.ones(N)), (mixed, y), (single, y)]


def work(
    method: methods.Method,
    problem: Problem,
    privacy: Privacy,
    X: Array,
    y: Array,
    present: NDArray[np.bool_] | None = None,
) -> Counter[tuple[str, int]]:
    quote = plan(method, problem, privacy)
    if problem.columns is not None:  # one block of two
        X = np.column_stack((X[:, 0] > 0, X[:, 0] <= 0, np.ones(N))).astype(float)
    once = inputs.of_arrays(X, y, problem, present)
    run_quote(quote, once, 1)  # what is made once
    noise = Noise(SeededBits(1))
    return operations(
        lambda: run(quote.method, problem, inputs.of_arrays(X, y, problem, present), quote.release, noise)
    )


def small(loss: Loss, domain: Domain, regularizer: Regularizer | None = None, d: int = 3) -> Problem:
    return Problem(loss, regularizer or NoRegularizer(), domain, n=N, d=d, row_norm=1.0)


EPOCHS = methods.EpochGrowth(kappa=2.0, epochs=2, phases=2, ratio=2.0, step=0.1, smoothing=0.0, steps=6)
BLOCK = Problem(Logistic(), n=N, d=3, row_norm=1.5, columns=Columns((2,)))
CASES = [
    (methods.AdaptiveGd(steps=9), BLOCK, BALL),
    (methods.OutputPerturbation(steps=9), small(Logistic(), L2Ball(0.1), L2(0.1)), BALL),
    (methods.OutputPerturbation(steps=9), small(Softmax(3), L1Ball(0.1), L2(0.1)), BALL),
    (methods.PhasedSgd(), small(Logistic(), L1Ball(0.1), ElasticNet(0.1, 0.1)), PURE),
    (methods.Localization(steps=9), small(Squared(), L2Ball(0.1)), BALL),
    (EPOCHS, small(Squared(), L2Ball(0.1)), BALL),
    (methods.GrowthReduction(steps=9), small(Squared(), LinfBall(0.1)), BALL),
    (methods.BootstrapReduction(), small(Squared(), L1Ball(0.1)), PURE),
    (methods.ObjectivePerturbation(), small(Logistic(), L2Ball(0.1), L2(0.1)), BALL),
    (methods.AdaSsp(), small(Squared(), Free(), L2(0.1)), BALL),
    (methods.InverseSensitivity(grid=6), small(Squared(), L2Ball(0.1), L2(0.1), d=2), PURE),
    (methods.DpGd(release="last"), small(Logistic(), L1Ball(0.1), L2(0.1)), BALL),
    (methods.DpGd(), small(Sigmoid(), L1Ball(0.1)), BALL),
    (methods.DpAccMd(), small(Quantile(0.3, 0.1), L2Ball(0.1)), BALL),
    (methods.NoisySgd(steps=30), small(Power(), L2Ball(0.1)), BALL),
    (methods.NoisyMirrorDescent(batch=10), small(Hinge(), L2Ball(0.1)), BALL),
    (methods.DpSvrg(), small(Logistic(), L2Ball(0.1)), BALL),
    (methods.DpSvrgPp(), small(Logistic(), L2Ball(0.1)), BALL),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "problem", "privacy"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_the_records_do_not_change_the_work(method: methods.Method, problem: Problem, privacy: Privacy) -> None:
    first, *later = (work(method, problem, privacy, X, y) for X, y in pairs(problem.loss.takes == "class", problem.d))
    assert sum(first.values()) > 1000
    for counts in later:
        assert counts == first


@pytest.mark.slow
@pytest.mark.parametrize(("method", "problem", "privacy"), CASES, ids=lambda x: getattr(x, "name", ""))
def test_the_number_of_rows_of_persons_does_not_change_the_work(
    method: methods.Method, problem: Problem, privacy: Privacy
) -> None:
    """Compare persons without rows, persons with all rows, and every second person with one row."""
    persons, counted = replace(problem, n=N // 2, unit=Unit("person", 2)), []
    if isinstance(method, methods.InverseSensitivity | methods.EpochGrowth):  # refused, or too few for its phases
        persons = replace(problem, unit=Unit("person", 1))
    X, y = pairs(problem.loss.takes == "class", problem.d)[2]
    for present in (np.zeros(N, np.bool_), np.ones(N, np.bool_), np.arange(N) % 4 == 0):
        counted.append(work(method, persons, privacy, X, y, present))
    assert counted[0] == counted[1] == counted[2]


def test_every_method_is_here() -> None:
    assert {type(method) for method, _, _ in CASES} == set(get_args(methods.Method))
