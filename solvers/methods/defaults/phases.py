"""Default schedules of phases on disjoint rows, from a proven bound; docs/proofs/phases.md.

A schedule has k phases of m = floor(n / k) rows with step scales eta_i = h q^(1-i), i = 1..k. Suppose that replacing a
record moves the point of phase i by at most `shift` G eta_i, that the point is released with noise of E||noise||^2 = a
times that squared, and that

    E[Phi(point) - Phi(u)] <= (reach E||u - x_(i-1)||^2 / eta_i) / m + drift G^2 eta_i   for every u in C. Then

    E[Phi(x_k) - Phi(w*)] <= reach D^2 / (h m) + h G^2 B,
    B = reach shift^2 a q (1 + .. + q^(2-k)) / m + drift (1 + .. + q^(1-k)) + shift sqrt(a) q^(1-k).

Phi is the risk over the distribution that the rows are drawn from. r is Lipschitz with at most its share of G.
"""

import math
from dataclasses import dataclass

from accounting.privacy import Privacy, sensitivity_factor
from solvers.errors import Unsuitable
from solvers.losses.smoothing import in_range
from solvers.methods.data.phases import MOST_PHASES, NoiseName, Phases
from solvers.methods.defaults.descent import budget_mu, distance
from solvers.problem import Problem
from solvers.regularizers import NoRegularizer

LEAST_ROWS = 30  # of a phase
_RATIOS = (2.0, 4.0, 8.0, 16.0)  # candidates for q
_BIAS_SHARE = 0.25  # smoothing may add this share of the proven risk
MOST_RIDGE = 1e6
_DISTANCE_FACTOR = 4.0  # a ridge assumes the minimizer at a quarter of `distance`, because its whole bias counts


@dataclass(frozen=True, slots=True)
class Law:
    """Constants of the bound above, as proven for one phase of a method."""

    reach: float
    drift: float
    shift: float


@dataclass(frozen=True, slots=True)
class ScheduleBound:
    """The bound above as a function of the schedule.

    Parameters
    ----------
    law : constants of the method
    noise : a
    distance : D
    gradient_bound : G
    """

    law: Law
    noise: float
    distance: float
    gradient_bound: float

    def risk(self, phases: Phases) -> float:
        """Return the bound for a schedule."""
        remaining_distance = self.law.reach * self.distance**2 / (phases.step * phases.rows)
        factor = self._factor(phases.count, phases.rows, phases.ratio)
        return remaining_distance + phases.step * self.gradient_bound * self.gradient_bound * factor

    def best_phases(
        self,
        n: int,
        count: int | None = None,
        ratio: float | None = None,
        step: float | None = None,
        longest_step: float = math.inf,
    ) -> Phases:
        """Return the schedule on n rows with the smallest bound. Values that are not None are kept.

        Raises
        ------
        Unsuitable
            if a phase would have fewer than 30 rows.
        """
        most_phases = max(1, min(MOST_PHASES, math.ceil(math.log(n)), n // LEAST_ROWS))
        schedules = []
        for k in range(1, most_phases + 1) if count is None else (count,):
            rows = n // k
            if rows < LEAST_ROWS:
                raise Unsuitable(
                    f"phases: {k} phases on n = {n} have {rows} rows each, and each needs {LEAST_ROWS}: "
                    "request fewer phases"
                )
            for q in _RATIOS if ratio is None else (ratio,):
                best_step = self._best_step(k, rows, q) if step is None else step
                schedules.append(Phases(0, k, rows, q, min(best_step, longest_step)))
        return min(schedules, key=self.risk)

    def _best_step(self, count: int, rows: int, ratio: float) -> float:
        factor = self._factor(count, rows, ratio)
        return self.distance / self.gradient_bound * math.sqrt(self.law.reach / rows / factor)

    def _factor(self, count: int, rows: int, ratio: float) -> float:
        """Return B."""
        last = ratio ** (1 - count)
        drifts = (1 - last / ratio) / (1 - 1 / ratio)
        noises = ratio * (1 - last) / (1 - 1 / ratio)
        law, a = self.law, self.noise
        return law.reach * law.shift**2 * a * noises / rows + law.drift * drifts + law.shift * math.sqrt(a) * last


def risk_bound(law: Law, noise: NoiseName, privacy: Privacy, problem: Problem) -> ScheduleBound:
    """Return the bound before a plan exists, with the noise of one answer at the whole budget."""
    return ScheduleBound(law, spread(noise, privacy, problem), distance(problem), problem.G)


def spread(noise: NoiseName, privacy: Privacy, problem: Problem) -> float:
    """Return a = E||noise||^2 over the squared l2 sensitivity of replacement.

    This is d / mu*^2 for Gaussian noise. For Laplace noise in each coordinate it is 2 d^2 / epsilon^2, and a quarter of
    that under zero_out.
    """
    d = problem.size
    if noise == "laplace":
        return d * d / 2 * (sensitivity_factor(problem.relation) / privacy.epsilon) ** 2
    return d / budget_mu(problem, privacy) ** 2


def expected_risk(
    law: Law, phases: Phases, problem: Problem, noise_std: float, distance: float, bias: float
) -> float | None:
    """Return the bound of one run of the phases; None with a regularizer.

    Parameters
    ----------
    noise_std : of the first phase
    bias : distance between the smoothed loss and the requested one, which counts twice
    """
    if not isinstance(problem.regularizer, NoRegularizer):
        return None
    a = problem.size * (noise_std / (law.shift * problem.G * phases.step)) ** 2
    return ScheduleBound(law, a, distance, problem.G).risk(phases) + 2 * bias


def forecast(law: Law, phases: Phases, problem: Problem, noise_std: float, distance: float, bias: float = 0.0) -> str:
    """Return `expected_risk` in words: a bound over the distribution of the rows, and none over these rows."""
    bound = expected_risk(law, phases, problem, noise_std, distance, bias)
    if bound is None:
        return "No bound on the empirical risk is proven, because each phase uses only its own rows."
    smoothing = f" ({2 * bias:.2g} of it for smoothing the loss)" if bias > 0 else ""
    return (
        "No bound on the empirical risk is proven, because each phase uses only its own rows. Proven for rows drawn "
        "independently from one distribution: the expected loss of the model, over rows and noise, exceeds the minimum "
        f"by at most {bound:.4g}{smoothing}, if a minimizer lies within D = {distance:.4g} of the start and every "
        "phase is minimized to the end."
    )


def envelope(method: str, problem: Problem, requested: float | None, proven: float) -> float:
    """Return the width h of the envelope: as requested, or so that smoothing adds at most a quarter of the proven risk.

    Smoothing adds up to h S^2 / 2, with S the slope bound. A smooth loss has width 0.

    Raises
    ------
    Unsuitable
        if the width is 0 and the loss is not smooth.
    """
    if problem.is_smooth:
        return 0.0
    if requested == 0:
        raise Unsuitable(
            f"{method}: smoothing must be above 0, because {problem.loss.name} with these settings is not smooth"
        )
    return requested or in_range(2 * _BIAS_SHARE * proven / problem.loss.slope_bound**2)


def balanced_ridge(problem: Problem, privacy: Privacy, noise: NoiseName) -> float:
    """Return the ridge of output perturbation at which its bias balances the noise, less mu.

    The strength m minimizes m D^2 / 2 + (L / 2) E||noise||^2, where the noise falls as 1 / m^2, and D is a quarter of
    `distance`.
    """
    variance = spread(noise, privacy, problem) * (2 * problem.G / problem.n) ** 2
    strength = math.cbrt(2 * problem.L * variance / (distance(problem) / _DISTANCE_FACTOR) ** 2)
    return min(MOST_RIDGE, max(0.0, strength - problem.mu))
