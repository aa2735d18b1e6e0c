"""The distribution of a choice from a public list, computed instead of sampled."""

from fractions import Fraction

import numpy as np

from accounting.mechanisms.exponential import weights
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.audit.neighbors import without
from solvers.data_access import inputs
from solvers.data_access.lattice_sums import TabulatingAccess
from solvers.methods.data.inverse_sensitivity import InverseSensitivityRun
from solvers.problem import Problem, Vector


class _Choosing(TabulatingAccess):
    """An access that stores the distribution of a choice instead of drawing it."""

    __slots__ = ("law",)

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        planned = self.planned(query)
        shares = [Fraction(share) for share in weights(value, planned.noise_multiplier, bound)]
        whole = sum(shares)
        self.law = [share / whole for share in shares]
        return np.zeros(1)


def law(
    method: InverseSensitivityRun, problem: Problem, plan: Plan, y: Vector, is_last_null: bool = False
) -> list[Fraction]:
    """Return the probability of each grid point, from the weights of a run on rows of ones."""
    data = inputs.of_arrays(np.ones((problem.n, problem.d)), y, problem)
    data = without(data, -1) if is_last_null else data
    access = _Choosing(problem, data, plan, Noise())
    method.run(access, problem)
    return access.law
