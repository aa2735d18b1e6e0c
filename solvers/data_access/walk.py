"""The compiled walk of small batches: many answers of one Poisson-sampled query, each at the point after the last.

    v_t = clipped sampled change + noise + snapshot while L ||w - anchor|| <= G, a sampled gradient + noise beyond
        (or a centred change + noise + snapshot)
    w <- prox(w - step v_t)

Every batch and every normal variable is drawn before the walk and used at its own step, at the scale of that step's
bound. Further bits decide a coordinate whose rounding double precision leaves undecided. `Walk` sees data and counts no
answers: only `WalkingOracle` calls it, after the plan's meter has counted. Proof: docs/proofs/oracle.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import PoissonGaussian
from accounting.noise import Noise, Tails, batch_sizes, batches
from accounting.noise.lattice import fineness
from accounting.plan import PlannedQuery
from solvers import kernels
from solvers.bounds import sampled_factors
from solvers.centred import centred_factors, check_centred
from solvers.data_access.data import Data, slots_of
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.sums import checked_norm
from solvers.domains import Free, L2Ball
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer

MOST_EXPECTED_ROWS = 32  # in a batch; with more, most time goes into rows, not into calls


class WalkingOracle(SampledOracle):
    """A sampled oracle that also answers compiled walks."""

    __slots__ = ()

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> NDArray[np.float64] | None:
        """Return the `count` points that follow w, shape (count, d), with w <- prox(w - step v); each uses one answer.

        v = snapshot + sampled_change(query, w, anchor), or centred_change, while L ||w - anchor|| <= G, and
        sampled_gradient(query, w) otherwise. The answers have the same law as single requests (docs/proofs/oracle.md).
        Returns None and counts nothing if the walk is not compiled; then request each answer. `on_answer` is called
        once, after all answers, so request about a thousand at a time. Raises as `sampled_change`; if the plan has
        fewer answers left, none is counted.
        """
        problem, data = self._problem, self._data
        for point in (w, anchor, snapshot):
            checked_norm(problem, point)
        if centred:
            check_centred(problem)
        planned = self._meter.look(query, PoissonGaussian)
        walk = Walk.of(problem, data, planned, step, centred) if isinstance(data, Data) else None
        if walk is None:
            return None
        self._meter.take(query, PoissonGaussian, count)
        points = walk(self._meter.noise, w, anchor, snapshot, count)
        self._meter.report(count)
        return points


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The walk of one problem with one planned query and step length."""

    data: Data
    planned: PlannedQuery
    rate: float
    constants: "kernels.WalkConstants"

    @staticmethod
    def of(problem: Problem, data: Data, planned: PlannedQuery, step: float, centred: bool = False) -> "Walk | None":
        """Return the walk, or None unless batches, loss, regularizer and domain are all compiled."""
        loss, mechanism = problem.compiled, planned.mechanism
        regularizer, domain = problem.regularizer, problem.domain
        if loss is None or not problem.is_smooth or not isinstance(mechanism, PoissonGaussian):
            return None
        size = mechanism.rate * problem.n * problem.unit.slots
        if size > MOST_EXPECTED_ROWS or not batch_sizes.fits(problem.n, int(mechanism.rate * 2.0**64)):
            return None
        if not isinstance(regularizer, NoRegularizer | L2) or not isinstance(domain, Free | L2Ball):
            return None
        lattice_bits, lattice_share = fineness(planned.noise_multiplier, math.sqrt(problem.d))
        row_rounding, sum_rounding = sampled_factors(problem)
        centred_row_rounding, centred_sum_rounding = centred_factors(problem)
        constants = kernels.WalkConstants(
            loss=loss,
            smoothness=float(problem.L),
            gradient_bound=float(problem.G),
            row_norm=float(problem.row_norm),
            batch_size=float(size),
            row_rounding=float(row_rounding),
            sum_rounding=float(sum_rounding),
            noise_multiplier=float(planned.noise_multiplier),
            lattice_share=float(lattice_share),
            lattice_bits=lattice_bits,
            step=float(step),
            shrinkage=float(1 + step * problem.mu),
            radius=float(domain.radius) if isinstance(domain, L2Ball) else math.inf,
            curvature=float(problem.loss.curvature_bound) if centred else 0.0,
            centred_row_rounding=float(centred_row_rounding),
            centred_sum_rounding=float(centred_sum_rounding),
        )
        return Walk(data, planned, mechanism.rate, constants)

    def __call__(self, noise: Noise, w: Vector, anchor: Vector, snapshot: Vector, count: int) -> Vector:
        """Return the `count` points after w, shape (count, d)."""
        problem, d = self.data.problem, self.data.problem.d
        ends, drawn = batches.poisson_batches(noise, problem.n, self.rate, count)
        tails = noise.tails(count * d)
        draws = kernels.WalkDraws(
            batch_ends=kernels.read_only(problem.unit.slots * ends),
            rows=kernels.read_only(slots_of(drawn, problem)),
            magnitudes=kernels.read_only(tails.sizes),
            is_negative=kernels.read_only(tails.negative),
        )
        examples = kernels.Examples(self.data.records, self.data.y, self.data.scale).read_only()
        start_from = kernels.WalkAnchor(
            kernels.read_only(np.array(anchor, dtype=np.float64)),
            kernels.read_only(np.array(snapshot, dtype=np.float64)),
        )
        points = np.empty((count + 1, d))
        rounded = np.empty(d)
        points[0] = w
        start, scale = kernels.WalkStart(step=0, has_noise=False), 0.0
        while start.step < count:
            step, scale = kernels.walk(examples, draws, start_from, self.constants, points, rounded, start)
            if scale < 0:
                raise Unsuitable("the walk has left the range of exact arithmetic")
            if scale > 0:
                _decide(rounded, noise, tails, step * d, scale)
            start = kernels.WalkStart(step=step, has_noise=scale > 0)
        return points[1:]


def _decide(rounded: Vector, noise: Noise, tails: Tails, first: int, scale: float) -> None:
    """Decide the coordinates that `kernels.round_tails` has left undecided."""
    for j in np.flatnonzero(np.isnan(rounded)):
        rounded[j] = noise.decide(tails, first + int(j), scale)
