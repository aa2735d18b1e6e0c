"""The budget of a regression table: shares, limits, refusal and forecast, functions of public numbers.

Symbols: n records, d free parameters, k slots of a record, mu the Gaussian mu of the guarantee. The *signal* is
x = n mu / d^1.5: by how much information exceeds the noise of a curvature. Constants were chosen by the simulations of
docs/spec 27. They affect widths, and never the guarantee.
"""

import math
from dataclasses import dataclass

from accounting.privacy import REPLACE_ONE
from solvers.losses import Logistic
from solvers.preparation.moments import columns_of
from solvers.problem import Problem

MOST_PARAMETERS = 200
"""Largest number of free parameters; each matrix has d (d + 1) / 2 entries."""

STEPS = (0.1, 0.15, 0.2, 0.25, 0.35, 0.45, 0.6, 0.9)
"""Weights of the steps of the path; each is multiplied by the share of a step."""

_MEANS, _SPREAD, _VARIANCES, _TARGET, _RESIDUAL = 0.03, 0.005, 0.02, 0.01, 0.02
_SQUARED_SCORES, _MOST_SQUARED_SCORES = 0.04, 0.1
_ZERO_OUT_GAIN = 1.7  # a null record moves vectors by half, and matrices by 1 / sqrt(2), of a replaced one
_PERSON_LOSS = 1.5  # of persons with several rows
_LEAST_SQUARED_ROW, _LARGEST_SQUARED_ROW = 1.5, 6.0
_CURVATURE_GAIN = 0.2 / 0.15  # a curvature's share may rise from 0.15 to 0.2 for longer rows
_RESIDUAL_LIMIT, _LEAST_RESIDUAL_LIMIT = 4.0, 2.0  # in stds of residuals; a normal fit cut at 2 loses about 1 percent
_LARGEST_STEP, _LEAST_STEP = 0.04, 0.015  # the share of a step of a linear path, times its weight


@dataclass(frozen=True, slots=True)
class Family:
    """Constants of a family of models.

    Parameters
    ----------
    curvature_need : signal at which a curvature's share is 0.15
    least_signal : a table is refused below this signal
    sampling_std : std of a standardized coefficient times sqrt(n), without privacy
    score_loss : reciprocal of the mean curvature
    excess, decay : factor 1 + excess (x / least_signal)^-decay of the forecast, for the noise of curvatures
    """

    curvature_need: float
    least_signal: float
    sampling_std: float
    score_loss: float
    excess: float
    decay: float


LOGISTIC = Family(90.0, 20.0, 2.2, 5.0, 1.2, 1.7)
LINEAR = Family(55.0, 12.0, 1.0, 1.0, 2.2, 1.3)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of records in a table.

    Parameters
    ----------
    squared_row : r^2, the squared norm beyond which a record's weight falls
    score : for classes c, the largest norm of a score over r; for numbers K, the limit of residuals in scales
    """

    squared_row: float
    score: float


@dataclass(frozen=True, slots=True)
class Budget:
    """The public numbers that decide everything before the first answer.

    Parameters
    ----------
    records : n
    parameters : d
    slots : k
    mu : of the guarantee, times the gain of the relation
    is_linear : whether the target is a number
    """

    records: int
    parameters: int
    slots: int
    mu: float
    is_linear: bool

    @staticmethod
    def of(problem: Problem, mu: float) -> "Budget":
        """Return the budget of a problem; mu is that of the guarantee."""
        gain = 1.0 if problem.relation == REPLACE_ONE else _ZERO_OUT_GAIN
        is_linear = not isinstance(problem.loss, Logistic)
        return Budget(problem.n, parameters_of(problem), problem.unit.slots, gain * mu, is_linear)

    @property
    def family(self) -> Family:
        """Constants of the family of models."""
        return LINEAR if self.is_linear else LOGISTIC

    @property
    def signal(self) -> float:
        """x."""
        return self.records * self.mu / math.pow(self.parameters, 1.5) / self._loss

    @property
    def _loss(self) -> float:
        return _PERSON_LOSS if self.slots > 1 else 1.0

    def limits(self, information: float = 1.0) -> Limits:
        """Return the mildest limits at which the noise is about a quarter of the sampling variance.

        A ratio below 1 means that the noise exceeds a quarter at the usual limits. Then the limit of residuals falls
        with the square root of the ratio, and the noise with it.

        Parameters
        ----------
        information : share of slots that hold a row; for classes times 4 p (1 - p), with the share p of ones
        """
        n, d, k, mu = self.records, self.parameters, self.slots, self.mu
        longest = 1.5 * self.signal * information / self.family.curvature_need * math.sqrt(_CURVATURE_GAIN)
        if self.is_linear:
            ratio = information * n * mu * mu / (768 * d * k)
            squared = 1.5 * ratio**0.4
            score = max(_RESIDUAL_LIMIT * ratio ** (0.3 if ratio > 1 else 0.5), _LEAST_RESIDUAL_LIMIT)
        else:
            ratio = max(information * n * mu * mu / (60 * d * k), 1.0)
            squared, score = 1.5 * math.sqrt(ratio), min(0.5 * ratio**0.25, 1.0)
        squared = min(max(_LEAST_SQUARED_ROW, min(squared, longest)), _LARGEST_SQUARED_ROW)
        return Limits(squared, score)

    def shares(self, has_columns: bool = True, has_numbers: bool = True) -> dict[str, float]:
        """Return the share of mu^2 of each query, in the order of the answers; they add up to 1.

        Parameters
        ----------
        has_columns, has_numbers : whether means, and whether spread and variances are released
        """
        need, limits = self.family.curvature_need, self.limits()
        curvature = min(max(0.15 * (need * limits.squared_row / 1.5 / self.signal) ** 2, 0.04), 0.30)
        if self.is_linear:
            step = min(max(_LARGEST_STEP * (2 * need / self.signal) ** 2, _LEAST_STEP), _LARGEST_STEP)
        else:
            noise = 70 * limits.score * math.sqrt(limits.squared_row) * self.parameters * self._loss
            step = min(max((noise / (self.records * self.mu)) ** 2, 0.04), 0.10)
        squared_scores = _SQUARED_SCORES
        if self.is_linear and limits.score > _RESIDUAL_LIMIT:
            relative_noise = 10 * limits.score**2 * limits.squared_row / self.signal  # of G, at the smallest share
            squared_scores = min(max(_SQUARED_SCORES * relative_noise**2, _SQUARED_SCORES), _MOST_SQUARED_SCORES)
        shares = {
            "means": _MEANS if has_columns else 0.0,
            "spread": _SPREAD if has_numbers else 0.0,
            "variances": _VARIANCES if has_numbers else 0.0,
            "second_moments": min(max(0.09 * (need / self.signal) ** 2, 0.03), 0.12),
            "target_mean": _TARGET,
            "target_spread": _TARGET if self.is_linear else 0.0,
            "residual": _RESIDUAL if self.is_linear else 0.0,
            **{step_name(index): step * weight for index, weight in enumerate(STEPS)},
            "curvature": curvature,
            "squared_scores": squared_scores,
        }
        shares["gradient"] = 1 - sum(shares.values())
        return {query: share for query, share in shares.items() if share > 0}

    @property
    def records_needed(self) -> int:
        """Smallest n at which a table is not refused, with the same budget and parameters."""
        return math.ceil(self.family.least_signal * self._loss * math.pow(self.parameters, 1.5) / self.mu)

    @property
    def width_ratio(self) -> float:
        """Expected width of an interval over that without privacy, for standardized columns and balanced classes."""
        n, d, limits, family = self.records, self.parameters, self.limits(), self.family
        budget = n * self.mu * math.sqrt(self.shares()["gradient"])
        noise = 2 * limits.score * math.sqrt(limits.squared_row * d) / budget
        by_scores = math.hypot(1.0, noise * family.score_loss * math.sqrt(n) / family.sampling_std)
        return by_scores * (1 + family.excess * math.pow(self.signal / family.least_signal, -family.decay))

    @property
    def resolved_share(self) -> float:
        """Expected share of the coefficients that are resolved, if no category is rare."""
        return min(1.0, max(0.0, 0.6 + 0.2 * (self.signal / self.family.least_signal - 1)))


def parameters_of(problem: Problem) -> int:
    """Return d: one for each number, levels less one for each category, and the intercept."""
    return 1 + sum(width if width == 1 else width - 1 for width in columns_of(problem).widths)


def step_name(index: int) -> str:
    """Return the name of the query of a step of the path."""
    return f"step_{index + 1}"
