"""Problems whose records are persons of up to three rows, and the most distant rows."""

import math

import numpy as np

from accounting import Unit
from solvers import Problem
from solvers.columns import Columns
from solvers.domains import Free, LinfBall
from solvers.losses import Hinge, Logistic, Softmax, Squared
from solvers.problem import Vector
from solvers.regularizers import L2

N, K = 400, 3
PERSON = Unit("person", K)
COLUMNS = Columns((1, 3))
PROBLEMS = [
    Problem(loss, L2(0.05), domain, n=N, d=2, row_norm=1.0, unit=PERSON)
    for loss in (Logistic(), Squared(), Hinge())
    for domain in (Free(), LinfBall(1.0))
]
NUMBERS = Columns((1,))
PROBLEMS += [Problem(Squared(), L2(0.05), n=N, d=2, row_norm=math.sqrt(2), columns=NUMBERS, unit=PERSON)]
PROBLEMS += [
    Problem(loss, L2(0.05), n=N, d=5, row_norm=math.sqrt(3), columns=COLUMNS, unit=PERSON)
    for loss in (Logistic(), Squared(), Softmax(3))
]
FULL, FIRST, NONE = (True, True, True), (True, False, False), (False, False, False)
MINE = slice(7 * K, 7 * K + K)


def rows(problem: Problem, seed: int) -> tuple[Vector, Vector]:
    """Return a row for every slot, and the targets."""
    rng = np.random.default_rng(seed)
    if problem.columns is None:
        X = rng.normal(size=(problem.slots, problem.d))
    elif problem.columns == NUMBERS:
        X = np.column_stack((rng.uniform(-1, 1, problem.slots), np.ones(problem.slots)))
    else:
        block = np.eye(3)[rng.integers(3, size=problem.slots)]
        X = np.column_stack((rng.uniform(-1, 1, problem.slots), block, np.ones(problem.slots)))
    y = rng.integers(3, size=problem.slots).astype(float) if problem.outputs > 1 else np.sign(X[:, 0] - 0.1)
    return X, y


def row_at_bound(problem: Problem, upwards: bool) -> Vector:
    """Return a row at the bound of the row norm, or beyond it if rows are clipped."""
    if problem.columns is None:
        return np.array([5.0, 5.0]) * (1 if upwards else -1)
    if problem.columns == NUMBERS:
        return np.array([1.0 if upwards else -1.0, 1.0])
    return np.array([1.0, 1, 0, 0, 1] if upwards else [-1.0, 0, 0, 1, 1])
