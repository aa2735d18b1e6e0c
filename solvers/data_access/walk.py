"""The compiled walk of small batches: many answers of one Poisson-sampled query, each asked for at the point before.

    v_t = clipped sampled change + noise + snapshot while L ||w - anchor|| <= G, a sampled gradient + noise beyond
        (or a centred change + noise + snapshot)
    w <- prox(w - step v_t)

Every batch and every normal variable is drawn before the walk and used at its own step, at the scale of that step's
bound; a coordinate whose rounding double precision leaves open is decided by further bits, as everywhere. Sees data,
counts nothing: only `PrivateOracle.walk` calls it, after the plan's meter has. Proof: docs/proofs/oracle.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise, Tails, batch_sizes, batches
from accounting.noise.lattice import fineness
from accounting.plan import PlannedQuery
from solvers import kernels
from solvers.bounds import sampled_factors
from solvers.centred import centred_factors
from solvers.data_access.data import Data, places_of
from solvers.domains import Free, L2Ball
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer

_SMALL = 32  # rows expected in a batch: beyond, the rows and not the calls take the time


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """One problem's walk at one planned query and step."""

    data: Data
    planned: PlannedQuery
    rate: float
    loss: "kernels.Slope"
    public: "kernels.Walk"

    @staticmethod
    def of(problem: Problem, data: Data, planned: PlannedQuery, step: float, centred: bool = False) -> "Walk | None":
        """None unless all of it is compiled: batches, loss, regularizer and domain."""
        loss, mechanism = problem.compiled, planned.mechanism
        regularizer, domain = problem.regularizer, problem.domain
        if loss is None or not problem.is_smooth or not isinstance(mechanism, PoissonGaussian):
            return None
        size = mechanism.rate * problem.n * problem.unit.places
        if size > _SMALL or not batch_sizes.fits(problem.n, int(mechanism.rate * 2.0**64)):
            return None
        if not isinstance(regularizer, NoRegularizer | L2) or not isinstance(domain, Free | L2Ball):
            return None
        k, kept = fineness(planned.noise_multiplier, math.sqrt(problem.d))
        radius = domain.radius if isinstance(domain, L2Ball) else math.inf
        lattice = (planned.noise_multiplier, kept, float(k))
        end = (step, 1 + step * problem.mu, radius)
        changes = (problem.loss.curvature_bound if centred else 0.0, *centred_factors(problem))
        public = (problem.L, problem.G, problem.row_norm, size, *sampled_factors(problem), *lattice, *end, *changes)
        return Walk(data, planned, mechanism.rate, loss, public)

    def __call__(self, noise: Noise, w: Vector, anchor: Vector, snapshot: Vector, count: int) -> Vector:
        """The `count` points after w, shape (count, d)."""
        problem, d = self.data.problem, self.data.problem.d
        ends, drawn = batches.poisson_batches(noise, problem.n, self.rate, count)
        ends, places = problem.unit.places * ends, places_of(drawn, problem)
        tails = noise.tails(count * d)
        points, rounded = np.empty((count, d)), np.empty(d)
        w, anchor, snapshot = (np.array(v, dtype=np.float64) for v in (w, anchor, snapshot))
        t, given = 0, False
        while t < count:
            arrays = (ends, places, tails.sizes, tails.negative, rounded, t, given, w, anchor, snapshot, points)
            t, scale = kernels.walk(self.data.records, self.data.y, self.data.scale, self.loss, *arrays, self.public)
            w = points[t - 1] if t > 0 else w
            if scale < 0:
                raise Unsuitable("the walk has left the range of exact arithmetic")
            if given := scale > 0:
                _close(rounded, noise, tails, t * d, scale)
        return points


def _close(rounded: Vector, noise: Noise, tails: Tails, first: int, scale: float) -> None:
    """Decides what `kernels.round_tails` has left open."""
    for j in np.flatnonzero(np.isnan(rounded)):
        rounded[j] = noise.decide(tails, first + int(j), scale)
