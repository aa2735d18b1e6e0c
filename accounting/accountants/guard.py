"""The only calls to dp-accounting: its PLD arithmetic, on masses that this package computes and checks.

dp-accounting 0.6.0 turns GaussianDpEvent(nan) into epsilon 0, and gives one event two meanings under replace-one: its
RDP accountant reads std over sensitivity, its PLD accountant std over the per-record bound. So the product passes it
finite, normalized masses instead of events, and accepts only a number as epsilon. The version is pinned and checked,
and tests pin the factor 2 (tests/privacy/test_dp_accounting.py). Its import is late, because it takes seconds.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.divergences.losses import Masses
from accounting.errors import OutOfRange, Unsupported

PINNED = "0.6.0"
_MOST_CELLS = 1 << 24


@lru_cache(maxsize=1)
def _pld_pmf() -> Any:
    if version("dp-accounting") != PINNED:
        raise Unsupported(f"another version of dp-accounting is installed. Install dp-accounting=={PINNED}")
    from dp_accounting.pld import pld_pmf  # late: `warm_up` states when it is loaded

    return pld_pmf


def warm_up() -> None:
    """Import the library now, so that no first request pays for it."""
    _pld_pmf()


def pessimistic_pmf(interval: float, lowest: int, masses: NDArray[np.float64], infinity: float) -> Any:
    """Return a pessimistic privacy-loss pmf: masses[i] at loss (lowest + i) * interval, `infinity` at +inf.

    Raises
    ------
    OutOfRange
        if a mass is negative or not finite, or they do not add up to 1, apart from rounding.
    """
    total = float(masses.sum()) + infinity
    if not (math.isfinite(interval) and interval > 0 and np.isfinite(masses).all() and 0 <= infinity <= 1):
        raise OutOfRange("privacy-loss masses must be finite")
    if float(masses.min()) < 0 or not 1 - 1e-9 <= total <= 1 + 1e-9 or len(masses) > _MOST_CELLS:
        raise OutOfRange("privacy-loss masses must be nonnegative, sum to one and fit the largest grid")
    return _pld_pmf().DensePLDPmf(interval, lowest, masses, infinity, True)


def compose(pmfs: Sequence[tuple[Any, int]]) -> Any:
    """Return the pmf of the sum of count copies of each; the arguments do not change."""
    total = None
    for pmf, count in pmfs:
        copies = pmf.self_compose(count) if count > 1 else pmf
        total = copies if total is None else total.compose(copies)
    return total


def masses(pmf: Any) -> Masses:
    """Return the masses of a composed pmf. Mass dropped at the lower end is missing; at the upper end it is at +inf."""
    dense = pmf.to_dense_pmf()
    return Masses(dense._discretization, dense._lower_loss, np.asarray(dense._probs), dense._infinity_mass)


def epsilon(pmf: Any, delta: float) -> float:
    """Return the smallest epsilon >= 0 with E[(1 - e^(epsilon - loss))_+] <= delta; +inf if there is none."""
    interval, lowest, chance, infinity = masses(pmf)
    if not (np.isfinite(chance).all() and 0 <= infinity <= 1):
        raise OutOfRange("composed privacy-loss masses must be finite")
    return smallest_epsilon(
        np.concatenate([np.zeros(max(lowest, 0)), chance[max(-lowest, 0) :], [0.0]]), interval, infinity, delta
    )


def smallest_epsilon(chance: NDArray[np.float64], interval: float, infinity: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 at which the profile is delta; +inf if there is none.

    Parameters
    ----------
    chance : masses at the losses 0, interval, 2 interval, ..
    infinity : mass at +inf
    """
    if infinity > delta:
        return math.inf
    losses = interval * np.arange(len(chance))
    beyond = infinity + np.cumsum(chance[::-1])[::-1]  # P(loss >= each one)
    weighed = np.cumsum((chance * np.exp(-losses))[::-1])[::-1]
    is_within = beyond - np.exp(np.minimum(losses, 700.0)) * weighed <= delta  # the profile at each loss
    first = int(np.argmax(is_within))
    if not is_within[first]:
        return math.inf
    return math.log(max((beyond[first] - delta) / weighed[first], 1.0)) if weighed[first] > 0 else float(losses[first])
