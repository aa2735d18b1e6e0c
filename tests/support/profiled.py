"""Six hundred records of which a profile is released, and the moments that one stated."""

import numpy as np

from solvers.columns import Columns
from solvers.preparation.moments import Moments
from solvers.problem import Vector

N = 600
LAYOUT = Columns((1, 3, 1, 1), ((-1.0, 1.0), (0.0, 1.0), (-0.5, 1.0)))
PROFILE_MOMENTS = Moments((0.2, 0.5, 0.3, 0.2, 0.4, 0.1), (0.3, 0.2, 0.2, 0.1, 0.05, 0.1), (0.01,) * 6)


def random_records() -> tuple[Vector, Vector]:
    """Return rows and labels; one row lies at the declared lower bounds."""
    rng = np.random.default_rng(3)
    kinds = np.eye(3)[rng.integers(0, 3, N)]
    numbers = np.column_stack((rng.uniform(0, 0.01, N), rng.uniform(-0.5, 1, N)))
    X = np.column_stack((rng.normal(0.3, 0.2, N).clip(-1, 1), kinds, numbers, np.ones(N)))
    X[7] = (-1.0, 1.0, 0.0, 0.0, 0.0, -0.5, 1.0)
    return X, np.sign(X[:, 0] - 0.3 + X[:, 1] / 5)
