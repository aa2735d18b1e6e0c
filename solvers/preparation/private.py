"""Private standardization: rows centered and scaled by private moments, shortened to a public norm."""

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
"""Largest length, in units of R_z, of a record's terms before they are centered; rounding is planned for it."""

_SHARES = {"means": 0.02, "spread": 0.01, "variances": 0.05}  # of mu^2
FLOOR = 1.0  # a variance is raised to this many stds of its own noise
_LENGTH_RATIO = {"class": 1.0, "number": 2.0}  # R_z over the root mean square of lengths; shortened rows bias numbers
_CONSTANT = 0.3  # last coordinate of z, if the others have the mean square 1


@dataclass(frozen=True, slots=True)
class Private:
    """Rows standardized by private moments, z(x) = k (a o (x - m), c), shortened to ||z|| <= R_z = 1.

    m are the noisy means. a_j = v_j^(-1/4) of the noisy variances, normalized to sum a^2 v = 1. c = 0.3, and
    k = R_z / sqrt(1 + c^2), so lengths have about the mean square R_z^2; k is half of that if targets are numbers. If
    the terms of a row could be longer than 100 R_z, for which rounding is planned, all of a is scaled down.

    The method sees only rows z and their public norm, so its sizes and its noise are fixed before the moments are
    released. Its answer w is (k a o w', k c w_0 - <m, k a o w'>) in the original columns. Regularizer and domain act on
    w. The moments are Gaussian answers in the same plan, with 2, 1 and 5 % of its mu^2.
    Proof: docs/proofs/preparation.md.

    Reference: docs/spec 17.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    statement: ClassVar[str] = (
        "Rows are centered and scaled by private means and variances, which the price includes. The regularizer and "
        "the domain act on the standardized coefficients. The model is in the original columns."
    )

    name: Literal["private"] = "private"

    def prepared(self, problem: Problem) -> Problem:
        """Return the problem of prepared rows, whose norm R_z is their only public fact."""
        return replace(problem, row_norm=ROW_NORM, columns=None, stretch=STRETCH)

    @staticmethod
    def refusal(problem: Problem, privacy: Privacy) -> str | None:
        """Return why rows of the problem cannot be standardized privately, or None if they can."""
        if problem.columns is None:
            return "private standardization needs declared columns, because a row's layout must be public"
        if problem.row_norm < problem.columns.row_norm:
            return "private standardization needs rows that are not clipped. Leave out row_norm"
        if problem.d == 1:
            return "there is no column to standardize"
        if moments.are_narrow(problem.columns):
            return moments.NARROW
        if privacy.is_pure:
            return "private moments are Gaussian answers, which need delta > 0"
        return None

    def queries(self, problem: Problem, own: tuple[Query, ...]) -> tuple[Query, ...]:
        """Return the queries for moments, with weights that give them their shares of the plan's mu^2."""
        planned = moments.queries(problem, **_SHARES)
        unit = sum(query.weight for query in own) / (1 - sum(query.weight for query in planned))
        return tuple(replace(query, weight=query.weight * unit) for query in planned)

    def bounds(self, problem: Problem) -> dict[str, tuple[float, int]]:
        """Return the bounds of the moments."""
        return moments.bounds(problem)

    def frame(self, oracle: Standardised, problem: Problem) -> Frame:
        """Return the frame, which depends only on answers and public facts."""
        return framed(problem, *moments.ask(oracle, problem, FLOOR))


def framed(problem: Problem, center: Vector, v: Vector) -> Frame:
    """Return the frame of these moments; see `Private`."""
    scale = v**-0.25
    shrunk = ROW_NORM / _LENGTH_RATIO[problem.loss.takes] / math.hypot(1.0, _CONSTANT)
    frame = Frame(center, shrunk * scale / math.sqrt(float(np.sum(scale**2 * v)) or 1.0), shrunk * _CONSTANT)
    within = min(1.0, 0.99 * STRETCH * ROW_NORM / frame.longest(problem.columns))
    return Frame(center, within * frame.scale, frame.constant)
