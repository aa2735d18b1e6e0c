"""Runs: methods whose settings are all resolved. A quote prices a run, a job stores it, and a worker executes it.

The JSON of a run has the fields of the requested method, and no field is null.
"""

from abc import ABC, abstractmethod
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Generic, TypeVar, final

from accounting.plan import Query
from solvers.errors import Unsuitable
from solvers.oracles import Access, Allocated, Counting, FullBatch, Oracles, Sampled, Standardised, Weighted
from solvers.problem import Problem, Vector
from solvers.ranges import check_ranges

UNFINISHED = (
    "No bound is proven for these settings: the proven one is without a regularizer, and for as many steps as needed."
)

_Oracle = TypeVar("_Oracle")

Bounds = dict[str, tuple[float, int]]
"""For each query, the largest per-record bound of an answer, which is half its sensitivity, and its number of
coordinates."""


class Strict:
    """A base of classes that are read from JSON without conversions; further fields and NaN are refused."""

    __slots__ = ()
    name: str
    standardises: ClassVar[bool] = False  # whether the method centers and scales declared columns itself
    limits_slopes: ClassVar[bool] = True  # whether slopes of gradients can be limited
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @final
    def __post_init__(self) -> None:
        check_ranges(self)
        self.check_own()

    def check_own(self) -> None:
        """Raise an error if settings do not fit together; settings in a range state it in their type."""


@dataclass(frozen=True, slots=True)
class Start:
    """Bounds on the distance and the loss of the starting point, from public facts.

    Parameters
    ----------
    distance : D, assumed distance of a minimizer from the start
    untrained : the largest excess of the start's loss over the minimum
    """

    distance: float
    untrained: float


class Run(Strict, ABC):
    """A frozen dataclass with the name of its method; all methods but `answer` and `run` use public facts alone."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @abstractmethod
    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the queries of the run."""

    @abstractmethod
    def bounds(self, problem: Problem) -> Bounds:
        """Return how much one record adds to each answer, at most."""

    @abstractmethod
    def gradient_evaluations(self, problem: Problem) -> float:
        """Return the expected number of per-record gradients."""

    @abstractmethod
    def answer(self, oracles: Oracles) -> Vector:
        """Open the oracle that the run needs, and return the run's result."""

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """Return a proven bound on E[F(w) + r(w)] - min over C of F + r for convex f, or the reason why there is none.

        Parameters
        ----------
        noise_std : noise std of the first query's answers
        """
        return "No error bound with explicit constants is proven for this method."

    def off_minimizer(self, problem: Problem) -> float | None:
        """Return a bound on the l2 distance between the released point, before noise, and the run's own minimizer.

        The bound is None unless the run releases one approximate minimizer of its own regularized problem.
        """
        return None


class OracleRun(Run, Generic[_Oracle]):
    """A run that opens one oracle and computes its result from the oracle's answers."""

    __slots__ = ()

    @abstractmethod
    def open(self, oracles: Oracles) -> _Oracle:
        """Return the oracle that the run needs."""

    @abstractmethod
    def run(self, oracle: _Oracle, problem: Problem) -> Vector:
        """Return the private model, or the answers of an `AnswersRun`, flat."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the private model, or the answers of an `AnswersRun`, flat."""
        return self.run(self.open(oracles), oracles.problem)


class FullBatchRun(OracleRun[FullBatch]):
    """A run that sees private gradients over all records, never data."""

    __slots__ = ()
    hides: ClassVar[bool] = False  # whether it requests the last of steps that stay hidden

    @final
    def open(self, oracles: Oracles) -> FullBatch:
        """Return the oracle of full gradients."""
        return oracles.full_batch(self.hides)


class SampledRun(OracleRun[Sampled]):
    """A run that sees private gradients over random batches, never data."""

    __slots__ = ()
    walks: ClassVar[bool] = False  # whether it requests whole walks, which are compiled if possible

    @final
    def open(self, oracles: Oracles) -> Sampled:
        """Return the oracle of sampled gradients."""
        return oracles.sampled(self.walks)


class AllocatedRun(OracleRun[Allocated]):
    """A run that sees private gradients over secret slots, never data."""

    __slots__ = ()

    @final
    def open(self, oracles: Oracles) -> Allocated:
        """Return the oracle of allocated gradients."""
        return oracles.allocated()


class StandardisedRun(OracleRun[Standardised]):
    """A run that sees private moments and gradients of declared columns, never data."""

    __slots__ = ()

    @final
    def open(self, oracles: Oracles) -> Standardised:
        """Return the oracle of moments and limited gradients."""
        return oracles.standardised()


class AnswersRun(Run):
    """A run that returns private answers instead of a model's coefficients."""

    __slots__ = ()

    @abstractmethod
    def size(self, problem: Problem) -> int:
        """Return how many numbers `run` returns."""


class CountingRun(AnswersRun, OracleRun[Counting]):
    """A run that sees private counts and moments of declared columns, never data."""

    __slots__ = ()

    @final
    def open(self, oracles: Oracles) -> Counting:
        """Return the oracle of counts and moments."""
        return oracles.counting()


class WeightedRun(AnswersRun, OracleRun[Weighted]):
    """A run that sees private moments, curvatures and scores of weighted records, never data."""

    __slots__ = ()

    @final
    def open(self, oracles: Oracles) -> Weighted:
        """Return the oracle of weighted records."""
        return oracles.weighted()


class ChoosingRun(Run):
    """Several runs with an oracle each, the best of which is released; `solvers.tuning` makes them."""

    __slots__ = ()

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Raise `Unsuitable`, because several runs need several oracles."""
        raise Unsuitable(f"{self.name} consists of several runs, which share no oracle. Use solvers.tuning.run")


class DataRun(OracleRun[Access]):
    """A run that sees data, and is reviewed for it."""

    __slots__ = ()
    tabulates: ClassVar[bool] = False  # whether it requests the mean of rounded gradients at a table of points
    in_order: ClassVar[bool] = False  # whether it takes one step for each record, one after the other

    @final
    def open(self, oracles: Oracles) -> Access:
        """Return the access to the data, through which every release goes."""
        return oracles.access(self.tabulates)
