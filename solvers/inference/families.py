"""The families of models of a regression table: logistic, linear, and Poisson with log link.

A family chooses its limits, weights and starting point, and states its constants. All of them are functions of public
and released numbers. The constants were chosen by the simulations of docs/spec 27. They affect the widths of intervals,
and never the privacy guarantee.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from solvers.inference.target import LARGEST_RESIDUAL, Target, least_share
from solvers.weighting import AnyWeights, LinearWeights, LogisticWeights, PoissonWeights

STEPS = (0.1, 0.15, 0.2, 0.25, 0.35, 0.45, 0.6, 0.9)
"""Weights of the steps of the path. The privacy share of a step is `Family.step_share` times its weight."""

LATE_STEP = len(STEPS) - 3
"""Index of the step before which the scale of residuals is released again."""

LARGEST_SQUARED_ROW = 6.0
"""Largest value of `Limits.squared_row`."""

SEPARATED = "the classes are nearly separated, so coefficients have no finite estimate"
FEW_EVENTS = "one class has too few rows for this many coefficients"
FEW_COUNTS = "the counts are too small for this many coefficients, or for the noise at this largest count"

_SQUARED_SCORES, _MOST_SQUARED_SCORES = 0.04, 0.1
_LEAST_CLASS_SHARE, _LEAST_MEAN_COUNT = 1e-4, 0.002
_STD_PER_DISTANCE = 1.25  # std of a Gaussian over its mean distance from 0
_LARGEST_LAST_RESIDUAL = 4.0
_FIRST_LIMIT, _LATE_LIMIT, _LIMIT = 3.0, 2.5, 2.0  # limits of residuals on the path, in stds of residuals
_RESIDUAL_LIMIT, _LEAST_RESIDUAL_LIMIT = 4.0, 2.0  # in stds of residuals; a normal fit cut at 2 loses about 1 percent
_LARGEST_STEP, _LEAST_STEP = 0.04, 0.015  # of a linear path, the share of a step with weight 1
_SEPARATED_MARGINS = 4.0  # std of the margins of a logistic model beyond which classes are nearly separated
_LEAST_EVENTS_PER_PARAMETER, _LEAST_EVENTS_STDS = 10, 4.0
_TYPICAL_MEAN = 0.1  # mean count that shares and forecasts assume, as a share of the largest count
_MEAN_WEIGHT = 0.5  # mean weight of a record of a Poisson model


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of records in a table.

    Parameters
    ----------
    squared_row : r^2, the squared norm beyond which a record's weight falls
    score : largest norm of a score divided by r, which is c for classes and 1/2 for counts. For numbers it is K, the
        limit of residuals in stds of residuals
    """

    squared_row: float
    score: float


@dataclass(frozen=True, slots=True)
class FitFacts:
    """Released facts about a fit, for which a family may refuse the table.

    Parameters
    ----------
    target : released numbers about the target
    rows : released number of rows
    share_std : noise std of the target's share; for persons with the noise of the share of slots
    parameters : number of coordinates
    margin_spread : std of the fitted margins
    """

    target: Target
    rows: float
    share_std: float
    parameters: int
    margin_spread: float


class Family(ABC):
    """A family of models.

    Attributes
    ----------
    curvature_need : signal at which the privacy share of a curvature is 0.15
    least_signal : signal below which a table is refused
    rows_at_one : rows per parameter at which the argument of `limits_at` is 1, for mu = 1
    excess, decay : the forecast multiplies widths by 1 + excess (signal / least_signal)^-decay, because curvatures have
        noise
    score_bound : largest norm of a record's score, divided by r
    curvature_bound : largest trace of a record's curvature, divided by r^2
    longest_step : length to which a step of the path is shortened, in margins
    least_squared_row : smallest value of `Limits.squared_row`
    """

    __slots__ = ()
    curvature_need: ClassVar[float]
    least_signal: ClassVar[float]
    rows_at_one: ClassVar[float]
    excess: ClassVar[float]
    decay: ClassVar[float]
    score_bound: ClassVar[float]
    curvature_bound: ClassVar[float]
    longest_step: ClassVar[float] = 1.5
    least_squared_row: ClassVar[float] = 1.5
    largest_change: ClassVar[float] = math.inf
    """Change from the end of the path to the estimate, in its stds, beyond which a coefficient is not resolved."""

    largest_level_bend: ClassVar[float] = math.inf
    """Half of the square of a level's change, in its stds, beyond which the level is not resolved."""

    releases_scales: ClassVar[bool] = False
    """Whether scales of residuals are released."""

    @property
    @abstractmethod
    def noise_effect(self) -> float:
        """Factor from the noise of a score to that of its standardized coefficient, relative to sampling.

        The ratio of the two noise stds is divided by sqrt(n) times the sampling std of the coefficient.
        """

    @abstractmethod
    def limits_at(self, ratio: float) -> Limits:
        """Return the limits at a ratio of sampling variance to noise, before r^2 is cut to its range."""

    @abstractmethod
    def step_share(self, signal: float, score_noise: float) -> float:
        """Return the share of mu^2 that a step of weight 1 uses.

        Parameters
        ----------
        signal : `Budget.signal`
        score_noise : largest norm of a score, times d, over n mu; 1.5 times this if persons have several slots
        """

    def squared_scores_share(self, signal: float, limits: Limits) -> float:  # noqa: ARG002
        """Return the share of mu^2 that the squared scores use."""
        return _SQUARED_SCORES

    def information(self, target: Target) -> float:  # noqa: ARG002
        """Return the information of a row, relative to that of a row for which `rows_at_one` was chosen."""
        return 1.0

    def path_weights(self, limits: Limits, target: Target, index: int) -> AnyWeights:  # noqa: ARG002
        """Return the weights of a step of the path; `index` is its number, from 0."""
        return self.last_weights(limits, target)

    @abstractmethod
    def last_weights(self, limits: Limits, target: Target) -> AnyWeights:
        """Return the weights of the last answers, by which the parameter is defined."""

    @abstractmethod
    def bounded_mean(self, mean: float, std: float) -> float:
        """Return the released mean of targets, moved into the range in which `start` and the weights are defined.

        Parameters
        ----------
        mean : released mean
        std : noise std of the released share
        """

    @abstractmethod
    def start(self, target: Target) -> float:
        """Return the margin of every row at the start of the path."""

    def refusal(self, facts: FitFacts) -> str | None:  # noqa: ARG002
        """Return why the table gives no coefficient, judged by released numbers, or None."""
        return None


@dataclass(frozen=True, slots=True)
class LogisticFamily(Family):
    """The family of logistic models, for two classes."""

    curvature_need = 90.0
    least_signal = 20.0
    rows_at_one = 60.0
    excess = 1.2
    decay = 1.7
    score_bound = 1.0
    curvature_bound = 0.25

    @property
    def noise_effect(self) -> float:
        """5 / 2.2, for a mean curvature of 1/5 and a sampling std of 2.2 / sqrt(n)."""
        return 5.0 / 2.2

    def limits_at(self, ratio: float) -> Limits:
        """Return r^2 and c."""
        ratio = max(ratio, 1.0)
        return Limits(1.5 * math.sqrt(ratio), min(0.5 * ratio**0.25, 1.0))

    def step_share(self, signal: float, score_noise: float) -> float:  # noqa: ARG002
        """Return a larger share if the scores have more noise."""
        return min(max((70 * score_noise) ** 2, 0.04), 0.10)

    def information(self, target: Target) -> float:
        """Return 4 p (1 - p)."""
        return target.balance

    def last_weights(self, limits: Limits, target: Target) -> LogisticWeights:
        """Return the weights, which limit curvatures to the smaller of 1/4 and 4 p (1 - p)."""
        return LogisticWeights(math.sqrt(limits.squared_row), limits.score, min(0.25, target.balance))

    def bounded_mean(self, mean: float, std: float) -> float:
        """Return the mean, moved away from -1 and 1."""
        minimum = least_share(std, _LEAST_CLASS_SHARE)
        return min(max(mean, 2 * minimum - 1), 1 - 2 * minimum)

    def start(self, target: Target) -> float:
        """Return the log-odds of the positive class."""
        return math.log(target.share / (1 - target.share))

    def refusal(self, facts: FitFacts) -> str | None:
        """Return the reason if one class has few rows, or if the classes are nearly separated."""
        events = facts.rows * min(facts.target.share, 1 - facts.target.share)
        minimum = max(_LEAST_EVENTS_PER_PARAMETER * facts.parameters, _LEAST_EVENTS_STDS * facts.rows * facts.share_std)
        if events < minimum:
            return FEW_EVENTS
        return SEPARATED if facts.margin_spread > _SEPARATED_MARGINS else None


@dataclass(frozen=True, slots=True)
class LinearFamily(Family):
    """The family of linear models, for a number in [-1, 1]."""

    curvature_need = 55.0
    least_signal = 12.0
    rows_at_one = 768.0
    excess = 2.2
    decay = 1.3
    score_bound = _LARGEST_LAST_RESIDUAL
    curvature_bound = 1.0
    longest_step = 2.0
    releases_scales = True

    @property
    def noise_effect(self) -> float:
        """1, because limits and sampling stds are both in stds of residuals."""
        return 1.0

    def limits_at(self, ratio: float) -> Limits:
        """Return r^2 and K.

        A ratio below 1 means that the noise exceeds a quarter of the sampling variance at the usual limits. Then the
        limit of residuals falls with the square root of the ratio, and the noise with it.
        """
        score = max(_RESIDUAL_LIMIT * ratio ** (0.3 if ratio > 1 else 0.5), _LEAST_RESIDUAL_LIMIT)
        return Limits(1.5 * ratio**0.4, score)

    def step_share(self, signal: float, score_noise: float) -> float:  # noqa: ARG002
        """Return a larger share if the signal is smaller."""
        return min(max(_LARGEST_STEP * (2 * self.curvature_need / signal) ** 2, _LEAST_STEP), _LARGEST_STEP)

    def squared_scores_share(self, signal: float, limits: Limits) -> float:
        """Return a larger share if the limit of residuals is large, because the noise grows with the limit's square."""
        if limits.score <= _RESIDUAL_LIMIT:
            return _SQUARED_SCORES
        relative_noise = 10 * limits.score**2 * limits.squared_row / signal  # noise of G at the smallest share
        return min(max(_SQUARED_SCORES * relative_noise**2, _SQUARED_SCORES), _MOST_SQUARED_SCORES)

    def path_weights(self, limits: Limits, target: Target, index: int) -> LinearWeights:
        """Return the weights of a step; they limit residuals to a multiple of the released scale."""
        width = _FIRST_LIMIT if index == 0 else _LATE_LIMIT if index == LATE_STEP else _LIMIT
        scale = target.scale if index < LATE_STEP else target.late_scale
        return LinearWeights(math.sqrt(limits.squared_row), min(width * _STD_PER_DISTANCE * scale, LARGEST_RESIDUAL))

    def last_weights(self, limits: Limits, target: Target) -> LinearWeights:
        """Return the weights, with residuals cut at K stds."""
        limit = min(limits.score * _STD_PER_DISTANCE * target.late_scale, _LARGEST_LAST_RESIDUAL)
        return LinearWeights(math.sqrt(limits.squared_row), limit)

    def bounded_mean(self, mean: float, std: float) -> float:  # noqa: ARG002
        """Return the mean, cut to [-1, 1]."""
        return min(max(mean, -1.0), 1.0)

    def start(self, target: Target) -> float:
        """Return the mean."""
        return target.mean


@dataclass(frozen=True, slots=True)
class PoissonFamily(Family):
    """The family of Poisson models, for a count in [0, Y]: the log of its mean is a linear function.

    The target is coded as 2 count / Y - 1. Margins are logs of the mean count as a share of Y. The counts need not
    follow a Poisson distribution, because G is released.

    Parameters
    ----------
    largest_count : Y
    """

    curvature_need = 250.0
    least_signal = 100.0
    rows_at_one = 480.0
    excess = 1.2
    decay = 1.7
    score_bound = PoissonWeights.score_limit
    curvature_bound = 0.5
    largest_change = 3.0
    largest_level_bend = 1.0
    least_squared_row = 1.0

    largest_count: float

    @property
    def noise_effect(self) -> float:
        """sqrt(Y / m) divided by the mean weight; m is the assumed mean count as a share of Y."""
        return math.sqrt(self.largest_count / _TYPICAL_MEAN) / _MEAN_WEIGHT

    def limits_at(self, ratio: float) -> Limits:
        """Return r^2, and 1/2.

        The variance of a count as a share of Y is its mean as a share, divided by Y. `rows_at_one` is for Y = 1. If the
        noise dominates, r^2 falls to 1, the mean squared norm of rows. A smaller limit loses more weight than noise.
        """
        return Limits(1.5 * math.sqrt(ratio / self.largest_count), PoissonWeights.score_limit)

    def step_share(self, signal: float, score_noise: float) -> float:  # noqa: ARG002
        """Return a larger share if the scores have more noise."""
        return min(max((280 * score_noise) ** 2, 0.04), 0.10)

    def information(self, target: Target) -> float:
        """Return the mean count over the mean that shares assume."""
        return target.share / _TYPICAL_MEAN

    def last_weights(self, limits: Limits, target: Target) -> PoissonWeights:
        """Return the weights, which fall if a fitted mean count exceeds twice the released mean count, plus 1."""
        mean_limit = min(2 * target.share + 1 / self.largest_count, PoissonWeights.score_limit)
        return PoissonWeights(math.sqrt(limits.squared_row), mean_limit)

    def bounded_mean(self, mean: float, std: float) -> float:
        """Return the mean, moved away from that of zero counts, -1."""
        return min(max(mean, 2 * least_share(std, _LEAST_MEAN_COUNT) - 1), 1.0)

    def start(self, target: Target) -> float:
        """Return the log of the mean count as a share of Y."""
        return math.log(target.share)

    def refusal(self, facts: FitFacts) -> str | None:
        """Return the reason if the counts are few, or if the noise hides their mean."""
        is_hidden = facts.target.share < _LEAST_EVENTS_STDS * facts.share_std
        total = facts.rows * facts.target.share * self.largest_count
        return FEW_COUNTS if is_hidden or total < _LEAST_EVENTS_PER_PARAMETER * facts.parameters else None


LOGISTIC = LogisticFamily()
LINEAR = LinearFamily()
