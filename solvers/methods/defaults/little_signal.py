"""The rule of adaptive_gd for models with few records for each coefficient. Proof: docs/proofs/adaptive_gd.md."""

from typing import Literal

from solvers.losses import Logistic
from solvers.methods.defaults.adaptive_gd import CLASSES, NUMBERS
from solvers.problem import Problem

ModelKind = Literal["constant", "small", "full"]


def model_kind(problem: Problem, signal: float) -> ModelKind:
    """Return whether a model at signal r is only an intercept, or has small coefficients or a full set of them."""
    schedule = CLASSES if problem.loss.takes == "class" else NUMBERS
    if signal >= schedule.least_signal:
        return "full"
    is_small = isinstance(problem.loss, Logistic) and may_be_sparse(problem) and problem.moments is None
    precision = signal * problem.size / problem.unit.slots  # n mu of the rows, if each person has one
    return "small" if is_small and precision >= CLASSES.least_precision else "constant"


def may_be_sparse(problem: Problem) -> bool:
    """Return whether the codes of most columns have a range that begins or ends at 0, as for counts and indicators.

    If most of them are 0, rows are far shorter than their bound.
    """
    return problem.columns is not None and 2 * sum(0 in ends for ends in problem.columns.ranges) > problem.d
