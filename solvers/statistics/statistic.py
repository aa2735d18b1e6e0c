"""The base class of statistics: runs that are planned, priced and answered like a method, but make no model.

Review: A statistic is planned and metered like a method.
"""

from abc import abstractmethod
from typing import ClassVar, final

import numpy as np

from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import NeedsDelta, Unsuitable
from solvers.methods.run import CountingRun, Start
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector

Row = tuple[float, ...]


class Statistic(CountingRun):
    """A statistic of the declared columns of its problem.

    Rows and answers are codes: a number lies in [-1, 1] and has no unit. `app/results` adds units and intervals.
    """

    __slots__ = ()
    audited_rows: ClassVar[tuple[Row, Row]] = ((1.0, 1.0, 1.0), (-1.0, -1.0, 1.0))
    """Two rows of two numbers and the constant. The audit compares data with one of them, among rows of zeros, to data
    with the other. Override them if answers to another pair differ more."""

    @final
    def check(self, problem: Problem, privacy: Privacy) -> None:
        """Raise `Unsuitable` if the statistic cannot be computed for the problem; a function of public facts."""
        if not moments.columns_of(problem).widths:
            raise Unsuitable(f"{self.name}: there are no columns. Name at least one")
        if privacy.is_pure:
            raise NeedsDelta(
                f"{self.name}: delta is 0, but answers of this statistic are Gaussian and need delta > 0. Raise delta"
            )
        refusal = self.refusal(problem)
        if refusal is not None:
            raise Unsuitable(f"{self.name}: {refusal}")

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Return why the statistic does not accept these columns, or None if it does."""

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return one pass over the data for each answer."""
        return float(problem.n) * len(self.queries(problem))

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:  # noqa: ARG002
        """Return why there is no bound."""
        return "A statistic is not a model, so there is no risk to forecast."


def numbers(problem: Problem) -> int:
    """Return how many columns are numbers."""
    return moments.columns_of(problem).widths.count(1)


def means(problem: Problem, weight: float = 1.0) -> tuple[Query, ...]:
    """Return the query for the columns' means with this weight."""
    return moments.queries(problem, weight, 1.0, 1.0)[:1]


def with_share(answers: Vector, oracle: Counting, problem: Problem) -> Vector:
    """Return the answers; for persons the share of filled slots, which the means released, is appended."""
    return np.append(answers, oracle.moments.share) if problem.unit.is_person else answers


def bins_refused(bins: int, limit: int) -> str | None:
    """Return why the number of bins is not accepted, or None if it is."""
    return None if type(bins) is int and 1 <= bins <= limit else f"bins must be an integer in [1, {limit}]"


def categories_refused(problem: Problem) -> str | None:
    """Return why categories are not accepted if there are any, otherwise None."""
    count = len(moments.columns_of(problem).widths)
    return None if numbers(problem) == count else "all columns must be numbers. Leave out categories"
