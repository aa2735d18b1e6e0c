"""The budget of a regression table: shares, limits, refusal and forecast, functions of public numbers.

Symbols: n records, d free parameters, k slots of a record, mu the Gaussian mu of the guarantee. The *signal* is
x = n mu / d^1.5, the ratio of information to the noise of a curvature. Constants were chosen by the simulations of
docs/spec 27. They affect the widths of intervals, and never the privacy guarantee.
"""

import math
from dataclasses import dataclass

from accounting.privacy import REPLACE_ONE
from solvers.inference.families import LARGEST_SQUARED_ROW, STEPS, Family, Limits
from solvers.inference.target import Target
from solvers.preparation.moments import columns_of
from solvers.problem import Problem
from solvers.weighting import AnyWeights

MOST_PARAMETERS = 200
"""Largest number of free parameters; each matrix has d (d + 1) / 2 entries."""

_MEANS, _SPREAD, _VARIANCES, _TARGET, _RESIDUAL = 0.03, 0.005, 0.02, 0.01, 0.02
_ZERO_OUT_GAIN = 1.7  # a null record moves vectors by half, and matrices by 1 / sqrt(2), of a replaced one
_PERSON_LOSS = 1.5  # of persons with several rows
_CURVATURE_GAIN = 0.2 / 0.15  # a curvature's share may rise from 0.15 to 0.2 for longer rows


@dataclass(frozen=True, slots=True)
class TableBudget:
    """The public numbers that decide everything before the first answer.

    Parameters
    ----------
    records : n
    parameters : d
    slots : k
    mu : of the guarantee, times the gain of the relation
    family : of the models
    """

    records: int
    parameters: int
    slots: int
    mu: float
    family: Family

    @staticmethod
    def of(problem: Problem, mu: float, family: Family) -> "TableBudget":
        """Return the budget of a problem; mu is that of the guarantee."""
        gain = 1.0 if problem.relation == REPLACE_ONE else _ZERO_OUT_GAIN
        return TableBudget(problem.n, parameters_of(problem), problem.unit.slots, gain * mu, family)

    @property
    def signal(self) -> float:
        """The signal x = n mu / d^1.5."""
        return self.records * self.mu / math.pow(self.parameters, 1.5) / self._loss

    @property
    def _loss(self) -> float:
        return _PERSON_LOSS if self.slots > 1 else 1.0

    def limits(self, information: float = 1.0) -> Limits:
        """Return the mildest limits at which the noise is about a quarter of the sampling variance.

        Parameters
        ----------
        information : of a slot, relative to that of a row for which the family's constants were chosen
        """
        n, d, k, mu, family = self.records, self.parameters, self.slots, self.mu, self.family
        limits = family.limits_at(information * n * mu * mu / (family.rows_at_one * d * k))
        longest = 1.5 * self.signal * information / family.curvature_need * math.sqrt(_CURVATURE_GAIN)
        squared = max(family.least_squared_row, min(limits.squared_row, longest))
        return Limits(min(squared, LARGEST_SQUARED_ROW), limits.score)

    def path_weights(self, target: Target, share: float, index: int) -> AnyWeights:
        """Return the weights of a step of the path.

        Parameters
        ----------
        share : released share of slots that hold a row
        index : number of the step, from 0
        """
        return self.family.path_weights(self.limits(share * self.family.information(target)), target, index)

    def last_weights(self, target: Target, share: float) -> AnyWeights:
        """Return the weights of the last answers, which define the parameter; `share` as for `path_weights`."""
        return self.family.last_weights(self.limits(share * self.family.information(target)), target)

    def shares(self, has_columns: bool = True, has_numbers: bool = True) -> dict[str, float]:
        """Return the share of mu^2 of each query, in the order of the answers; they add up to 1.

        Parameters
        ----------
        has_columns, has_numbers : whether means, and whether spread and variances are released
        """
        family, limits = self.family, self.limits()
        need = family.curvature_need
        curvature = min(max(0.15 * (need * limits.squared_row / 1.5 / self.signal) ** 2, 0.04), 0.30)
        noise = limits.score * math.sqrt(limits.squared_row) * self.parameters * self._loss / (self.records * self.mu)
        step = family.step_share(self.signal, noise)
        shares = {
            "means": _MEANS if has_columns else 0.0,
            "spread": _SPREAD if has_numbers else 0.0,
            "variances": _VARIANCES if has_numbers else 0.0,
            "second_moments": min(max(0.09 * (need / self.signal) ** 2, 0.03), 0.12),
            "target_mean": _TARGET,
            "target_spread": _TARGET if family.releases_scales else 0.0,
            "residual": _RESIDUAL if family.releases_scales else 0.0,
            **{step_name(index): step * weight for index, weight in enumerate(STEPS)},
            "curvature": curvature,
            "squared_scores": family.squared_scores_share(self.signal, limits),
        }
        shares["gradient"] = 1 - sum(shares.values())
        return {query: share for query, share in shares.items() if share > 0}

    @property
    def records_needed(self) -> int:
        """Smallest n at which a table is not refused, with the same budget and parameters."""
        return math.ceil(self.family.least_signal * self._loss * math.pow(self.parameters, 1.5) / self.mu)

    @property
    def width_ratio(self) -> float:
        """Expected width of an interval over that without privacy, for standardized columns and balanced classes.

        The mean count is taken to be a tenth of the largest count.
        """
        n, d, limits, family = self.records, self.parameters, self.limits(), self.family
        budget = n * self.mu * math.sqrt(self.shares()["gradient"])
        noise = 2 * limits.score * math.sqrt(limits.squared_row * d) / budget
        by_scores = math.hypot(1.0, noise * family.noise_effect * math.sqrt(n))
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
