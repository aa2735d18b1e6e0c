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
from solvers.moment_bounds import MOMENTS
from solvers.problem import Problem, Vector
from solvers.weighting import MOMENTS_OF_TABLES

_Opened = TypeVar("_Opened", bound=AbstractOracle)
_AfterMoments = TypeVar("_AfterMoments", bound=AbstractWithMoments)
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
        self.__opened: tuple[AbstractOracle, ...] = ()

    @property
    def problem(self) -> Problem:
        """The problem that the data were prepared for."""
        return self.__data.problem

    @property
    def released_means(self) -> tuple[Vector, float] | None:
        """The noisy means that the run's own oracle answered, and the std of their noise; None without means."""
        own = (oracle.released_means for oracle in self.__opened if isinstance(oracle, StandardisedOracle))
        return next(own, None)

    def full_batch(self, hides_steps: bool) -> FullBatchOracle:
        """Open the oracle of full gradients, with or without hidden steps."""
        kind = HiddenStepsOracle if hides_steps else FullBatchOracle
        return self.__keep(kind(*self.__arguments()))

    def sampled(self, walks: bool) -> SampledOracle:
        """Open the oracle of sampled gradients, with or without compiled walks."""
        kind = WalkingOracle if walks else SampledOracle
        return self.__keep(kind(*self.__arguments()))

    def allocated(self) -> AllocatedOracle:
        """Open the oracle of secret slots. Raise `Unsuitable` if the records are on several machines."""
        problem, data, plan, noise, on_answer = self.__arguments()
        if not isinstance(data, Data):
            raise Unsuitable("secret slots need a list of all rows. Keep the dataset on one machine")
        return self.__keep(AllocatedOracle(problem, data, plan, noise, on_answer))

    def standardised(self) -> StandardisedOracle:
        """Open the oracle of moments and limited gradients."""
        return self.__keep(StandardisedOracle(*self.__arguments()))

    def counting(self) -> CountingOracle:
        """Open the oracle of counts and products, whose moments have their own part of the plan."""
        return self.__after_moments(CountingOracle, MOMENTS)

    def weighted(self) -> WeightedOracle:
        """Open the oracle of weighted scores and curvatures, whose moments have their own part of the plan."""
        return self.__after_moments(WeightedOracle, MOMENTS_OF_TABLES)

    def access(self, tabulates: bool) -> DataAccess:
        """Open the data access, with or without tables of gradients."""
        kind = TabulatingAccess if tabulates else DataAccess
        return self.__keep(kind(*self.__arguments()))

    def transcript(self) -> Plan:
        """Return what was really answered."""
        queries = (query for oracle in self.__opened for query in oracle.transcript().queries)
        return replace(self.__plan, queries=tuple(queries))

    def __arguments(self) -> tuple[Problem, Summed, Plan, Noise, OnAnswer | None]:
        """Return the arguments of an oracle. Raise `OutOfPlan` if one is open."""
        if self.__opened:
            raise OutOfPlan("a plan is opened once: a second oracle would answer its queries again")
        return self.problem, self.__data, self.__plan, self.__noise, self.__on_answer

    def __after_moments(self, kind: type[_AfterMoments], names: set[str]) -> _AfterMoments:
        """Open an oracle with an inner oracle, which answers the queries with these names."""
        problem, data, plan, noise, on_answer = self.__arguments()
        moments_plan, own_plan = split(plan, names)
        moments = self.__keep(StandardisedOracle(problem, data, moments_plan, noise, on_answer))
        return self.__keep(kind(moments, problem, data, own_plan, noise, counting_on(moments_plan, on_answer)))

    def __keep(self, oracle: _Opened) -> _Opened:
        """Return the oracle, whose answers become a part of the transcript."""
        self.__opened += (oracle,)
        return oracle


def split(plan: Plan, names: set[str]) -> tuple[Plan, Plan]:
    """Return the plan of the queries with these names, and the plan of all other queries."""
    chosen = tuple(query for query in plan.queries if query.name in names)
    remaining = tuple(query for query in plan.queries if query not in chosen)
    return replace(plan, queries=chosen), replace(plan, queries=remaining)


def counting_on(answered: Plan, on_answer: OnAnswer | None) -> OnAnswer | None:
    """Return a callback that adds the answers of an earlier plan to the number that it is called with."""
    if on_answer is None:
        return None
    count, report = sum(query.answers for query in answered.queries), on_answer
    return lambda more: report(count + more)
