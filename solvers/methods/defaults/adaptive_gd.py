"""The schedule of adaptive_gd: every constant of the method by name, with its source.

Symbols: n records, d coefficients (all outputs), mu* the budget as a Gaussian mu, C the limit of a record's gradient,
eta the step size. r = n mu* / d is the *signal*: by how much a gradient of norm 1 exceeds the noise of one answer that
is given the whole budget. sigma = 2 C / (n mu*) is the noise std of such an answer in one coordinate.

"Spec" is docs/spec/preparation.md, "proof" is docs/proofs/adaptive_gd.md, "trials" is docs/benchmarks/trials.md and
"ours" is docs/benchmarks/ours.md. A constant whose source is "ours" was chosen by the scores there, and no run that
varies this constant alone is recorded.
"""

import math
from dataclasses import dataclass

from solvers.losses import Loss, Quantile
from solvers.losses.smoothing import BoundedSlope, Surrogate, surrogate
from solvers.problem import Problem

# Source of these three: proof, "Little signal".
CONSTANT = 0.3  # last coordinate of every z, where the others have mean square 1: centered rows need little intercept
_NEGLIGIBLE_RIDGE = 0.01  # of the curvature
_DECAY = 10.0  # exponent: e^-10 of the start remains


@dataclass(frozen=True, slots=True)
class Ramp:
    """A share that is 0 up to `start`, rises linearly, and is 1 from `end` on."""

    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the share at a value."""
        return min(max((value - self.start) / (self.end - self.start), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class BudgetShares:
    """Shares of mu^2 in percent; the gradients get the remainder.

    Parameters
    ----------
    means, spread, variances : of the columns. Source: spec 26, item 1
    target_mean, target_spread : of a number target. Source: ours
    residual : of all answers about the scale of residuals together. Source: ours
    """

    means: float = 5.0
    spread: float = 1.0
    variances: float = 3.0
    target_mean: float = 2.0
    target_spread: float = 2.0
    residual: float = 2.0


@dataclass(frozen=True, slots=True)
class SettingsRule:
    """The rule for settings that a request leaves out.

    Parameters
    ----------
    steps : T of a small problem. Source: ours
    steps_per_column, most_steps_by_columns, many_columns_from_signal : T is at least 2 d, up to 500, if r is at least
        10. Source: ours (w8a)
    forgetting : T for classes is at least 8 / sqrt(eta sigma): the mean of the points then keeps 1/32 of the start.
        Steps that test a wide limit are not counted. Source: proof, "Steps"; trials, `descent`
    most_steps_by_forgetting : Largest T by that rule. Source: trials, `descent` (w8a)
    most_evaluations : Largest T n by that rule, in per-record gradients. With more records, noise is small after fewer
        steps. Source: running time
    tight_limit, tight_limit_below_signal : Slopes of logistic and softmax are limited to half of their bound if r is
        below 200. Source: ours; spec 26, item 3
    signal_per_cubed_limit, least_limit, most_limit : The limit of other bounded slopes is (r / 100)^(1/3) in [1/2, 8].
        Source: proof, "The limit of bounded slopes"
    least_wide_limit : From this value on, that limit is also the wide limit of logistic and softmax. Source: proof,
        "The wide limit of classes"
    steps_bounded : T of numbers with a bounded slope, at least. Source: proof, "Smoothed kinks"
    signal_per_residual_limit, most_residual_limit : Limit of residuals, r / 1000 in [1, 4], in half ranges of the
        target. Source: ours (clipping matters more than noise if r is large)
    """

    steps: int = 250
    steps_per_column: int = 2
    most_steps_by_columns: int = 500
    many_columns_from_signal: float = 10.0
    forgetting: float = 8.0
    most_steps_by_forgetting: int = 1000
    most_evaluations: float = 5e9
    tight_limit: float = 0.5
    tight_limit_below_signal: float = 200.0
    signal_per_cubed_limit: float = 100.0
    least_limit: float = 0.5
    most_limit: float = 8.0
    least_wide_limit: float = 2.5
    steps_bounded: int = 500
    signal_per_residual_limit: float = 1000.0
    most_residual_limit: float = 4.0

    def slope_limit(self, problem: Problem, signal: float) -> float:
        """Return the largest C as a share of the largest slope."""
        grown = min(max(math.cbrt(signal / self.signal_per_cubed_limit), self.least_limit), self.most_limit)
        if isinstance(problem.loss, BoundedSlope) or grown >= self.least_wide_limit:
            return grown
        return self.tight_limit if signal < self.tight_limit_below_signal else 1.0

    def residual_limit(self, signal: float) -> float:
        """Return the largest C for numbers."""
        return min(max(1.0, signal / self.signal_per_residual_limit), self.most_residual_limit)

    def step_count(self, problem: Problem, signal: float, slope_limit: float) -> int:
        """Return T."""
        steps = self.steps
        if signal >= self.many_columns_from_signal:
            steps = max(steps, min(self.steps_per_column * problem.d, self.most_steps_by_columns))
        if problem.loss.takes == "number":
            return max(steps, self.steps_bounded) if isinstance(problem.loss, BoundedSlope) else steps
        limit = CLASSES.narrow_limit(problem, slope_limit)
        noise = 2 * limit * problem.loss.slope_bound / (signal * problem.size)
        moving = 1.0 if limit == slope_limit else 1 - (CLASSES.tested_until - CLASSES.tested_from)
        forgetting = self.forgetting / math.sqrt(CLASSES.step(problem) * noise) / moving
        by_size = self.most_evaluations / problem.slots
        return max(steps, math.ceil(min(forgetting, self.most_steps_by_forgetting, by_size)))


@dataclass(frozen=True, slots=True)
class ClassSchedule:
    """Constants of a run for classes.

    Parameters
    ----------
    step_one_margin, step_many_margins : eta of logistic and softmax, before steps grow. Both are below 1 / L: the
        curvature is at most 1/4, or 1/2 with several margins, and the mean square of a row is about 1.09. Twice as
        large is better on w8a and worse on Bank. Source: trials, "Not in the product"
    smoothing : h of the smoothed hinge, at least. eta is 1 over its curvature. Source: proof, "Smoothed kinks"
    variance_trust : Variances are raised to 3 stds of their noise if r is at most 4, to 1 if it is at least 8.
        Source: trials, "Now in the product"
    floor_stds, trusted_floor_stds : These two numbers of stds. Source: spec 17 (3) and spec 26, item 2 (1)
    full_scaling : The power of the variances rises from 1/2 to 1 as r rises from 8 to 16. Source: trials, `small`
    least_scaling : The power at little signal. Source: spec 17
    l1_signal : The first l1 weight is min(1, r / 5) sigma. Source: proof, "The weight of the l1 penalty"
    l1_width, l1_width_size : The std of its prior is 0.2 min(1, d / 100)^2 sigma. Source: trials, "Now in the
        product"
    l1_offset : Added to each |coefficient| where the l1 is re-weighted. Source: proof, "The weight of the l1 penalty"
    l1_learned_from : The l1 weight is learned from this share of the steps on. Source: proof, "The weight of the l1
        penalty"
    reallocations : The frame changes after these shares of the steps. Source: spec 26, item 6; ours
    most_narrow_limit : Slopes of logistic and softmax are limited to their bound until the test finds that this moves
        the minimizer. Source: ours; proof, "The wide limit of classes"
    tested_from, tested_until : The wide limit is tested between these shares of the steps. Source: same
    false_alarm_cost : The test's level is this share of (C / wide C)^2, because a false alarm multiplies the noise's
        excess by the inverse of that. Source: same
    least_signal : Below this r, the model is an intercept, except for columns that may be sparse. Source: proof,
        "Little signal"
    small_ridge : The ridge of this exception, in units of sigma times the square root of the slots of a person. For
        rows, the noise of margins then has a std of about 1/4 and costs about 1/128. Source: same
    least_precision : Below this n mu* per slot of a person, the exception does not hold, because the noise of the
        intercept costs more than it does for a constant. Source: same
    intercept_curvature, intercept_variance : The intercept's ridge supposes this curvature, the mean over margins of
        std 3.6, and this variance of the log-odds of a class. Source: proof, "Little signal"
    """

    step_one_margin: float = 3.0
    step_many_margins: float = 1.5
    smoothing: float = 0.5
    variance_trust: Ramp = Ramp(4, 8)
    floor_stds: float = 3.0
    trusted_floor_stds: float = 1.0
    full_scaling: Ramp = Ramp(8, 16)
    least_scaling: float = 0.5
    l1_signal: float = 5.0
    l1_width: float = 0.2
    l1_width_size: float = 100.0
    l1_offset: float = 0.1
    l1_learned_from: float = 0.1
    reallocations: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8)
    most_narrow_limit: float = 1.0
    tested_from: float = 0.2
    tested_until: float = 0.3
    false_alarm_cost: float = 0.02
    least_signal: float = 1.0
    small_ridge: float = 4.0
    least_precision: float = 100.0
    intercept_curvature: float = 0.1
    intercept_variance: float = 1.0

    def step(self, problem: Problem) -> float:
        """Return eta."""
        if isinstance(problem.loss, BoundedSlope):
            return 1 / surrogate(problem.loss, self.smoothing).curvature
        return self.step_one_margin if problem.outputs == 1 else self.step_many_margins

    def narrow_limit(self, problem: Problem, slope_limit: float) -> float:
        """Return the C of the first steps, as a share of the largest slope."""
        return slope_limit if isinstance(problem.loss, BoundedSlope) else min(slope_limit, self.most_narrow_limit)

    def tested_steps(self, steps: int) -> range:
        """Return the steps whose gradients test the wide limit; none if there are fewer than two."""
        tested = range(int(self.tested_from * steps) + 1, int(self.tested_until * steps) + 1)
        return tested if len(tested) > 1 else range(0)

    def variance_floor(self, signal: float) -> float:
        """Return the number of noise stds that variances are raised to."""
        return self.floor_stds - (self.floor_stds - self.trusted_floor_stds) * self.variance_trust.at(signal)

    def scaling_power(self, signal: float) -> float:
        """Return the power of the variances that columns are divided by the root of."""
        return self.least_scaling + (1 - self.least_scaling) * self.full_scaling.at(signal)

    def first_l1(self, signal: float) -> float:
        """Return the mean of the l1 weight's prior, in units of sigma."""
        return min(1.0, signal / self.l1_signal)

    def l1_std(self, problem: Problem) -> float:
        """Return the std of the l1 weight's prior, in units of sigma."""
        return self.l1_width * min(1.0, problem.size / self.l1_width_size) ** 2


@dataclass(frozen=True, slots=True)
class NumberSchedule:
    """Constants of a run for number targets, which lie in [-1, 1].

    Parameters
    ----------
    step : eta of least squares, below 1 / L: the curvature is 1, and the mean square of a row is about 1.09. Source:
        proof, "Smoothed kinks" (stable steps)
    window : Width over which the kink of another loss is smoothed, in scales of the residuals. eta is 1 over the
        curvature of the smooth loss. Source: proof, "Smoothed kinks"
    high_signal, very_high_signal : Ranges of r, from 60 to 260 and from 400 to 1200, over which the next two settings
        change. Source: ours (Health insurance and Diamonds)
    floor_stds, high_signal_floor_stds : Variances are raised to 1 std of their noise, and to 3 at high signal. Source:
        spec 26, item 2; ours
    scaling_decrease : The power of the variances is 1, less 1/4 at high signal, less 1/4 again at very high signal.
        Source: spec 26, item 2; ours
    convexity_sigmas, low_signal_convexity_sigmas, low_signal_below : Momentum assumes a strong convexity of 3 sigma, or
        8 sigma if r is below 30. Source: ours
    l1 : The l1 weight in units of sigma. Source: spec 26, item 5; ours
    l1_offset : Added to each |coefficient| where the l1 is re-weighted, in spreads of the target. Source: ours
    least_width, width_signal : Residuals are clipped at 1.25 w times their scale, w = max(0.7, sqrt(r / 20)). They are
        clipped later if there is little noise. Source: ours
    clip_scales : The number 1.25 there. It is about sqrt(pi / 2), the std of a Gaussian over its mean distance from 0.
        Source: same
    counted_scales : A residual counts towards the next scale up to 4.5 C / w, that is 5.6 scales. Source: ours
    rescalings : The scale is released again after these shares of the steps. Source: ours
    least_signal : Below this r, the model is an intercept. Source: proof, "Little signal"
    mean_variance, exact_mean : Prior variance of the mean target. A released mean is shrunk towards 0 if the std of
        its noise exceeds .05. Source: proof, "Little signal"
    most_spread : Of targets, for the distance of a quantile from the mean. Source: proof, "Little signal"
    """

    step: float = 0.5
    window: float = 0.5
    high_signal: Ramp = Ramp(60, 260)
    very_high_signal: Ramp = Ramp(400, 1200)
    floor_stds: float = 1.0
    high_signal_floor_stds: float = 3.0
    scaling_decrease: float = 0.25
    convexity_sigmas: float = 3.0
    low_signal_convexity_sigmas: float = 8.0
    low_signal_below: float = 30.0
    l1: float = 0.7
    l1_offset: float = 0.1
    least_width: float = 0.7
    width_signal: float = 20.0
    clip_scales: float = 1.25
    counted_scales: float = 4.5
    rescalings: tuple[float, ...] = (0.12, 0.3, 0.6)
    least_signal: float = 4.0
    mean_variance: float = 0.1
    exact_mean: float = 0.05
    most_spread: float = 0.2

    def variance_floor(self, signal: float) -> float:
        """Return the number of noise stds that variances are raised to."""
        return self.floor_stds + (self.high_signal_floor_stds - self.floor_stds) * self.high_signal.at(signal)

    def scaling_power(self, signal: float) -> float:
        """Return the power of the variances that columns are divided by the root of."""
        return 1 - self.scaling_decrease * (self.high_signal.at(signal) + self.very_high_signal.at(signal))

    def convexity(self, signal: float) -> float:
        """Return the strong convexity that momentum assumes, in units of sigma."""
        return self.low_signal_convexity_sigmas if signal < self.low_signal_below else self.convexity_sigmas

    def width(self, signal: float) -> float:
        """Return w."""
        return max(self.least_width, math.sqrt(signal / self.width_signal))

    def shrunk_mean(self, mean: float, noise: float) -> float:
        """Return the released mean target, shrunk towards 0 by its prior, in [-1, 1]."""
        if noise > self.exact_mean:
            mean *= self.mean_variance / (self.mean_variance + noise**2)
        return min(max(mean, -1.0), 1.0)

    def intercept_ridge(self, loss: Loss, sigma: float, noise: float, spread: float, scale: float) -> float:
        """Return the ridge of the intercept, whose start is the released mean target; 0 if the mean is exact.

        Parameters
        ----------
        noise : std of the noise of the mean
        spread, scale : released scales of the target and of the residuals
        """
        if noise <= self.exact_mean:
            return 0.0
        variance = 1 / (1 / self.mean_variance + 1 / noise**2)
        if isinstance(loss, BoundedSlope):
            variance += min(spread, self.most_spread) ** 2
        return balanced_ridge(sigma, self.curvature(loss, scale), variance)

    def curvature(self, loss: Loss, scale: float) -> float:
        """Return the mean curvature of a loss; with a kink, only rows within the window have any."""
        return self.window / 2 * self.surrogate(loss, scale).curvature if isinstance(loss, BoundedSlope) else 1.0

    def surrogate(self, loss: BoundedSlope, scale: float) -> Surrogate:
        """Return the smooth form of a loss at this scale of the residuals.

        The window is h of a quantile loss, and 2 h of a Huber loss.
        """
        window = self.window * scale
        return surrogate(loss, window if isinstance(loss, Quantile) else window / 2)


SHARES = BudgetShares()
SETTINGS = SettingsRule()
CLASSES = ClassSchedule()
NUMBERS = NumberSchedule()


def constant_step(steps: int, curvature: float) -> float:
    """Return the step size of a run for an intercept, as short as it can be.

    The start is forgotten to e^-10. Longer steps would carry points to where the slopes are clipped.
    """
    return _DECAY / (steps * curvature)


def balanced_ridge(sigma: float, curvature: float, variance: float) -> float:
    """Return the ridge of an intercept whose distance from its start has this variance, in margins.

    sigma^2 / (curvature variance) balances noise against shrinkage. It is 0 if it is below a hundredth of the
    intercept's own curvature.
    """
    balanced = sigma**2 / (curvature * variance)
    return balanced if balanced > _NEGLIGIBLE_RIDGE * curvature * CONSTANT**2 else 0.0


def steps_at(shares: tuple[float, ...], steps: int) -> set[int]:
    """Return the steps after these shares of all steps; the first step is 1."""
    return {max(1, int(share * steps)) for share in shares}
