"""One worst-case pair for every method: `audit(name, runs)` is what `purse audit` prints.

The pair is two records whose gradients are opposite and as long as allowed wherever the run goes, among rows of zeros:
then every answer moves by its whole sensitivity. The same attack with half the noise shows the audit's power.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from accounting.calibration import calibrate, certify
from accounting.noise import Noise
from accounting.privacy import Privacy
from solvers import methods, perturbation
from solvers.audit.attack import Row, Statistic, halved, scores
from solvers.audit.bounds import DELTAS, epsilon_lower_bound
from solvers.catalog import Method
from solvers.losses import Squared
from solvers.problem import Problem, Vector
from solvers.regularizers import L2

PROMISE = Privacy(4.0, 1e-5)
_N = 40
_FLAT = Problem(Squared(1.0), n=_N, d=2, row_norm=1.0)
_CURVED = Problem(Squared(1.0), L2(1.0), n=_N, d=2, row_norm=1.0)
# In many dimensions the noise carries w far from its anchor, while the margin of the audited row stays near 0.
_WIDE = Problem(Squared(1.0), n=_N, d=300, row_norm=1.0)


def first(w: Vector) -> float:
    """The coordinate in which the two records differ, larger for the first."""
    return float(w[0])


@dataclass(frozen=True, eq=False)
class Case:
    """What is audited: a method with its sizes fixed, on a problem, at a position, by a statistic or its transcript,
    in `effort` times as many runs as asked for.
    """

    method: Method
    problem: Problem
    statistic: Statistic | None = None
    position: int = 0
    privacy: Privacy = PROMISE
    rows: tuple[float, float] = (1.0, -1.0)
    deltas: tuple[float, ...] = field(default=DELTAS)
    effort: int = 1

    def pair(self) -> tuple[Row, Row]:
        """Two records with opposite gradients."""
        x = np.zeros(self.problem.d)
        x[0] = self.problem.row_norm
        return Row(x, self.rows[0]), Row(x, self.rows[1])


CASES: dict[str, Case] = {
    "dp_gd": Case(methods.DpGd(steps=3, step=0.01), _FLAT),
    "dp_acc_md": Case(methods.DpAccMd(steps=3, step=0.01), _FLAT),
    "dp_svrg": Case(methods.DpSvrg(epochs=1, inner_steps=6, batch=16, step=1.0), _WIDE),
    "dp_svrg_pp": Case(methods.DpSvrgPp(epochs=2, inner_steps=1, batch=16, step=1.0), _WIDE),
    "noisy_sgd": Case(methods.NoisySgd(steps=6, batch=16, step=0.01), _FLAT),
    "output_perturbation": Case(perturbation.OutputPerturbation(steps=200), _CURVED, first),
    "objective_perturbation": Case(perturbation.ObjectivePerturbation(), _CURVED, first),
    "ada_ssp": Case(perturbation.AdaSsp(), _FLAT, first),
    "localization": Case(perturbation.Localization(phases=1, step=0.05), _FLAT, first),
    "epoch_growth": Case(perturbation.EpochGrowth(epochs=1, phases=1, step=0.05), _FLAT, first),
    "phased_sgd": Case(perturbation.PhasedSgd(phases=1, step=0.05), _FLAT, first),
    "growth_reduction": Case(perturbation.GrowthReduction(rounds=1, strength=1.0), _FLAT, first),
    # a row is not drawn at all in a quarter of the runs: it takes more of them to see anything
    "bootstrap_reduction": Case(
        perturbation.BootstrapReduction(perturbation.OutputPerturbation(steps=8)),
        Problem(Squared(1.0), L2(1.0), n=2, d=1, row_norm=1.0),
        first,
        privacy=Privacy(1.0, 0.0),
        rows=(9.0, -9.0),
        effort=4,
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """At one delta: the promised epsilon, the lower bound on the true one, and the bound with half the noise."""

    delta: float
    promise: float
    lower_bound: float
    half_noise: float


def audit(name: str, runs: int, noise: Callable[[int], Noise] = lambda _: Noise()) -> list[Finding]:
    """Both attacks on one method, `runs` runs on either dataset each, at every delta of the case.

    Raises
    ------
    KeyError
        if there is no such method.
    """
    case = CASES[name]
    method = case.method.resolve(case.problem, case.privacy)
    plan = calibrate(method.queries(case.problem), case.privacy).plan
    found, runs = [], runs * case.effort
    for noisy in (plan, halved(plan)):
        found.append(scores(method, case.problem, noisy, case.pair(), runs, noise, case.statistic, case.position))
    return [
        Finding(d, certify(plan, d)[0], epsilon_lower_bound(*found[0], d), epsilon_lower_bound(*found[1], d))
        for d in case.deltas
    ]
