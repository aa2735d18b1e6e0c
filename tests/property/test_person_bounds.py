"""Bounds for persons hold, by enumeration and beside the same rows without persons."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from accounting import Unit
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation, sensitivity_factor
from solvers import Problem, moment_bounds
from solvers.bounds import gradient_bound, gradient_error, sampled_bound
from solvers.centred import centred_bound
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.hidden_steps import step_bound
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods.data.ada_ssp import AdaSspRun
from solvers.methods.data.descent import Piece
from solvers.problem import Vector
from solvers.regularizers import L2
from tests.support.noiseless import noiseless
from tests.support.seeded import SeededBits

LAYOUTS = [
    Columns((1,), ((0.0, 1.0),)),
    Columns((1, 1), ((0.0, 1.0), (-0.25, 0.0))),
    Columns((1,), ((-0.5, 0.25),)),
    Columns((1, 1)),
    Columns((3,)),
    Columns((1, 2), ((0.0, 0.5),)),
]
N, K = 10**4, 1000
PERSON = Problem(Logistic(), L2(0.1), n=N, d=3, row_norm=1.0, unit=Unit("person", K))
ROWS = replace(PERSON, n=N * K, unit=Unit())


def farthest_rows(columns: Columns) -> list[Vector]:
    """Every row at an end of each range, without the empty place."""
    ranges = iter(zip(columns.low, columns.high, strict=True))
    parts = [[np.array([end]) for end in next(ranges)] if w == 1 else list(np.eye(w)) for w in columns.widths]
    return [np.concatenate((*row, [1.0])) for row in itertools.product(*parts)]


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("columns", LAYOUTS, ids=str)
def test_the_bound_of_persons_means_is_the_largest_distance_of_two_means(columns: Columns, relation: Relation) -> None:
    """A person's mean lies in the hull of rows and zero, so the farthest pair of these is the bound."""
    null = np.zeros(columns.d)
    ends = [*farthest_rows(columns), null]
    other_ends = [null] if relation == "zero_out" else ends
    largest_distance = max(float(np.linalg.norm(end - other_end)) for end in ends for other_end in other_ends)
    bound = moment_bounds.means(columns, relation, Unit("person", 2))
    assert bound * sensitivity_factor(relation) == pytest.approx(largest_distance, rel=1e-12)


def rounding(problem: Problem) -> dict[str, float]:
    """Return the part of each bound that remains without the record's own contribution."""
    n, G = problem.n, problem.G
    piece, squared = Piece(problem, range(n), 0.1), replace(problem, loss=Squared())
    softmax = replace(problem, loss=Softmax(3))
    ada = AdaSspRun(5).bounds(squared)
    return {
        "gradient": gradient_bound(problem) - G / n,
        "softmax": gradient_bound(softmax, 10.0) - softmax.G / n,
        "sampled": (sampled_bound(problem, n, G) - G / n),
        "sampled softmax": sampled_bound(softmax, n, G, 10.0) - G / n,
        "centred": centred_bound(problem, n, G) - G / n,
        "error": gradient_error(problem, n, 10.0),
        "hidden": step_bound(problem, 0.5) - 0.5 * G / n,
        "descent": piece.rounding(0.0),
        "second moments": ada["second_moments"][0] - 1 / math.sqrt(2) / n,
        "least eigenvalue": ada["least_eigenvalue"][0] - 0.5 / n,
        "target moments": ada["target_moments"][0] - squared.loss.slope_bound / n,
    }


def test_rounding_of_persons_covers_all_their_places() -> None:
    """Sums over n persons with k rows have n k terms, so rounding is at least that of n k rows."""
    persons, rows = rounding(PERSON), rounding(ROWS)
    for name, lower_bound in rows.items():
        assert persons[name] >= lower_bound * (1 - 1e-6), name


def standardised(problem: Problem) -> dict[str, float]:
    """Return the part of each answer's bound that remains without the record's own contribution."""
    columns, n = problem.columns, problem.n
    assert columns is not None
    X, here = np.zeros((problem.slots, 2)), np.ones(problem.slots, np.bool_)
    X[:, -1] = 1.0
    data = inputs.of_arrays(X, X[:, 0], problem, here if problem.unit.is_person else None)
    names = ("means", "spread", "variances", "target_mean", "target_spread", "residual", "gradient")
    answer_plan = Plan(tuple(PlannedQuery(name, 1, Gaussian(), 1e-3) for name in names))
    with noiseless() as answers:
        oracle = StandardisedOracle(problem, data, answer_plan, Noise(SeededBits(1)))
        m, frame = np.zeros(1), Frame(np.zeros(1), np.ones(1), 1.0)
        oracle.means("means"), oracle.spread("spread", m), oracle.variances("variances", m, 10.0)
        oracle.target_mean("target_mean"), oracle.target_spread("target_spread", 0.0)
        oracle.residual("residual", np.zeros(2), frame, 1.0), oracle.gradient("gradient", np.zeros(2), frame, 1.0)
    own = dict.fromkeys(names, 0.5) | {"target_mean": 1.0, "gradient": 1.0}
    own["means"] = moment_bounds.means(columns, unit=problem.unit)
    return {name: answer.bound - own[name] / n for name, answer in zip(names, answers, strict=True)}


def test_rounding_of_persons_moments_covers_all_their_places() -> None:
    """The tolerance covers the part of rounding that is relative to the bound, which falls as 1 / n."""
    columns = Columns((1,))
    person = Problem(Squared(), n=40, d=2, row_norm=columns.row_norm, columns=columns, unit=Unit("person", 400))
    persons, rows = standardised(person), standardised(replace(person, n=40 * 400, unit=Unit()))
    assert len(rows) == 7
    for name, lower_bound in rows.items():
        assert persons[name] >= lower_bound - 1e-17, name
