"""Hidden steps: noisy proximal gradient descent of which only the last point is released.

Repeat T times: y = round_gamma(w - eta grad F(w)) + gamma round(N / gamma), N ~ N(0, std^2 I); w = P(y).

P(y) = prox_(eta r, C)(y, pulled back to norm B), B public. Only w_T = P(y_T) leaves.

Precondition: f is smooth and convex with gradients bounded by proof (rows are scaled, gradients are never clipped);
eta < 2/L; T, eta and the start are public. Iterates, not gradients, are rounded to the lattice: with rounded gradients
the low bits of w_T would reveal the path (docs/spec 15).
Postcondition: mu-GDP, mu = (k/z) sqrt(T_eff), k = 2 (zero_out: 1), for std >= z (b + 2 gamma sqrt(d)), b = eta G / n
+ the rounding of one step in two runs. Proof: docs/proofs/last_iterate.md.
"""

import numpy as np

from accounting.errors import OutOfPlan
from accounting.mechanisms import LastIterate
from solvers.data_access.full_batch import FullBatchOracle
from solvers.data_access.sums import mean_gradient
from solvers.hidden_steps import contraction, reach, step_bound
from solvers.problem import Vector


class HiddenStepsOracle(FullBatchOracle):
    """A full-batch oracle that also releases the last iterate of a run with hidden steps."""

    __slots__ = ()

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """Return w_T from the problem's start as one answer; no other value that depends on a point leaves this method.

        Raises
        ------
        OutOfPlan
            if the plan has no last iterate of exactly these steps, or if it has been released
        """
        problem, meter = self._problem, self._meter
        planned = meter.take(query, LastIterate)
        if planned.mechanism != LastIterate(steps, contraction(problem, step)):
            raise OutOfPlan(f"query {query!r} is planned for another number or length of steps. Plan it again")
        w = problem.start
        limit = reach(problem, step)
        bound = step_bound(problem, step)
        for _ in range(steps):
            meter.pulse()
            gradient = mean_gradient(self._data, w)
            y = meter.perturb(planned, w - step * gradient, bound)
            w = problem.prox(pulled_back(y, limit), step)
        meter.report()
        return w


def pulled_back(y: Vector, limit: float) -> Vector:
    """Return the nearest point of the ball of radius `limit` around 0, with equal operations inside and outside."""
    return y * (limit / max(float(np.linalg.norm(y)), limit))
