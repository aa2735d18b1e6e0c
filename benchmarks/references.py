"""A problem on a dataset, and its optimum without privacy, beside which private runs are measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.datasets import Split
from benchmarks.newton import minimize, objective
from solvers import Problem, solve
from solvers.losses import Logistic, Squared
from solvers.methods import Method
from solvers.regularizers import NoRegularizer, Regularizer
from solvers.selection import Auto

DELTA = 1e-5
_NO_PENALTY = NoRegularizer()

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reference:
    """A problem on a dataset.

    Parameters
    ----------
    optimum : coefficients without privacy
    """

    split: Split
    problem: Problem
    optimum: Vector

    @classmethod
    def of(cls, split: Split, regularizer: Regularizer = _NO_PENALTY) -> "Reference":
        """Return the logistic problem of two classes with its minimizer, or the squared one with least squares.

        Least squares have no penalty, and do not limit slopes.
        """
        n, d = split.X.shape
        is_binary = set(np.unique(split.y)) == {-1.0, 1.0}
        loss = Logistic() if is_binary else Squared()
        problem = Problem(loss, regularizer, n=n, d=d, row_norm=split.row_norm, columns=split.columns)
        if is_binary:
            return cls(split, problem, minimize(problem, split.X, split.y).w)
        return cls(split, problem, np.asarray(np.linalg.lstsq(split.X, split.y, rcond=None)[0], dtype=np.float64))

    @cached_property
    def least(self) -> float:
        """Objective at the optimum."""
        return objective(self.problem, self.split.X, self.split.y, self.optimum)

    def excess(self, w: Vector) -> float:
        """Return the objective at w on the training rows minus that at the optimum."""
        return objective(self.problem, self.split.X, self.split.y, w) - self.least

    def fit(self, method: Method | Auto, epsilon: float) -> Vector:
        """Return the coefficients of one private run at delta DELTA."""
        return solve(method, self.problem, self.split.X, self.split.y, Privacy(epsilon, DELTA)).coefficients

    def excesses(self, method: Method | Auto, epsilon: float, runs: int) -> list[float]:
        """Return the excess of each of several private runs."""
        return [self.excess(self.fit(method, epsilon)) for _ in range(runs)]

    def score(self, w: Vector) -> float:
        """Return the test accuracy of two classes, or the squared test error of a number."""
        if self.problem.loss.takes == "class":
            return accuracy(self.split, w)
        return float(np.mean((self.split.X_test @ w - self.split.y_test) ** 2))

    @property
    def trivial_score(self) -> float:
        """Test score of the larger class, or of the prediction 0."""
        return majority(self.split) if self.problem.loss.takes == "class" else self.score(0 * self.optimum)


def accuracy(split: Split, w: Vector) -> float:
    """Return the share of test rows whose class is the sign of the margin."""
    return float(np.mean(np.where(split.X_test @ w > 0, 1.0, -1.0) == split.y_test))


def majority(split: Split) -> float:
    """Return the share of the larger class among the test rows."""
    share = float(np.mean(split.y_test > 0))
    return max(share, 1 - share)


def spread(values: Sequence[float] | Vector, digits: int = 5) -> str:
    """Return the mean and the standard deviation as text."""
    return f"{np.mean(values):.{digits}f} +- {np.std(values):.{digits}f}"


def print_row(label: str, entries: Sequence[str], label_width: int = 44, width: int = 22) -> None:
    """Print a label at the left, and entries at the right of their columns."""
    print(f"{label:<{label_width}}" + "".join(f"{entry:>{width}}" for entry in entries), flush=True)
