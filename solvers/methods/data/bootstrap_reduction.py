"""Bootstrap reduction: a pure method on rows drawn with replacement, for the empirical risk (Asi et al. 2021).

Review: The inner method is pure and runs on the secret sample only.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from accounting.divergences.resampling import run_epsilon
from accounting.mechanisms import Laplace, Parallel, Resampled
from accounting.plan import Query
from accounting.privacy import REPLACE_ONE, Privacy
from solvers.errors import Unsuitable
from solvers.methods.data.localization import Localization, LocalizationRun
from solvers.methods.data.output_perturbation import OutputPerturbation, OutputPerturbationRun
from solvers.methods.run import UNFINISHED, Bounds, DataRun, Start, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True)
class BootstrapReduction(Strict):
    """Bootstrap reduction: the method `inner` on a bootstrap sample of n rows, drawn uniformly with replacement.

    min_w F(w) + r(w): the rows are independent draws from the empirical distribution, over which the expected loss is
    F. Bounds of `inner` on the expected loss therefore hold for the empirical loss, on every dataset.

    Precondition: `inner` is e-DP for the replacement of one of its rows, and e/2-DP for one that becomes null.
    Pseudo-code: draw i_1..i_n; return inner(rows i_1..i_n).
    Postcondition: epsilon-DP with the epsilon of docs/proofs/resampled.md: for e = 0.667 it is 1, under zero_out 0.591.
    Proof: docs/proofs/bootstrap_reduction.md.

    Parameters
    ----------
    inner : Method for the drawn rows, localization or output_perturbation. Its noise is Laplace here

    Reference: Asi, Levy and Duchi 2021, Proposition 4; docs/spec 8.
    Deviations: no run is discarded because a row was drawn too often; e comes from a tighter theorem instead of
    epsilon / (2 log(2 n)).
    """

    inner: Localization | OutputPerturbation = field(default_factory=Localization)
    name: Literal["bootstrap_reduction"] = "bootstrap_reduction"

    def resolve(self, problem: Problem, privacy: Privacy) -> "BootstrapReductionRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if `inner` does not solve the problem at delta = 0, or there is only one record.
        """
        if problem.n < 2:
            raise Unsuitable(
                "bootstrap_reduction: n must be at least 2, because all samples of one record are the same"
            )
        own = Privacy(run_epsilon(privacy.epsilon, problem.n, problem.relation), 0.0)
        try:
            return BootstrapReductionRun(self.inner.resolve(replace(problem, relation=REPLACE_ONE), own))
        except Unsuitable as error:
            raise type(error)(f"bootstrap_reduction: {error}") from None


@dataclass(frozen=True, slots=True)
class BootstrapReductionRun(DataRun):
    """Resolved settings of `BootstrapReduction`."""

    inner: LocalizationRun | OutputPerturbationRun
    name: Literal["bootstrap_reduction"] = "bootstrap_reduction"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the queries of `inner`, on a bootstrap sample."""
        queries = []
        for query in self.inner.queries(problem):
            if not isinstance(query.mechanism, Laplace | Parallel):
                raise Unsuitable(
                    "bootstrap_reduction: noise of the inner method must be laplace, because it must be pure"
                )
            queries.append(replace(query, mechanism=Resampled(query.mechanism, problem.n)))
        return tuple(queries)

    def bounds(self, problem: Problem) -> Bounds:
        """Return the bounds of `inner`."""
        return self.inner.bounds(problem)

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return the number of `inner`."""
        return self.inner.gradient_evaluations(problem)

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """Return the bound of localization on the expected loss, which bounds E[F(w)] - min F here."""
        if not isinstance(self.inner, LocalizationRun):
            return UNFINISHED
        risk = self.inner.expected_risk(problem, noise_std, start.distance)
        return UNFINISHED if risk is None else risk

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        return self.inner.run(access.redrawn(), problem)
