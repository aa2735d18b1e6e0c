"""Standardisation by moments that were released before: nothing is asked, the whole price is the method's."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from accounting.divergences.gaussian import gauss_mu
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.frame import Frame
from solvers.oracles import Standardised
from solvers.preparation.moments import Moments
from solvers.preparation.private import FLOOR, Private, framed
from solvers.problem import Problem


@dataclass(frozen=True, slots=True)
class ByProfile:
    """z(x) as `Private` has it, from known moments: a public map of each record by itself.

    Parameters
    ----------
    moments : of the problem's columns, released by a run that was accounted for by itself
    job, sha256 : whose release they are, and the digest of that; None where nobody keeps either
    by_method : the method centres and scales by itself, and is told the moments instead of asking for them

    Proof: docs/proofs/preparation.md. Reference: docs/spec 17 (reuse), 22.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    statement: ClassVar[str] = (
        "Rows are centred and scaled by the means and variances of a profile that was released, and paid for, before; "
        "regularizer and domain act on the standardised coefficients; the model is in the original columns."
    )

    moments: Moments
    job: str | None = None
    sha256: str | None = None
    by_method: bool = False
    name: Literal["profile"] = "profile"

    def prepared(self, problem: Problem) -> Problem:
        """The problem that the method meets."""
        return self._told(problem) if self.by_method else Private().prepared(problem)

    def refusal(self, problem: Problem, privacy: Privacy) -> str | None:
        """Why rows of such a problem cannot be standardised so; None if they can."""
        if privacy.is_pure:
            return "a profile's moments are Gaussian answers, which need delta > 0"
        if problem.columns is not None and len(self.moments.center) != problem.d - 1:
            return "the profile is of rows of another layout"
        return Private.refusal(problem, privacy)

    def coarsened(self, problem: Problem, privacy: Privacy, private: tuple[Query, ...]) -> "ByProfile":
        """Its floors no lower than those of private moments at the same price.

        A rare category that a fine profile resolves is a direction that noisy gradients do not: scaled up, it costs
        more noise than it is worth (docs/proofs/preparation.md has the figures).

        Parameters
        ----------
        private : what would be asked without a profile, with the weights
        """
        weights, mu = {query.name: query.weight for query in private}, gauss_mu(privacy.epsilon, privacy.delta)
        total = sum(weights.values())
        one = sensitivity_factor(problem.relation) * math.sqrt(total) / mu
        moments = self.moments.coarsened(problem, lambda query: one / math.sqrt(weights[query]))
        return replace(self, moments=moments)

    def queries(self, problem: Problem, own: tuple[Query, ...]) -> tuple[Query, ...]:  # noqa: ARG002
        """None beside the method's own."""
        return ()

    def bounds(self, problem: Problem) -> dict[str, tuple[float, int]]:  # noqa: ARG002
        """None."""
        return {}

    def frame(self, oracle: Standardised, problem: Problem) -> Frame | None:  # noqa: ARG002
        """`public_frame`: nothing is asked for it."""
        return self.public_frame(problem)

    def public_frame(self, problem: Problem) -> Frame | None:
        """The frame, from released numbers; None where the method makes its own."""
        if self.by_method:
            return None
        return framed(problem, np.array(self.moments.center), self.moments.floored(FLOOR))

    def _told(self, problem: Problem) -> Problem:
        return replace(problem, moments=(self.moments.center, self.moments.variances, self.moments.noise))
