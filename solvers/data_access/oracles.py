"""DataOracles: the oracles of one plan on one dataset, of which a run opens one.

Guarantee: a plan is opened once, so no two oracles answer from the same plan.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from accounting.errors import OutOfPlan
from accounting.noise import Noise
from accounting.plan import Plan
from solvers.data_access.access import DataAccess
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.counting import CountingOracle
from solvers.data_access.data import Data
from solvers.data_access.full_batch import FullBatchOracle
from solvers.data_access.last_iterate import HiddenStepsOracle
from solvers.data_access.lattice_sums import TabulatingAccess
from solvers.data_access.meter import AbstractOracle
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.standardised import StandardisedOracle
from solvers.data_access.summed import Summed
from solvers.data_access.walk import WalkingOracle
from solvers.data_access.weighted import WeightedOracle
from solvers.data_access.with_moments import AbstractWithMoments
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector

_Opened = TypeVar("_Opened", bound=AbstractOracle)
OnAnswer = Callable[[int], None]


class DataOracles:
    """The oracles of `solvers.oracles.Oracles` on real data.

    Parameters
    ----------
    data : the records of one problem
    plan : the queries that may be answered
    noise : the randomness
    on_answer : called after each answer with the number of answers so far; it may raise to stop the run
    """

    __slots__ = ("__data", "__noise", "__on_answer", "__opened", "__plan")

    def __init__(self, data: Summed, plan: Plan, noise: Noise, on_answer: OnAnswer | None = None) -> None:
        self.__data, self.__plan, self.__noise, self.__on_answer = data, plan, noise, on_answer
        self.__opened: AbstractOracle | None = None

    @property
    def problem(self) -> Problem:
        """The problem that the data were prepared for."""
        return self.__data.problem

    @property
    def released_means(self) -> tuple[Vector, float] | None:
        """The noisy means that the open oracle answered, and the std of their noise; None without means."""
        opened = self.__opened
        oracle = opened.moments if isinstance(opened, AbstractWithMoments) else opened
        return oracle.released_means if isinstance(oracle, StandardisedOracle) else None

    def full_batch(self, hides_steps: bool) -> FullBatchOracle:
        """Open the oracle of full gradients, with or without hidden steps."""
        kind = HiddenStepsOracle if hides_steps else FullBatchOracle
        return self.__open(kind)

    def sampled(self, walks: bool) -> SampledOracle:
        """Open the oracle of sampled gradients, with or without compiled walks."""
        kind = WalkingOracle if walks else SampledOracle
        return self.__open(kind)

    def allocated(self) -> AllocatedOracle:
        """Open the oracle of secret slots. Raise `Unsuitable` if the records are on several machines."""
        if not isinstance(self.__data, Data):
            raise Unsuitable("secret slots need a list of all rows. Keep the dataset on one machine")
        return self.__open(AllocatedOracle)

    def standardised(self) -> StandardisedOracle:
        """Open the oracle of moments and limited gradients."""
        return self.__open(StandardisedOracle)

    def counting(self) -> CountingOracle:
        """Open the oracle of counts and products, and of the columns' moments."""
        return self.__open(CountingOracle)

    def weighted(self) -> WeightedOracle:
        """Open the oracle of weighted scores and curvatures, and of the moments of columns and target."""
        return self.__open(WeightedOracle)

    def access(self, tabulates: bool) -> DataAccess:
        """Open the data access, with or without tables of gradients."""
        kind = TabulatingAccess if tabulates else DataAccess
        return self.__open(kind)

    def transcript(self) -> Plan:
        """Return what was really answered."""
        return replace(self.__plan, queries=()) if self.__opened is None else self.__opened.transcript()

    def __open(self, kind: type[_Opened]) -> _Opened:
        """Return a new oracle. Raise `OutOfPlan` if one is open."""
        if self.__opened is not None:
            raise OutOfPlan("a plan is opened once: a second oracle would answer its queries again")
        opened = kind(self.problem, self.__data, self.__plan, self.__noise, self.__on_answer)
        self.__opened = opened
        return opened
