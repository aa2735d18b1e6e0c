"""The one guarded door to dp-accounting: its PLD arithmetic, on masses that we built and checked ourselves.

dp-accounting 0.6.0 turns GaussianDpEvent(nan) into epsilon 0 and gives one event two meanings under replace-one
(its RDP accountant reads std over sensitivity, its PLD accountant std over the per-record bound). So the product never
hands it an event: it hands over finite, normalized masses, and takes back a finite epsilon. The version is pinned and
checked; tests hold the factor 2 fast (tests/privacy/test_dp_accounting.py). Imported late: it takes seconds.
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
        raise Unsupported(f"dp-accounting {PINNED} is needed; another version is installed")
    from dp_accounting.pld import pld_pmf

    return pld_pmf


def warm_up() -> None:
    """Import the library now, so that no first request pays for it."""
    _pld_pmf()


def pessimistic_pmf(interval: float, lowest: int, masses: NDArray[np.float64], infinity: float) -> Any:
    """A pessimistic privacy-loss pmf: masses[i] at loss (lowest + i) * interval, `infinity` at +inf.

    Raises
    ------
    OutOfRange
        if a mass is negative or not finite, or they add up to more than 1 (and rounding).
    """
    total = float(masses.sum()) + infinity
    if not (math.isfinite(interval) and interval > 0 and np.isfinite(masses).all() and 0 <= infinity <= 1):
        raise OutOfRange("privacy-loss masses must be finite")
    if float(masses.min()) < 0 or not 1 - 1e-9 <= total <= 1 + 1e-9 or len(masses) > _MOST_CELLS:
        raise OutOfRange("privacy-loss masses must be nonnegative, few and sum to one")
    return _pld_pmf().DensePLDPmf(interval, lowest, masses, infinity, True)


def compose(pmfs: Sequence[tuple[Any, int]]) -> Any:
    """The pmf of the sum of count copies of each; the arguments stay as they were."""
    total = None
    for pmf, count in pmfs:
        many = pmf.self_compose(count) if count > 1 else pmf
        total = many if total is None else total.compose(many)
    return total


def masses(pmf: Any) -> Masses:
    """The masses of a pmf composed here: what it dropped at its lower end is missing, at its upper it is at +inf."""
    dense = pmf.to_dense_pmf()
    return Masses(dense._discretization, dense._lower_loss, np.asarray(dense._probs), dense._infinity_mass)


def epsilon(pmf: Any, delta: float) -> float:
    """The least epsilon >= 0 with E[(1 - e^(epsilon - loss))_+] <= delta; +inf if there is none."""
    value = float(pmf.get_epsilon_for_delta(delta))
    if math.isnan(value) or value < 0:
        raise OutOfRange("the PLD accountant returned no number")
    return value
