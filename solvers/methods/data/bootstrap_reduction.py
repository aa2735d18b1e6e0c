"""From expected to empirical risk: a pure method on rows drawn with replacement (Asi, Levy, Duchi 2021)."""

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
    """min_w F(w) + r(w) by the method `inner` on a bootstrap sample: n rows drawn uniformly, with replacement.

    Its rows are independent draws from the data's own distribution, over which the expected loss is F: what is
    proven of `inner` for the expected loss holds for the empirical one, on every dataset.

    Precondition: `inner` is e-DP for the replacement of one row it sees.
    Pseudo-code: draw i_1..i_n; return inner(rows i_1..i_n).
    Postcondition: epsilon-DP with the epsilon of docs/proofs/resampled.md: 1 for e = 0.667. Proof:
    docs/proofs/bootstrap_reduction.md.

    Parameters
    ----------
    inner : Method for the drawn rows, localization or output_perturbation. Its noise is Laplace here

    Reference: Asi, Levy and Duchi 2021, Proposition 4; docs/spec 8.
    Deviations: no run is thrown away for a row drawn too often; e comes from a tighter theorem in place of
    epsilon / (2 log(2 n)).
    """

    inner: Localization | OutputPerturbation = field(default_factory=Localization)
    name: Literal["bootstrap_reduction"] = "bootstrap_reduction"

    def resolve(self, problem: Problem, privacy: Privacy) -> "BootstrapReductionRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if `inner` is, at delta = 0, or there is one row.
        """
        if problem.n < 2:
            raise Unsuitable("bootstrap_reduction needs two records or more")
        own = Privacy(run_epsilon(privacy.epsilon, problem.n), 0.0)
        return BootstrapReductionRun(self.inner.resolve(replace(problem, relation=REPLACE_ONE), own))


@dataclass(frozen=True, slots=True)
class BootstrapReductionRun(DataRun):
    """Resolved settings of `BootstrapReduction`."""

    inner: LocalizationRun | OutputPerturbationRun
    name: Literal["bootstrap_reduction"] = "bootstrap_reduction"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Those of `inner`, on a bootstrap sample."""
        found = []
        for query in self.inner.queries(problem):
            if not isinstance(query.mechanism, Laplace | Parallel):
                raise Unsuitable("bootstrap_reduction: the noise within must be laplace")
            found.append(replace(query, mechanism=Resampled(query.mechanism, problem.n)))
        return tuple(found)

    def bounds(self, problem: Problem) -> Bounds:
        """Those of `inner`."""
        return self.inner.bounds(problem)

    def gradient_evaluations(self, problem: Problem) -> float:
        """Those of `inner`."""
        return self.inner.gradient_evaluations(problem)

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> float | str:
        """On E[F(w)] - min F: what localization has for the expected loss."""
        if isinstance(self.inner, LocalizationRun):
            found = self.inner.expected_risk(problem, noise_std, start.distance)
            return UNFINISHED if found is None else found
        return UNFINISHED

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        return self.inner.run(access.redrawn(), problem)
