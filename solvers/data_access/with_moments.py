"""AbstractWithMoments: the base of oracles whose queries need released moments of the same data.

Guarantee: the moments have their own part of the plan, so no answer is counted by two oracles.
"""

from collections.abc import Callable

from accounting.noise import Noise
from accounting.plan import Plan
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.summed import Summed
from solvers.problem import Problem


class AbstractWithMoments(AbstractOracle):
    """An oracle of rows whose layout is public, together with the oracle of their moments.

    Parameters
    ----------
    moments : the oracle of moments of the same data, with its own part of the plan
    problem, data, plan, noise, on_answer : as for `AbstractOracle`
    """

    __slots__ = ("_moments",)

    def __init__(
        self,
        moments: StandardisedOracle,
        problem: Problem,
        data: Summed,
        plan: Plan,
        noise: Noise,
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(problem, data, plan, noise, on_answer)
        self._moments = moments

    @property
    def moments(self) -> StandardisedOracle:
        """The oracle of the columns' moments."""
        return self._moments
