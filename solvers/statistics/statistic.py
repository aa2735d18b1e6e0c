"""What every statistic is: a run that is planned, priced and answered as a method's is, and makes no model."""

from abc import abstractmethod
from typing import final

import numpy as np

from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import NeedsDelta, Unsuitable
from solvers.methods.run import CountingRun, Start
from solvers.oracles import Counting
from solvers.preparation import moments
from solvers.problem import Problem, Vector


class Statistic(CountingRun):
    """Of the columns of its problem, whose layout is declared."""

    __slots__ = ()

    @final
    def check(self, problem: Problem, privacy: Privacy) -> None:
        """`Unsuitable` if it cannot be had of such rows; a function of public facts."""
        if not moments.columns_of(problem).widths:
            raise Unsuitable(f"{self.name}: name a column")
        if privacy.is_pure:
            raise NeedsDelta(f"the answers of {self.name} are Gaussian, which need delta > 0")
        why = self.refusal(problem)
        if why is not None:
            raise Unsuitable(f"{self.name}: {why}")

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Why it cannot be had of these columns; None if it can."""

    def gradient_evaluations(self, problem: Problem) -> float:
        """A pass for each answer."""
        return float(problem.n) * len(self.queries(problem))

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:  # noqa: ARG002
        """None."""
        return "A statistic is no model: there is no risk to forecast."


def numbers(problem: Problem) -> int:
    """How many columns are numbers."""
    return moments.columns_of(problem).widths.count(1)


def means(problem: Problem, weight: float = 1.0) -> tuple[Query, ...]:
    """The columns' means, with this weight."""
    return moments.queries(problem, weight, 1.0, 1.0)[:1]


def with_share(answers: Vector, oracle: Counting, problem: Problem) -> Vector:
    """The answers; of persons and last the share of places that hold a row, as their means told it."""
    return np.append(answers, oracle.moments.share) if problem.unit.is_person else answers


def bins_refused(bins: int, most: int) -> str | None:
    """Why they are no number of bins."""
    return None if type(bins) is int and 1 <= bins <= most else f"bins must lie in [1, {most}]"


def categories_refused(problem: Problem) -> str | None:
    """Why there may be none."""
    every = len(moments.columns_of(problem).widths)
    return None if numbers(problem) == every else "it is of numbers: leave out the columns that are categories"
