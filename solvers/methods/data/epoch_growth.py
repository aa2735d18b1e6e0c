"""Epochs of localization with halved steps, which adapt to the growth of the risk (Asi, Levy and Duchi 2021).

Review: Epochs read disjoint rows.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.checks import check_convex
from solvers.methods.data import phases as cuts
from solvers.methods.data.localization import LAW, Localized, LocalizedRun
from solvers.methods.defaults import phases as schedule
from solvers.methods.defaults.descent import distance
from solvers.methods.run import Start
from solvers.problem import Problem
from solvers.ranges import Real, Whole

MOST_EPOCHS = 1_000
_SMOOTH_KAPPA, _NON_SMOOTH_KAPPA = 2.0, 1.5


@dataclass(frozen=True, slots=True)
class EpochGrowth(Localized):
    """Epochs of localization with halved steps, for risks that grow fast around the minimizer.

    min_w E f(w; z) + r(w), which is at least its minimum + (lambda/kappa) ||w - w*||^kappa with both unknown, by T
    epochs of localization on floor(n/T) rows each. Epoch e starts at the point of the previous one, with steps
    2^-e eta.

    Precondition: as for `localization`. Only the rate needs growth; privacy does not.
    Pseudo-code: for e = 0..T-1: x = localize(rows of epoch e, from x, step 2^-e, envelope of width 2^-e smoothing).
    Postcondition: no row is in two phases of any epochs, so the run costs one release: 2/z-GDP, or 2/z-DP with Laplace
    noise. Proof: docs/proofs/epoch_growth.md.

    Parameters
    ----------
    kappa : Lower bound on the growth exponent, in (1, 100], a public guess. By default 2 for a smooth loss, whose
        growth around an inner minimizer cannot be sharper. By default 1.5 for other losses, where it is only a guess
    epochs : Number of epochs (T). By default the number of halvings of the distance that the proven bound supports
    phases, ratio, step, smoothing, steps, noise : As in localization, for the first epoch

    Reference: Asi, Levy and Duchi 2021, Algorithm 2; docs/spec 6.
    Deviations: C instead of its part within 2^-e D of x, which is not needed (proof); T from the proven bound instead
    of ceil(2 ln n / (kappa - 1)), which is several times as many; those of localization.
    """

    kappa: Annotated[float | None, Real(1, 100, is_open=True)] = None
    epochs: Annotated[int | None, Whole(MOST_EPOCHS)] = None
    name: Literal["epoch_growth"] = "epoch_growth"

    def resolve(self, problem: Problem, privacy: Privacy) -> "EpochGrowthRun":
        """Return the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            as `localization`; and if n is too small for phases of 30 rows or for one proven halving of the distance.
        """
        check_convex("epoch_growth", problem)
        noise = cuts.noise_for("epoch_growth", self.noise, privacy)
        kappa = self.kappa or (_SMOOTH_KAPPA if problem.is_smooth else _NON_SMOOTH_KAPPA)
        bound = schedule.risk_bound(LAW, noise, privacy, problem)
        reach = problem.G * distance(problem)
        T = self.epochs or self._halvings(problem, bound, kappa)
        plan = self._first_epoch(problem, bound, T)
        risk = bound.risk(plan)
        width = schedule.envelope("epoch_growth", problem, self.smoothing, risk)
        if self.epochs is None and risk >= reach * 2**-kappa:
            raise Unsuitable(
                f"epoch_growth: n = {problem.n} is too small. The proven error of an epoch is {risk / reach:.3g} G D, "
                f"and halving the distance to the minimizer at kappa = {kappa:g} needs less than {2**-kappa:.3g} G D. "
                "Use localization, or set epochs"
            )
        return EpochGrowthRun(plan.count, plan.ratio, plan.step, width, self.steps, noise, kappa, T)

    def _halvings(self, problem: Problem, bound: schedule.ScheduleBound, kappa: float) -> int:
        """Return the smallest T with T > log2(G D / (2^kappa risk of one epoch)) / (kappa - 1).

        More epochs gain nothing. If even one halving is then not proven, the result is T - 1.
        """
        for T in range(1, MOST_EPOCHS + 1):
            risk = bound.risk(self._first_epoch(problem, bound, T))
            useful = math.log2(problem.G * distance(problem) / risk) - kappa
            if useful / (kappa - 1) < T:
                return T if useful > 0 else max(1, T - 1)
        raise Unsuitable(
            f"epoch_growth: kappa = {kappa:g} is too small, because it takes more than {MOST_EPOCHS} epochs here: "
            "set a larger kappa"
        )

    def _first_epoch(self, problem: Problem, bound: schedule.ScheduleBound, epochs: int) -> cuts.Phases:
        """Return the phases of the first epoch."""
        rows = problem.n // epochs
        if rows < schedule.LEAST_ROWS * (self.phases or 1):
            raise Unsuitable(
                f"epochs: {epochs} epochs on n = {problem.n} have {rows} rows each, and each of their phases needs "
                f"{schedule.LEAST_ROWS}. Request fewer epochs or phases, a larger kappa, or localization"
            )
        return bound.best_phases(rows, self.phases, self.ratio, self.step)


@dataclass(frozen=True, slots=True)
class EpochGrowthRun(LocalizedRun):
    """Resolved settings of `EpochGrowth`."""

    kappa: float
    epochs: int
    name: Literal["epoch_growth"] = "epoch_growth"

    @property
    def localizations(self) -> int:
        """T."""
        return self.epochs

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:
        """Return in words the bound of the first epoch, over the distribution of the rows."""
        plan = self.schedule(problem)
        first = schedule.forecast(LAW, plan, problem, noise_std, start.distance, self.bias(problem))
        return (
            f"{first} This bound is for the first of {self.epochs} epochs. If the risk grows around the minimizer, "
            "each later epoch can halve it."
        )
