"""Hidden steps: noisy proximal gradient descent of which only the last point is answered.

T times: y = round_gamma(w - eta grad F(w)) + gamma round(N / gamma), N ~ N(0, std^2 I); w = P(y).

P(y) = prox_(eta r, C)(y, pulled back to norm B), B public. Only w_T = P(y_T) leaves.

Precondition: f smooth and convex with gradients bounded by proof (rows are scaled, gradients never clipped); eta < 2/L;
T, eta and the start are public. Iterates, not gradients, are put on the lattice: with rounded gradients the low bits of
w_T would tell of the path (docs/spec 15).
Postcondition: mu-GDP, mu = (2/z) sqrt(T_eff), for std >= z (b + gamma sqrt(d)), b = eta G / n + the rounding of one
step. Proof: docs/proofs/last_iterate.md.
"""

import numpy as np

from accounting.plan import PlannedQuery
from solvers.bounds import reach, step_bound
from solvers.data_access.data import Data, blocks
from solvers.data_access.meter import Meter
from solvers.data_access.sums import gradient_sum
from solvers.problem import Vector


def last_iterate(data: Data, meter: Meter, planned: PlannedQuery, steps: int, step: float) -> Vector:
    """w_T from the problem's start; nothing else derived from a point leaves this function."""
    problem = data.problem
    w, limit, bound = problem.start, reach(problem, step), step_bound(problem, step)
    for _ in range(steps):
        meter.pulse()
        gradient = gradient_sum(data, blocks(problem.n, problem), w) / problem.n
        y = meter.perturb(planned, w - step * gradient, bound)
        w = problem.prox(pulled_back(y, limit), step)
    return w


def pulled_back(y: Vector, limit: float) -> Vector:
    """The nearest point of the ball of radius `limit` around 0, by the same operations inside and outside."""
    return y * (limit / max(float(np.linalg.norm(y)), limit))
