"""Epochs of localization whose steps halve: the faster rate of a risk with growth, untold (Asi, Levy, Duchi 2021)."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from accounting.numbers import finite
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.losses.smoothing import bias, smoothed
from solvers.methods.checks import check_convex, check_count, check_ratio, check_smoothing, check_step
from solvers.methods.data import phases as cuts
from solvers.methods.data.localization import LAW, MOST_STEPS, localize, piece_of
from solvers.methods.data.phases import NoiseName
from solvers.methods.defaults import distance
from solvers.methods.defaults import phases as schedule
from solvers.methods.run import Bounds, DataRun, Start, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector

MOST_EPOCHS = 1_000
_MOST_DEFAULT_STEPS = 2_000
_SMOOTH, _ROUGH = 2.0, 1.5


@dataclass(frozen=True, slots=True)
class EpochGrowth(Strict):
    """min_w E f(w; z) + r(w) where it grows like its least value + (lambda/kappa) ||w - w*||^kappa, both unknown:
    T epochs of localization on floor(n/T) rows each, epoch e from the last one's point with steps 2^-e eta.

    Precondition: as for `localization`. Growth is asked for by the rate alone, never by privacy.
    Pseudo-code: for e = 0..T-1: x = localize(rows of epoch e, from x, step 2^-e, envelope of width 2^-e smoothing).
    Postcondition: no row is in two phases of any epochs, so the run costs one release: 2/z-GDP, or 2/z-DP with Laplace
    noise.
    Proof: docs/proofs/epoch_growth.md.

    Parameters
    ----------
    kappa : Lower bound on the growth exponent, in (1, 100], a public guess. By default 2 for a smooth loss, whose
        growth around an inner minimizer cannot be sharper. By default 1.5 for other losses, where it is only a guess
    epochs : T. By default the number of halvings of the distance that the proven bound supports
    phases, ratio, step, smoothing, steps, noise : Parameter of the first epoch's localization

    Reference: Asi, Levy and Duchi 2021, Algorithm 2; docs/spec 6.
    Deviations: C in place of its part within 2^-e D of x, which is not needed (proof); T from the proven bound in place
    of ceil(2 ln n / (kappa - 1)), which is several times as many; localization's own.
    """

    kappa: float | None = None
    epochs: int | None = None
    phases: int | None = None
    ratio: float | None = None
    step: float | None = None
    smoothing: float | None = None
    steps: int = _MOST_DEFAULT_STEPS
    noise: NoiseName | None = None
    name: Literal["epoch_growth"] = "epoch_growth"

    def __post_init__(self) -> None:
        if self.kappa is not None and not 1 < finite(self.kappa, "kappa") <= 100:
            raise Unsuitable("epoch_growth: kappa must lie in (1, 100]")
        check_count("epoch_growth: epochs", self.epochs, MOST_EPOCHS)
        check_count("epoch_growth: phases", self.phases, cuts.MOST_PHASES)
        check_count("epoch_growth: steps", self.steps, MOST_STEPS)
        check_step("epoch_growth: step", self.step)
        check_ratio("epoch_growth", self.ratio)
        check_smoothing("epoch_growth", self.smoothing)

    def resolve(self, problem: Problem, privacy: Privacy) -> "EpochGrowthRun":
        """Every open field filled from public facts.

        Raises
        ------
        Unsuitable
            as `localization`; and if n is too small for phases of 30 rows or for one proven halving of the distance.
        """
        check_convex("epoch_growth", problem)
        noise = cuts.noise_for("epoch_growth", self.noise, privacy)
        kappa = self.kappa or (_SMOOTH if problem.is_smooth else _ROUGH)
        reach = problem.G * distance(problem)
        a = schedule.spread(noise, privacy, problem)
        T = self.epochs or self._halvings(problem, a, kappa)
        plan, proven = self._epoch(problem, a, T)
        width = schedule.envelope("epoch_growth", problem, self.smoothing, proven)
        if self.epochs is None and proven >= reach * 2**-kappa:
            raise Unsuitable(
                f"epoch_growth: with n = {problem.n} an epoch's proven error is {proven / reach:.3g} G D, and one "
                f"that halves the distance to the minimizer at kappa = {kappa:g} needs less than {2**-kappa:.3g} G D: "
                "take localization, or name the epochs"
            )
        return EpochGrowthRun(kappa, T, plan.count, plan.ratio, plan.step, width, self.steps, noise)

    def _halvings(self, problem: Problem, a: float, kappa: float) -> int:
        """The least T with T > log2(G D / (2^kappa risk of one epoch)) / (kappa - 1), beyond which epochs gain nothing;
        one less where even one halving is then in doubt.
        """
        for T in range(1, MOST_EPOCHS + 1):
            _, proven = self._epoch(problem, a, T)
            useful = math.log2(problem.G * distance(problem) / proven) - kappa
            if useful / (kappa - 1) < T:
                return T if useful > 0 else max(1, T - 1)
        raise Unsuitable(
            f"epoch_growth: kappa = {kappa:g} takes more than {MOST_EPOCHS} epochs here: name a larger one"
        )

    def _epoch(self, problem: Problem, a: float, epochs: int) -> tuple[cuts.Phases, float]:
        """The first epoch's phases and proven risk."""
        D, rows = distance(problem), problem.n // epochs
        if rows < schedule.LEAST_ROWS * (self.phases or 1):
            raise Unsuitable(
                f"epoch_growth: {epochs} epochs on n = {problem.n} hold {rows} each, and every phase of one needs "
                f"{schedule.LEAST_ROWS}: ask for fewer epochs or phases, raise kappa, or take localization"
            )
        plan = schedule.choose(LAW, a, rows, D, problem.G, count=self.phases, ratio=self.ratio, step=self.step)
        return plan, schedule.risk(LAW, a, plan, D, problem.G)


@dataclass(frozen=True, slots=True)
class EpochGrowthRun(DataRun):
    """Its sizes as `EpochGrowth` has them."""

    kappa: float
    epochs: int
    phases: int
    ratio: float
    step: float
    smoothing: float
    steps: int
    noise: NoiseName
    name: Literal["epoch_growth"] = "epoch_growth"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """A release a phase, at the cost of one."""
        return cuts.parallel(self.noise, self.epochs * self.phases)

    def bounds(self, problem: Problem) -> Bounds:
        """The first phase's per-record bound, the largest, and its number of coordinates."""
        piece = piece_of(problem, self.schedule(problem, 0), 0, self.smoothing)
        moved = piece.sensitivity(float(np.linalg.norm(problem.start)))
        return {cuts.QUERY: (cuts.bound(self.noise, moved, problem.size), problem.size)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Sum of T_i m over all phases."""
        plans = [(self.schedule(problem, e), 2.0**-e * self.smoothing) for e in range(self.epochs)]
        pieces = [piece_of(problem, plan, i, h) for plan, h in plans for i in range(self.phases)]
        return float(sum(piece.steps(self.steps) * len(piece.rows) for piece in pieces))

    def schedule(self, problem: Problem, epoch: int) -> cuts.Phases:
        """The phases of an epoch = 0..T-1."""
        rows = problem.n // self.epochs
        return cuts.Phases(epoch * rows, self.phases, rows // self.phases, self.ratio, 2.0**-epoch * self.step)

    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:
        """None over these rows; what is proven of the first epoch's, over their distribution, in words."""
        off = bias(problem.loss, smoothed(problem.loss, self.smoothing))
        first = schedule.forecast(LAW, self.schedule(problem, 0), problem, noise_std, start.distance, off)
        later = "growth around the minimizer lets each later one halve it."
        return f"{first} That is for the first of {self.epochs} epochs; {later}"

    def run(self, access: Access, problem: Problem) -> Vector:
        """The private model."""
        x = problem.start
        for e in range(self.epochs):
            width = 2.0**-e * self.smoothing
            x = localize(access, problem, self.schedule(problem, e), x, width, self.steps, self.noise)
        return x
