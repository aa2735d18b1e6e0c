"""How to cut n rows into phases on disjoint positions, from a proven bound; docs/proofs/phases.md.

k phases of m = floor(n / k) rows with step scales eta_i = h q^(1-i), i = 1..k. If the point of phase i moves by at most
`shift` G eta_i when a record is replaced, is released with noise of E||noise||^2 = a times that squared, and obeys
E[Phi(point) - Phi(u)] <= (reach E||u - x_(i-1)||^2 / eta_i) / m + drift G^2 eta_i for every u in C, then

    E[Phi(x_k) - Phi(w*)] <= reach D^2 / (h m) + h G^2 B,
    B = reach shift^2 a q (1 + .. + q^(2-k)) / m + drift (1 + .. + q^(1-k)) + shift sqrt(a) q^(1-k),

Phi being the risk over the distribution that the rows are drawn from, r Lipschitz in no more than G's share of it.
"""

import math
from dataclasses import dataclass

from accounting.privacy import Privacy, sensitivity_factor
from solvers.errors import Unsuitable
from solvers.methods.data.phases import MOST_PHASES, NoiseName, Phases
from solvers.methods.defaults.descent import budget_mu, distance
from solvers.problem import Problem
from solvers.regularizers import NoRegularizer

LEAST_ROWS = 30
_RATIOS = (2.0, 4.0, 8.0, 16.0)
_BIAS = 0.25  # of the proven risk, how much of it smoothing may add


@dataclass(frozen=True, slots=True)
class Law:
    """What is proven of one phase: the constants of the bound above."""

    reach: float
    drift: float
    shift: float


def spread(noise: NoiseName, privacy: Privacy, problem: Problem) -> float:
    """a = E||noise||^2 over the squared l2 sensitivity of replacement: d / mu*^2, or, for Laplace noise in coordinates,
    2 d^2 / epsilon^2, under zero_out a quarter of that.
    """
    d = problem.size
    if noise == "laplace":
        return d * d / 2 * (sensitivity_factor(problem.relation) / privacy.epsilon) ** 2
    return d / budget_mu(problem, privacy) ** 2


def _factor(law: Law, a: float, count: int, rows: int, ratio: float) -> float:
    """B."""
    last = ratio ** (1 - count)
    drifts = (1 - last / ratio) / (1 - 1 / ratio)
    noises = ratio * (1 - last) / (1 - 1 / ratio)
    return law.reach * law.shift**2 * a * noises / rows + law.drift * drifts + law.shift * math.sqrt(a) * last


def risk(law: Law, a: float, plan: Phases, distance: float, G: float) -> float:
    """The bound for a schedule, D = `distance`."""
    B = _factor(law, a, plan.count, plan.rows, plan.ratio)
    return law.reach * distance**2 / (plan.step * plan.rows) + plan.step * G * G * B


def expected_risk(
    law: Law, plan: Phases, problem: Problem, noise_std: float, distance: float, bias: float
) -> float | None:
    """The bound of one run of the phases, from the std of the first phase's noise; None with a regularizer.

    Parameters
    ----------
    bias : how far the smoothed loss is from the one asked for; twice that is added
    """
    if not isinstance(problem.regularizer, NoRegularizer):
        return None
    a = problem.size * (noise_std / (law.shift * problem.G * plan.step)) ** 2
    return risk(law, a, plan, distance, problem.G) + 2 * bias


def forecast(law: Law, plan: Phases, problem: Problem, noise_std: float, distance: float, bias: float = 0.0) -> str:
    """`expected_risk` in words: none over these rows; what is proven over their distribution."""
    bound = expected_risk(law, plan, problem, noise_std, distance, bias)
    if bound is None:
        return "No bound on the empirical risk is proven: every phase sees its own rows alone."
    smoothing = f" ({2 * bias:.2g} of it for smoothing the loss)" if bias > 0 else ""
    return (
        "No bound on the empirical risk is proven: every phase sees its own rows alone. Proven for rows drawn "
        "independently from one distribution: the expected loss of the model, over rows and noise, exceeds the least "
        f"by at most {bound:.4g}{smoothing}, if a minimizer lies within D = {distance:.4g} of the start and every "
        "phase is minimized to the end."
    )


def choose(
    law: Law,
    a: float,
    n: int,
    distance: float,
    G: float,
    *,
    count: int | None = None,
    ratio: float | None = None,
    step: float | None = None,
    longest: float = math.inf,
) -> Phases:
    """The schedule of least bound; what is given stays, and no step scale exceeds `longest`.

    Raises
    ------
    Unsuitable
        if a phase would hold fewer than 30 rows.
    """
    most = max(1, min(MOST_PHASES, math.ceil(math.log(n)), n // LEAST_ROWS))
    counts = range(1, most + 1) if count is None else (count,)
    found = []
    for k in counts:
        rows = n // k
        if rows < LEAST_ROWS:
            raise Unsuitable(f"{k} phases on n = {n} would hold {rows} each, fewer than {LEAST_ROWS}: ask for fewer")
        for q in _RATIOS if ratio is None else (ratio,):
            best = distance / G * math.sqrt(law.reach / rows / _factor(law, a, k, rows, q))
            plan = Phases(0, k, rows, q, min(best if step is None else step, longest))
            found.append((risk(law, a, plan, distance, G), plan))
    return min(found, key=lambda pair: pair[0])[1]


def envelope(method: str, problem: Problem, asked: float | None, proven: float) -> float:
    """h: as asked, or such that smoothing's bias, h S^2 / 2, adds at most a quarter of the proven risk; 0 for a smooth
    loss. `Unsuitable` for a width of 0 where the loss is not smooth.
    """
    if problem.is_smooth:
        return 0.0
    if asked == 0:
        raise Unsuitable(f"{method}: {problem.loss.name} is not smooth, as it is set: smoothing must be above 0")
    return asked or min(max(2 * _BIAS * proven / problem.loss.slope_bound**2, 1e-4), 100.0)


def balanced_ridge(problem: Problem, privacy: Privacy, noise: NoiseName) -> float:
    """argmin over m of m D^2 / 2 + (L / 2) E||noise||^2, less mu, of output perturbation; the noise falls as 1 / m^2.

    A quarter of the D of `distance`: minimizers are nearer than it looks for them, and here the bias is paid in full.
    """
    variance = spread(noise, privacy, problem) * (2 * problem.G / problem.n) ** 2
    strong = math.cbrt(2 * problem.L * variance / (distance(problem) / 4) ** 2)
    return min(1e6, max(0.0, strong - problem.mu))
