"""PrivateOracle: the narrow door between data and solver.

Precondition: the data are `Data` of the problem. The plan, n and the batch rates are public.
Promise: whatever a solver asks, and however it chooses its questions from earlier answers, all answers together are as
private as the plan: at most `count` answers of each planned query, each made by the query's mechanism at the planned
noise multiplier and at a bound that holds for every record in floating point. Proof: docs/proofs/oracle.md.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfPlan
from accounting.mechanisms import Gaussian, PoissonGaussian, RandomIterate, SvrgStep
from accounting.noise import Noise, batches, draws
from accounting.plan import Plan, PlannedQuery
from solvers import kernels
from solvers.bounds import gradient_bound, printed_bound, sampled_bound
from solvers.centred import centred_bound, centres, check_centred
from solvers.data_access.data import Data, places_of
from solvers.data_access.meter import Meter
from solvers.data_access.summed import Summed
from solvers.data_access.sums import Held, center, gradient_sum, reach
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

Walking = Callable[[Noise, Vector, Vector, Vector, int], Vector]
Walker = Callable[[Problem, Data, PlannedQuery, float, bool], Walking | None]
HiddenSteps = Callable[[Summed, Meter, str, int, float], Vector]


class PrivateOracle:
    """Noisy answers about one problem on one dataset, within one plan. Sees data; its callers see answers.

    Parameters
    ----------
    problem, data : the data must be `inputs.of_arrays(..., problem)`
    plan : what may be asked
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    walker, hidden : `walk.Walk.of` and `last_iterate.last_iterate`, handed to the runs that ask for them alone
    """

    __slots__ = ("__anchored", "__data", "__hidden", "__meter", "__problem", "__walker")

    def __init__(
        self,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
        walker: Walker | None = None,
        hidden: HiddenSteps | None = None,
    ) -> None:
        if data.problem != problem:
            raise Unsuitable("the data were prepared for another problem")
        self.__problem, self.__data, self.__meter = problem, data, Meter(plan, noise, on_answer, problem.relation)
        self.__anchored: tuple[Vector, Vector] | None = None
        self.__walker, self.__hidden = walker, hidden

    def gradient(self, query: str, w: Vector) -> Vector:
        """grad F(w) + noise, over all rows; per-record bound G / n, plus rounding.

        Raises
        ------
        OutOfPlan
            if the plan holds no such query with the Gaussian mechanism, or with a random number of its answers; or if
            all of them have been given.
        Unsuitable
            if w is not of shape (size,), finite and of norm up to 1e100. Both are functions of the question alone.
        """
        norm = reach(self.__problem, w)
        planned = self.__meter.take(query, Gaussian | RandomIterate)
        value = self.__mean_gradient(w)
        return self.__meter.answer(planned, value, gradient_bound(self.__problem, norm))

    def horizon(self, query: str) -> int:
        """How many answers the query will give: as planned, or a random number drawn without the data."""
        return self.__meter.horizon(query)

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """(1/b) sum over a fresh batch of grad f_i(w) + noise; per-record bound G / b, plus rounding.

        b = n rate is fixed: never the size of the batch, which is secret. An empty batch answers noise alone. Raises as
        `gradient`, with the Poisson-sampled mechanism.
        """
        norm = reach(self.__problem, w)
        planned = self.__meter.take(query, PoissonGaussian)
        batch, size = self.__batch(planned)
        value = gradient_sum(self.__data, batch, w) / (size * self.__problem.unit.slots)
        return self.__meter.answer(planned, value, sampled_bound(self.__problem, size, self.__problem.G, norm))

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """(1/b) sum over a fresh batch of clip(grad f_i(w) - grad f_i(anchor), c) + noise.

        c = min(G, L ||w - anchor||) is a public function of private iterates. Clipping at it changes nothing while
        L ||w - anchor|| <= G, since every record's loss is L-smooth. At w = anchor the answer is 0 without a look at
        the data, and counts. Raises as `sampled_gradient`.
        """
        norm = reach(self.__problem, w) + reach(self.__problem, anchor)
        planned = self.__meter.take(query, PoissonGaussian)
        problem = self.__problem
        distance = kernels.length(w - anchor)
        bound = 0.0 if distance == 0.0 else min(problem.G, problem.L * distance)
        if bound == 0.0:
            return self.__meter.count(np.zeros(problem.size))
        (batch, size), k = self.__batch(planned), problem.unit.slots
        value = gradient_sum(self.__data, batch, w, anchor, bound / problem.row_norm) / (size * k)
        return self.__meter.answer(planned, value, sampled_bound(problem, size, bound, norm))

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """(1/b) sum over a fresh batch of (grad f_i(w) - grad f_i(anchor) - (L/2) u) + (L/2) u + noise, u = w - anchor.

        Per-record bound (L/2) ||u|| / b, plus rounding, half of a `sampled_change`'s: a record's change of slope lies
        between 0 and its curvature times <x_i, u>, and is clipped to that. Where that is more than G / b, or u so short
        that its length is not exact, a `sampled_change`. Raises as it, and `Unsuitable` as `check_centred`.
        """
        problem = self.__problem
        check_centred(problem)
        reach(problem, w), reach(problem, anchor)
        moved = w - anchor
        distance = kernels.length(moved)
        if not centres(problem, distance):
            return self.sampled_change(query, w, anchor)
        planned = self.__meter.take(query, PoissonGaussian)
        (batch, size), k = self.__batch(planned), problem.unit.slots
        sums = gradient_sum(self.__data, batch, moved, anchor, 0.0, problem.loss.curvature_bound)
        held = int(self.__data.total(Held(), batch))
        value = sums / (size * k) + center(problem, moved, held / (size * k))
        return self.__meter.answer(planned, value, centred_bound(problem, size, problem.L * distance / 2))

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """(1/b) sum over b distinct rows of (grad f_i(w) - grad f_i(anchor)) + grad F(anchor) + one noise.

        Per-record bound 2G/b, plus rounding; nothing is clipped. The exact grad F(anchor) is kept here for the next
        answer and never leaves without that noise. Raises as `gradient`, with the printed step.
        """
        norm, n = reach(self.__problem, w) + reach(self.__problem, anchor), self.__problem.n
        planned = self.__meter.take(query, SvrgStep)
        mechanism = planned.mechanism
        if not isinstance(mechanism, SvrgStep) or mechanism.rows != n:
            raise OutOfPlan(f"query {query!r} is planned for another number of rows")
        batch, widest = draws.distinct_rows(self.__meter.noise, n, mechanism.batch), 2 * self.__problem.G
        places, k = places_of(batch, self.__problem), self.__problem.unit.slots
        change = gradient_sum(self.__data, places, w, anchor, widest / self.__problem.row_norm) / (mechanism.batch * k)
        bound = printed_bound(self.__problem, mechanism.batch, norm)
        return self.__meter.answer(planned, np.stack([change, self.__at_anchor(anchor)]), bound)

    def __at_anchor(self, anchor: Vector) -> Vector:
        """The exact grad F(anchor), summed once for each anchor. For answers that add noise, and for them alone."""
        if self.__anchored is None or not np.array_equal(self.__anchored[0], anchor):
            self.__anchored = anchor.copy(), self.__mean_gradient(anchor)
        return self.__anchored[1]

    def __mean_gradient(self, w: Vector) -> Vector:
        """The exact grad F(w). For answers that add noise, and for them alone."""
        places = self.__problem.places
        return gradient_sum(self.__data, slice(0, places), w) / places

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> NDArray[np.float64] | None:
        """The `count` points that follow w, shape (count, d): w <- prox(w - step v), one answer for each.

        v = snapshot + sampled_change(query, w, anchor), or centred_change, while L ||w - anchor|| <= G,
        sampled_gradient(query, w) beyond.
        The same answers, of the same law, as asking for each: docs/proofs/oracle.md. None, and nothing is counted,
        where that is not compiled: then ask. `on_answer` hears after all, so ask for a thousand or so at a time.
        Raises as `sampled_change`, with none counted if the plan does not hold them all.
        """
        for point in (w, anchor, snapshot):
            reach(self.__problem, point)
        if centred:
            check_centred(self.__problem)
        planned = self.__meter.look(query, PoissonGaussian)
        walker, data = self.__walker, self.__data
        compiled = walker(self.__problem, data, planned, step, centred) if walker and isinstance(data, Data) else None
        if compiled is None:
            return None
        self.__meter.take(query, PoissonGaussian, count)
        points = compiled(self.__meter.noise, w, anchor, snapshot, count)
        self.__meter.report(count)
        return points

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """The last of the points of noisy proximal gradient steps from the start, w <- prox(w - step (grad F(w) +
        noise)), the others hidden; one answer. Raises as `gradient`, with the last iterate of just these steps.
        """
        if self.__hidden is None:
            raise OutOfPlan("this run hides no steps")
        return self.__hidden(self.__data, self.__meter, query, steps, step)

    def transcript(self) -> Plan:
        """What was really answered."""
        return self.__meter.transcript()

    def __batch(self, planned: PlannedQuery) -> tuple[NDArray[np.int64], float]:
        """The places of a fresh batch, and its fixed expected size in records."""
        if not isinstance(planned.mechanism, PoissonGaussian):
            raise OutOfPlan(f"query {planned.name!r} is not sampled")
        rate = planned.mechanism.rate
        drawn = batches.poisson_rows(self.__meter.noise, self.__problem.n, rate)
        return places_of(drawn, self.__problem), rate * self.__problem.n
