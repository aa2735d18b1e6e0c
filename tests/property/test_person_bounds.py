"""What noise is for where a record is a person, held by enumeration and beside the same rows without persons."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from accounting import Unit
from accounting.privacy import Relation, apart
from solvers import Problem
from solvers.bounds import gradient_bound, gradient_error, sampled_bound
from solvers.centred import centred_bound
from solvers.columns import Columns
from solvers.hidden_steps import step_bound
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods.data.ada_ssp import AdaSspRun
from solvers.methods.data.descent import Piece
from solvers.problem import Vector
from solvers.regularizers import L2

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
def test_the_bound_of_persons_means_is_the_farthest_that_two_can_be(columns: Columns, relation: Relation) -> None:
    """A person's mean lies in the hull of rows and the empty place: the farthest pair of these, reached by k alike."""
    null = np.zeros(columns.d)
    ends = [*farthest_rows(columns), null]
    others = [null] if relation == "zero_out" else ends
    most = max(float(np.linalg.norm(one - other)) for one in ends for other in others)
    assert columns.mean_bound(relation, Unit("person", 2)) * apart(relation) == pytest.approx(most, rel=1e-12)


def rounding(problem: Problem) -> dict[str, float]:
    """Of each bound what is left of it without its record's own part."""
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


def test_rounding_of_persons_is_that_of_all_their_places() -> None:
    """Sums have n k terms, each as long as one of n k rows': what noise must cover is no less than of these."""
    persons, rows = rounding(PERSON), rounding(ROWS)
    for name, least in rows.items():
        assert persons[name] >= least * (1 - 1e-6), name
