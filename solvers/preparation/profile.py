"""Standardization by moments that were released before, which needs no queries of its own."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from accounting.divergences.gaussian import gauss_mu
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.frame import Frame
from solvers.oracles import Standardised
from solvers.preparation.declared import WithoutQueries
from solvers.preparation.moments import Moments
from solvers.preparation.private import FLOOR, Private, framed
from solvers.problem import Problem


@dataclass(frozen=True, slots=True)
class ByProfile(WithoutQueries):
    """Rows standardized as by `Private`, with moments that are already public.

    Parameters
    ----------
    moments : the moments of the problem's columns, released and charged by an earlier run
    job, sha256 : the job that released them, and the digest of its release. Both are None for moments without a job
    by_method : whether the method standardizes by itself, with these moments instead of queries

    Proof: docs/proofs/preparation.md. Reference: docs/spec 17 (reuse), 22.
    """

    statement: ClassVar[str] = (
        "Rows are centered and scaled by the means and variances of a released profile, which is already paid for. "
        "The regularizer and the domain act on the standardized coefficients. The model is in the original columns."
    )

    moments: Moments
    job: str | None = None
    sha256: str | None = None
    by_method: bool = False
    name: Literal["profile"] = "profile"

    def prepared(self, problem: Problem) -> Problem:
        """Return the problem that the method solves."""
        if self.by_method:
            return replace(problem, moments=(self.moments.center, self.moments.variances, self.moments.noise))
        return Private().prepared(problem)

    def refusal(self, problem: Problem, privacy: Privacy) -> str | None:
        """Return why rows of the problem cannot be standardized by the profile, or None if they can."""
        if privacy.is_pure:
            return "a profile's moments are Gaussian answers, which need delta > 0"
        if problem.columns is not None and len(self.moments.center) != problem.d - 1:
            return "the profile was made of columns with another layout. Request a profile of these columns"
        return Private.refusal(problem, privacy)

    def coarsened(self, problem: Problem, privacy: Privacy, private: tuple[Query, ...]) -> "ByProfile":
        """Return the profile with floors at least as high as those of private moments at the same price.

        A fine profile resolves rare categories that noisy gradients do not resolve. Scaled up, their coordinates cost
        more noise than they gain (figures: docs/proofs/preparation.md).

        Parameters
        ----------
        private : the weighted queries of a run without a profile
        """
        weights, mu = {query.name: query.weight for query in private}, gauss_mu(privacy.epsilon, privacy.delta)
        total = sum(weights.values())
        unit = sensitivity_factor(problem.relation) * math.sqrt(total) / mu
        moments = self.moments.coarsened(problem, lambda query: unit / math.sqrt(weights[query]))
        return replace(self, moments=moments)

    def frame(self, oracle: Standardised, problem: Problem) -> Frame | None:  # noqa: ARG002
        """Return `public_frame`, which needs no answers."""
        return self.public_frame(problem)

    def public_frame(self, problem: Problem) -> Frame | None:
        """Return the frame, from released numbers, or None if the method makes its own."""
        if self.by_method:
            return None
        return framed(problem, np.array(self.moments.center), self.moments.floored(FLOOR))
