"""Released numbers about the target of a regression table.

Review: Scales and limits are functions of answers and public numbers.
"""

import math
from dataclasses import dataclass

from solvers import moment_bounds
from solvers.inference.coordinates import Stds
from solvers.preparation.moments import columns_of

LARGEST_RESIDUAL = 2.0
"""Largest residual of a linear model on the path. Targets and useful predictions lie in [-1, 1]."""

_SCALE_STDS = 2.0  # released scales and shares are raised to this many stds of their noise
_COUNTED_SCALES = 8.0  # mean distances at which a residual is cut for the late scale
_LARGEST_SCALE_RATIO = 1.5  # of the late scale to the mean distance


@dataclass(frozen=True, slots=True)
class Target:
    """Released numbers about the target.

    Parameters
    ----------
    mean : mean of the coded target in [-1, 1]; for classes 2 p - 1, with p the share of the positive class
    scale : mean distance of a number from its mean; 0 for classes and counts
    late_scale : mean absolute residual of a number late on the path; 0 for classes and counts
    """

    mean: float
    scale: float = 0.0
    late_scale: float = 0.0

    @property
    def share(self) -> float:
        """The share of the positive class, or the mean count as a share of the largest count."""
        return (1 + self.mean) / 2

    @property
    def balance(self) -> float:
        """4 p (1 - p) of the share p of the positive class."""
        return 4 * self.share * (1 - self.share)


def share_std(stds: Stds, slots_share: float) -> float:
    """Return the std of the noise that the query `target_mean` adds to `Target.share`.

    Parameters
    ----------
    slots_share : released share of slots that hold a row
    """
    return stds.of_vector("target_mean", 1.0) / slots_share / 2


def total_share_std(stds: Stds, slots_share: float, mean: float) -> float:
    """Return the std of all noise in `Target.share`, which for persons includes the noise of `slots_share`.

    The share is (1 + s / phi) / 2, with s the released mean over slots and phi the share of slots. An error e of phi
    changes it by about e mean / (2 phi).

    Parameters
    ----------
    slots_share : released share of slots that hold a row
    mean : `Target.mean`
    """
    problem = stds.problem
    own = share_std(stds, slots_share)
    if not problem.unit.is_person:
        return own
    moved = moment_bounds.means(columns_of(problem), problem.relation, problem.unit)
    return math.hypot(own, stds.of_vector("means", moved) * mean / slots_share / 2)


def least_share(std: float, lowest: float) -> float:
    """Return the smallest usable share: two stds of its noise, but at least `lowest` and at most 1/2."""
    return min(max(_SCALE_STDS * std, lowest), 0.5)


def bounded_scale(scale: float, std: float, largest: float) -> float:
    """Return the scale, raised to two stds of its noise and cut to `largest`."""
    return min(max(scale, _SCALE_STDS * std), largest)


def counted_residual(target: Target) -> float:
    """Return the length at which residuals are cut before the late scale is released."""
    return min(LARGEST_RESIDUAL, _COUNTED_SCALES * target.scale)


def late_scale(residual: float, std: float, target: Target) -> float:
    """Return the late scale from a released mean residual."""
    return bounded_scale(residual, std, _LARGEST_SCALE_RATIO * target.scale)
