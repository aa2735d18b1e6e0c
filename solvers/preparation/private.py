"""Private standardisation: rows centred and scaled by private moments, shortened to a public norm."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.frame import Frame
from solvers.oracles import Standardised
from solvers.preparation import moments
from solvers.problem import Problem, Vector

ROW_NORM = 1.0
STRETCH = 100.0
"""How much longer than R_z what is added up for a record may be before it is centred: rounding is planned for that."""

_SHARES = {"means": 0.02, "spread": 0.01, "variances": 0.05}  # of mu^2
FLOOR = 1.0  # stds of a variance's own noise, below which it is not believed
_ROOM = {"class": 1.0, "number": 2.0}  # R_z over the root mean square of lengths: a shortened row misses its number
_CONSTANT = 0.3  # the last coordinate of z beside a mean square of 1 of the others


@dataclass(frozen=True, slots=True)
class Private:
    """z(x) = k (a o (x - m), c), shortened to ||z|| <= R_z = 1: m the noisy means, a_j = v_j^(-1/4) of the noisy
    variances, normalized to sum a^2 v = 1, c = .3, k = R_z / sqrt(1 + c^2): lengths have about the mean square R_z^2;
    half of that k where targets are numbers. (a is less, all of it alike, where what is added up for a row could be
    100 R_z long: rounding is planned for that.)

    The method meets rows z and their public norm alone, so its sizes and its noise are fixed before any moment is
    known; its answer w is (k a o w', k c w_0 - <m, k a o w'>) in the original columns. Regularizer and domain act on w.
    The moments are Gaussian answers in the same plan, for 2, 1 and 5 % of its mu^2. Proof: docs/proofs/preparation.md.

    Reference: docs/spec 17.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    statement: ClassVar[str] = (
        "Rows are centred and scaled by private means and variances, which the price includes; regularizer and domain "
        "act on the standardised coefficients; the model is in the original columns."
    )

    name: Literal["private"] = "private"

    def prepared(self, problem: Problem) -> Problem:
        """The problem that the method meets: rows of norm up to R_z, of which nothing else is public."""
        return replace(problem, row_norm=ROW_NORM, columns=None, stretch=STRETCH)

    @staticmethod
    def refusal(problem: Problem, privacy: Privacy) -> str | None:
        """Why rows of such a problem cannot be standardised privately; None if they can."""
        if problem.columns is None:
            return "private standardisation needs declared columns: a row's layout must be public"
        if problem.row_norm < problem.columns.row_norm:
            return "private standardisation takes rows that are not clipped: leave out row_norm"
        if problem.d == 1:
            return "there is no column to standardise"
        if moments.are_narrow(problem.columns):
            return moments.NARROW
        if privacy.is_pure:
            return "private moments are Gaussian answers, which need delta > 0"
        return None

    def queries(self, problem: Problem, own: tuple[Query, ...]) -> tuple[Query, ...]:
        """The moments, with weights that make their shares of the whole plan's mu^2 what they should be."""
        asked = moments.queries(problem, **_SHARES)
        unit = sum(query.weight for query in own) / (1 - sum(query.weight for query in asked))
        return tuple(replace(query, weight=query.weight * unit) for query in asked)

    def bounds(self, problem: Problem) -> dict[str, tuple[float, int]]:
        """The moments'."""
        return moments.bounds(problem)

    def frame(self, oracle: Standardised, problem: Problem) -> Frame:
        """The frame, from answers and public facts alone."""
        return framed(problem, *moments.ask(oracle, problem, FLOOR))


def framed(problem: Problem, center: Vector, v: Vector) -> Frame:
    """The frame of these moments, as `Private` has it."""
    scale = v**-0.25
    shrunk = ROW_NORM / _ROOM[problem.loss.takes] / math.hypot(1.0, _CONSTANT)
    found = Frame(center, shrunk * scale / math.sqrt(float(np.sum(scale**2 * v)) or 1.0), shrunk * _CONSTANT)
    within = min(1.0, 0.99 * STRETCH * ROW_NORM / found.longest(problem.columns))
    return Frame(center, within * found.scale, found.constant)
