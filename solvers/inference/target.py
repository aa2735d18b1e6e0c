"""Released numbers about the target of a regression table."""

from dataclasses import dataclass

from solvers.inference.coordinates import Stds

LARGEST_RESIDUAL = 2.0
"""Of a number, on the path: targets and useful predictions lie in [-1, 1]."""

_SCALE_STDS = 2.0  # released scales and shares are raised to this many stds of their noise
_COUNTED_SCALES, _LARGEST_SCALE_RATIO = 8.0, 1.5


@dataclass(frozen=True, slots=True)
class Target:
    """Released numbers about the target.

    Parameters
    ----------
    mean : of y in [-1, 1]; for classes 2 p - 1 with the share p of the positive class
    scale : mean distance of a number from the mean; 0 for classes and counts
    late_scale : mean residual of a number late on the path; 0 for classes and counts
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
    """Return the noise std of `Target.share`.

    Parameters
    ----------
    slots_share : released share of slots that hold a row
    """
    return stds.of_vector("target_mean", 1.0) / slots_share / 2


def least_share(std: float, lowest: float) -> float:
    """Return the smallest share that is used: two stds of its noise, at least `lowest` and at most 1/2."""
    return min(max(_SCALE_STDS * std, lowest), 0.5)


def bounded_scale(scale: float, std: float, largest: float) -> float:
    """Return a mean distance of at least two stds of its noise."""
    return min(max(scale, _SCALE_STDS * std), largest)


def counted_residual(target: Target) -> float:
    """Return the largest residual that counts in the late scale."""
    return min(LARGEST_RESIDUAL, _COUNTED_SCALES * target.scale)


def late_scale(residual: float, std: float, target: Target) -> float:
    """Return the late scale from a released mean residual."""
    return bounded_scale(residual, std, _LARGEST_SCALE_RATIO * target.scale)
