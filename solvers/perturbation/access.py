"""DataAccess: what a perturbation method may touch. Its users see data, so each is reviewed like a mechanism.

Promise: only `release` lets a function of the data out, once for each planned answer, through the query's mechanism.
That the value moves by at most the stated bound is each method's own proof (docs/proofs/<method>.md).
"""

from collections.abc import Callable

from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers.data import Data, blocks
from solvers.errors import Unsuitable
from solvers.meter import Meter
from solvers.problem import Problem, Vector
from solvers.sums import gradient_sum


class DataAccess:
    """The data of one problem, and one plan's releases.

    Parameters
    ----------
    problem, data : the data must be `Data.of(..., problem)`
    plan : what may be released
    noise : the randomness
    on_answer : called with the number of releases so far, after each and during long work; may raise to stop the run
    """

    __slots__ = ("data", "meter", "problem")

    def __init__(
        self,
        problem: Problem,
        data: Data,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        if data.problem != problem:
            raise Unsuitable("the data were prepared for another problem")
        self.problem, self.data, self.meter = problem, data, Meter(plan, noise, on_answer)

    def mean_gradient(self, rows: range, w: Vector) -> Vector:
        """The mean of grad f_i(w) over the positions, without noise: never to be returned by a method."""
        self.meter.pulse()
        pieces = (slice(rows.start + b.start, rows.start + b.stop) for b in blocks(len(rows), self.problem.d))
        return gradient_sum(self.data, pieces, w) / len(rows)

    def planned(self, query: str) -> PlannedQuery:
        """The query with its noise, as planned."""
        return self.meter.plan.query(query)

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        """`value` made private by the planned mechanism; replacing a record may move it by 2 `bound` at most.

        Raises
        ------
        OutOfPlan
            if the plan does not hold this answer.
        """
        return self.meter.answer(self.meter.take(query, object), value, bound)

    def transcript(self) -> Plan:
        """What was really released."""
        return self.meter.transcript()
