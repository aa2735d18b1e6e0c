"""What a resolved method is: a run with nothing left open. The quote prices it, the job stores it, the worker runs it.

Its JSON is its fields and its name, as a request's method has them, every one filled.
"""

from abc import ABC, abstractmethod
from dataclasses import Field, dataclass
from typing import Any, ClassVar, final

from accounting.plan import Query
from solvers.errors import Unsuitable
from solvers.oracles import Access, Allocated, Counting, FullBatch, Oracles, Sampled, Standardised
from solvers.problem import Problem, Vector

UNFINISHED = "What is proven of this method is without a regularizer, and for steps that are not cut short."

Bounds = dict[str, tuple[float, int]]
"""For each query the largest per-record bound of an answer, half its sensitivity, and the answer's coordinates."""


class Strict:
    """What is read from JSON as it stands: no further fields, no conversions, no NaN."""

    __slots__ = ()
    standardises: ClassVar[bool] = False  # whether it centres and scales declared columns by itself
    limits_slopes: ClassVar[bool] = True  # whether it takes gradients, whose slopes can be limited
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


@dataclass(frozen=True, slots=True)
class Start:
    """How much there is to win, from public facts.

    Parameters
    ----------
    distance : D, how far from the start a minimizer is supposed to lie
    certain : whether the domain or the regularizer ensures D; else it is a guess
    untrained : the most by which the start can miss the least value
    """

    distance: float
    certain: bool
    untrained: float


class Run(Strict, ABC):
    """A frozen dataclass whose name is its method's; all but `run` is a function of public facts."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: str

    @abstractmethod
    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """What will be asked."""

    @abstractmethod
    def bounds(self, problem: Problem) -> Bounds:
        """How much one record adds to an answer."""

    @abstractmethod
    def gradient_evaluations(self, problem: Problem) -> float:
        """Expected per-record gradients."""

    @abstractmethod
    def answer(self, oracles: Oracles) -> Vector:
        """Open the oracle that the run needs, and return the run's result."""

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """A proven bound on E[F(w) + r(w)] - min over C of F + r, f convex; or the sentence why there is none.

        Parameters
        ----------
        noise_std : of the first query's answers
        """
        return "No bound with constants is proven for this method."

    def off_minimizer(self, problem: Problem) -> float | None:
        """How far in l2 what one query adds noise to, and releases as it is, may be from the least point of the run's
        own regularized problem; None where that is not what the run does.
        """
        return None


class FullBatchRun(Run):
    """A run that sees private gradients over all records, never data."""

    __slots__ = ()
    hides: ClassVar[bool] = False  # whether it requests the last of steps that stay hidden

    @abstractmethod
    def run(self, oracle: FullBatch, problem: Problem) -> Vector:
        """Return the private model."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the private model."""
        return self.run(oracles.full_batch(self.hides), oracles.problem)


class SampledRun(Run):
    """A run that sees private gradients over random batches, never data."""

    __slots__ = ()
    walks: ClassVar[bool] = False  # whether it requests whole walks, which are compiled if possible

    @abstractmethod
    def run(self, oracle: Sampled, problem: Problem) -> Vector:
        """Return the private model."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the private model."""
        return self.run(oracles.sampled(self.walks), oracles.problem)


class AllocatedRun(Run):
    """A run that sees private gradients over secret slots, never data."""

    __slots__ = ()

    @abstractmethod
    def run(self, oracle: Allocated, problem: Problem) -> Vector:
        """Return the private model."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the private model."""
        return self.run(oracles.allocated(), oracles.problem)


class StandardisedRun(Run):
    """A run that sees private moments and gradients of declared columns, never data."""

    __slots__ = ()

    @abstractmethod
    def run(self, oracle: Standardised, problem: Problem) -> Vector:
        """Return the private model."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the private model."""
        return self.run(oracles.standardised(), oracles.problem)


class CountingRun(Run):
    """A run that sees private counts and moments of declared columns, never data, and makes no model."""

    __slots__ = ()

    @abstractmethod
    def size(self, problem: Problem) -> int:
        """Return how many numbers `run` returns."""

    @abstractmethod
    def run(self, oracle: Counting, problem: Problem) -> Vector:
        """Return the answers, flat."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the answers, flat."""
        return self.run(oracles.counting(), oracles.problem)


class ChoosingRun(Run):
    """Several runs with an oracle each, the best of which is released; `solvers.tuning` makes them."""

    __slots__ = ()

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Raise `Unsuitable`, because several runs need several oracles."""
        raise Unsuitable(f"{self.name} consists of several runs, which share no oracle: use solvers.tuning.run")


class DataRun(Run):
    """A run that sees data, and is reviewed for it."""

    __slots__ = ()
    tabulates: ClassVar[bool] = False  # whether it requests the mean of rounded gradients at a table of points
    in_order: ClassVar[bool] = False  # whether it takes one step for each record, one after the other

    @abstractmethod
    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""

    @final
    def answer(self, oracles: Oracles) -> Vector:
        """Return the private model."""
        return self.run(oracles.access(self.tabulates), oracles.problem)
