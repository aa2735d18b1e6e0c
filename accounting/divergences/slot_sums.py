"""E[(S/T - kappa)_+] for S = X_1 + ... + X_T independent, rounded up: the sum behind the profile of secret slots.

Every step is exact or raises the value. The choices made in them only affect by how much.
1. X has finitely many values (`slot_law`) between a floor and a cap, beyond which its expectation is added.
2. Each point's mass goes to the two nearest points of a lattice, and its mean stays.
3. The law is tilted by e^(theta x): with M = E e^(theta (X - kappa)), f(s) = s e^(-theta s) for s > 0, else 0,
   E[(S - T kappa)_+] = M^T E~ f(S - T kappa). By f <= 1 / (e theta) that is at most M^T / (e theta) (Chernoff).
4. f is at most g, the sum of f over all shifts by whole turns of a circle of N lattice steps. E~ g is a finite sum over
   N frequencies: the Fourier coefficients of g are geometric series, those of S the T-th powers of those of X.
5. The worst rounding is added: that of the transform absolutely, all other rounding as a factor e^(T eta).
Proof, with the error analysis: docs/proofs/random_allocation.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from accounting.divergences.losses import Vector
from accounting.divergences.slot_law import SlotLaw, Stretch, stretch

_UNIT_ROUNDOFF = 2.0**-53
_STEP_RATIO = 0.12  # of sqrt(T) lattice steps to the scale on which the value changes
_TARGET_RAISE = 0.003  # half the relative amount by which step 2 may raise the value
_TILTS = 40
_LOG_TOLERANCE = 7.0  # -ln M^T / theta may be this far below its largest value, for a smaller circle
_SMALLEST_CIRCLE_STEPS, _LARGEST_CIRCLE_STEPS = 1 << 11, 1 << 13  # larger circles are allowed for many slots
_NEGLIGIBLE = 1e-17  # beside any delta
_LARGEST_LOG_POWER, _LARGEST_ETA = 600.0, 0.1
_NEAR_STEPS = 5  # lattice steps around the origin that `transform` may sum one by one
_NEGLIGIBLE_LOG_POWER = 45.0  # frequencies whose power is below e^-45 count as rounding
_ACCEPTED_LOSS = 0.05  # relative amount lost to rounding, or raised by step 2, up to which a circle is accepted
# With `_MANY_SLOTS` or more, a circle is skipped if its lattice alone raises the value by more than `SKIPPED_RAISE`,
# relatively. Accepted circles stay ten times below. Do not change these: the charges and certificates of stored
# receipts must recompute to 2^-30.
SKIPPED_RAISE, _MANY_SLOTS = 20.0, 64
_SKIPPED_HINTED_RAISE = 0.15  # the same limit for the raise that the last sum of a curve predicts
_HINTED_VALUE_RATIO = 0.3  # of the value over its rough estimate to the ratio of the last sum


@dataclass(frozen=True, slots=True)
class _Circle:
    """A choice of cap and circle. A lower cap costs more, but less wraps around the circle.

    Parameters
    ----------
    trim : share of a jump's excess that the cap cuts
    below, above : -ln of what may wrap around the circle from below and from above
    splits : whether near and far lattice points are transformed separately
    """

    trim: float
    below: float
    above: float
    splits: bool

    def smallest_value(self, T: int) -> float:
        """Return the theta E~ g below which rounding, or what wraps around the circle, is too large."""
        return max(1e3 * math.exp(-self.above), 0.0 if self.splits else T * 1e-13)


CIRCLES = (_Circle(1e-3, 30, 24, False), *(_Circle(trim, 40, 30, True) for trim in (1e-3, 1e-2, 5e-2, 0.3)))


@dataclass(slots=True)
class SearchHints:
    """Results of the last sum along a curve of growing gamma, with which a search skips circles for the next sum.

    Each sum stays an upper bound, but it may differ from one without hints. No certificate depends on it.

    Parameters
    ----------
    begins_with_last : whether the next sum begins with the circle that was accepted for the last one
    skipped : number of circles that are skipped then
    raise_per_step : relative raise of the last lattice over its step squared
    value_ratio : of the last value to its rough estimate
    """

    begins_with_last: bool = False
    skipped: int = 0
    raise_per_step: float = 0.0
    value_ratio: float = math.inf


def excess(
    law: SlotLaw,
    slots: int,
    kappa: float,
    hints: SearchHints | None = None,
    negligible: float = 0.0,
    enough: float = 0.0,
    otherwise: Callable[[SlotLaw, int, float], float] | None = None,
) -> float:
    """Return an upper bound on E[(S/T - kappa)_+]; infinite if the arithmetic does not reach it.

    Parameters
    ----------
    hints : of the last sum along a curve, in a search
    negligible : if a first bound is at most this, that bound is returned
    enough : if the bounds of the circles are at most this, `otherwise` is not evaluated
    otherwise : another upper bound, evaluated if every circle loses much to rounding or to its lattice
    """
    smallest, skipped_trim, trimmed_laws = math.inf, 0.0, dict[float, _Trimmed]()
    part, skipped = stretch(law, slots, kappa), hints.skipped if hints else 0
    for i, circle in enumerate(CIRCLES[skipped:], skipped):
        if circle.trim <= skipped_trim:
            continue
        if circle.trim not in trimmed_laws:
            trimmed_laws[circle.trim] = trimmed_law(part, kappa, circle.trim)
        bound = circle_bound(trimmed_laws[circle.trim], slots, kappa, circle, hints, negligible)
        smallest = min(smallest, bound.value)
        if bound.raised < _ACCEPTED_LOSS and not bound.is_inexact:
            if hints and hints.begins_with_last:
                hints.skipped = i
            break
        skipped_trim = circle.trim if bound.raised >= _ACCEPTED_LOSS else 0.0
    else:
        if otherwise and smallest > max(enough, negligible):
            smallest = min(smallest, otherwise(law, slots, kappa))
    return smallest


def rounding_factor(law: SlotLaw, slots: int) -> float:
    """Return a bound on true over computed E f(S), f >= 0, by the rounding of masses; infinite if it is not near 1."""
    eta = slots * _UNIT_ROUNDOFF * 2**13 * (1 + law.conditioning)
    return math.exp(eta) if eta < _LARGEST_ETA else math.inf


@dataclass(frozen=True, slots=True)
class _Bound:
    """An upper bound, the relative amount by which the lattice raised it, and whether much was lost otherwise.

    Parameters
    ----------
    is_inexact : much was lost to rounding or wrapped around the circle
    """

    value: float
    raised: float
    is_inexact: bool


_NO_BOUND = _Bound(math.inf, 0.0, True)


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """A law between its floor and its cap, candidate tilts, and ln M^T at each."""

    part: Stretch
    law: SlotLaw
    thetas: Vector
    log_powers: Vector


def trimmed_law(part: Stretch, kappa: float, trim: float) -> _Trimmed:
    """Return the part between the floor and the cap that `trim` sets, and the tilts that a circle chooses from."""
    law = part.within(trim)
    return _Trimmed(part, law, *_tilts(law, law.points - kappa, part.slots, part.typical))


def circle_bound(
    trimmed: _Trimmed,
    T: int,
    kappa: float,
    circle: _Circle,
    hints: SearchHints | None = None,
    negligible: float = 0.0,
) -> _Bound:
    """Return the bound of one circle, refining its lattice until it raises the value little enough."""
    part, law, thetas, log_powers = trimmed.part, trimmed.law, trimmed.thetas, trimmed.log_powers
    chernoff = log_powers - 1 - np.log(thetas)
    best = int(np.argmin(chernoff))
    rounding = rounding_factor(law, T)
    if rounding == math.inf:
        return _NO_BOUND
    crude = rounding * (math.exp(min(chernoff[best], _LARGEST_LOG_POWER)) / T + law.cut)
    if chernoff[best] < math.log(_NEGLIGIBLE * T) or crude <= negligible:
        return _Bound(crude, 0.0, False)
    theta, circumference, log_power = _smallest_circle(thetas, log_powers, circle)
    rough = part.rough * (min(1.0, _HINTED_VALUE_RATIO * hints.value_ratio) if hints else 1.0)
    is_last, power = circle is CIRCLES[-1], math.exp(min(log_power, _LARGEST_LOG_POWER))
    is_hopeless = not is_last and rough * theta < 0.1 * circle.smallest_value(T) * power
    if is_hopeless or not 0 < circumference < math.inf:
        return _NO_BOUND
    finest = circumference / max(_LARGEST_CIRCLE_STEPS, 2**8 * math.sqrt(T))
    scale = min(1 / float(thetas[best]), part.scale)
    raised = T / 12 * (finest / scale) ** 2  # about, on the finest lattice
    is_raised_by_hint = hints is not None and hints.raise_per_step * finest**2 > _SKIPPED_HINTED_RAISE
    if not is_last and T >= _MANY_SLOTS and (raised > SKIPPED_RAISE or is_raised_by_hint):
        return _Bound(math.inf, raised, True)
    step = max(min(_STEP_RATIO * scale / math.sqrt(T), circumference / _SMALLEST_CIRCLE_STEPS), finest)
    smallest = math.inf
    while max(float(np.abs(law.points).max()), T * abs(kappa)) / step < 2.0**52:
        size = fft.next_fast_len(math.ceil(circumference / step) + 1, real=True)
        total = circle_sum(law, T, kappa, theta, step, size, circle.splits)
        if hints:
            hints.raise_per_step, hints.value_ratio = total.raised / step**2, total.factor * total.value / part.rough
        smallest = min(smallest, rounding * (total.factor * (total.value + total.rounding) / T + law.cut))
        if not total.raised > 2 * _TARGET_RAISE or step <= finest:
            is_rounded = total.rounding > _ACCEPTED_LOSS * total.value
            return _Bound(smallest, total.raised, is_rounded or theta * total.value < circle.smallest_value(T))
        step = max(step * min(math.sqrt(_TARGET_RAISE / total.raised), 0.5), finest)
    return _NO_BOUND


def _tilts(law: SlotLaw, v: Vector, T: int, typical: float) -> tuple[Vector, Vector]:
    """Return candidate tilts, ascending, and ln M^T at each."""
    total = math.sqrt(T * float(law.masses @ (v - law.masses @ v) ** 2))
    largest = float(v.max())
    low, high = 0.2 / total, 100 / typical
    if largest > 0:
        low = min(low, 5 / largest)
        high = min(high, _LARGEST_LOG_POWER / largest)
    thetas = np.exp(np.linspace(math.log(low), math.log(max(high, 3 * low)), _TILTS))
    exponents = np.multiply.outer(thetas, v)
    peaks = thetas * largest  # as the points ascend
    exponents -= peaks[:, None]
    return thetas, T * (np.log(np.exp(exponents, out=exponents) @ law.masses) + peaks)


def _smallest_circle(thetas: Vector, log_powers: Vector, circle: _Circle) -> tuple[float, float, float]:
    """Return the tilt whose circle is the smallest, its circumference C, and ln M^T there.

    E[(S + C - T kappa)_+] wraps around from below with a factor e^(-theta C), which is at most e^-below M^T. The part
    above T kappa + C wraps around from above: at most e^-above in all, by Chernoff's inequality at a larger tilt.
    """
    goal = log_powers - np.log(thetas)
    candidates = np.flatnonzero(goal <= goal.min() + _LOG_TOLERANCE)
    step = thetas[None, :] - thetas[candidates][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = log_powers[None, :] - log_powers[candidates][:, None] + circle.above
        beyond = np.where(step > 0, differences / step, np.inf).min(axis=1)
    below = (circle.below - np.minimum(log_powers[candidates], 0.0)) / thetas[candidates]
    circumferences = np.maximum(below, beyond)
    best = int(np.argmin(circumferences))
    return float(thetas[candidates[best]]), float(circumferences[best]), float(log_powers[candidates[best]])


@dataclass(frozen=True, slots=True)
class _CircleSum:
    """M^T, E~ g, its worst rounding, and about the relative amount by which step 2 raised it."""

    factor: float
    value: float
    rounding: float
    raised: float


def circle_sum(law: SlotLaw, T: int, kappa: float, theta: float, step: float, size: int, splits: bool) -> _CircleSum:
    """Return the result of steps 2 to 5 on a circle of `size` lattice steps."""
    tilted = law.masses * np.exp(theta * (law.points - law.points[-1]))
    origin = float(law.points[np.searchsorted(np.cumsum(tilted), tilted.sum() / 2)])  # the median of the tilted law
    lower = np.floor((law.points - origin) / step)
    share = (law.points - origin) / step - lower
    positions = np.concatenate([lower, lower + 1])
    exponents = theta * (positions * step + (origin - kappa))
    peak = float(exponents.max())
    tilted = np.concatenate([law.masses * (1 - share), law.masses * share]) * np.exp(exponents - peak)
    scale = float(tilted.sum())
    log_power = T * (math.log(scale) + peak)
    if not log_power < _LARGEST_LOG_POWER:
        return _CircleSum(math.inf, 1.0, 0.0, 0.0)
    frequencies, change, modulus, error, small = transform(positions, tilted / scale, T, size, splits)
    # `start` is the first lattice point from T kappa on, or from just below it, at a distance of `offset` steps.
    shift = 8 * _UNIT_ROUNDOFF * T * (abs(kappa) + abs(origin))
    threshold = T * ((kappa - origin) / step) - shift / step
    start = math.ceil(threshold)
    offset, turn = start - threshold, 2 * math.pi / size
    logs = T * _log1p(np.conj(change))
    waves = np.exp(logs - 1j * turn * (frequencies * (start % size) % size))
    weight = np.full(len(frequencies), 2 * step * math.exp(-theta * step * offset) / size)
    weight[(frequencies == 0) | (2 * frequencies == size)] /= 2
    density = abs(float(np.sum((weight * waves).real)))  # of S at T kappa, times step^2
    rotations, versed = (part[_selector(frequencies)] for part in _turns(size))
    r = math.exp(-theta * step) * rotations  # e^(-theta step - 2 pi i k / size)
    r_minus_1 = math.expm1(-theta * step) * rotations.real - versed + 1j * r.imag
    terms = weight * (offset + (1 - offset) * r) / r_minus_1**2 * waves
    value = max(float(np.sum(terms.real)), 0.0)
    rounding = float(np.abs(terms) @ (np.expm1(T * error / modulus) + _UNIT_ROUNDOFF * (64 + 32 * np.abs(logs))))
    rounding += 2 * step / -math.expm1(-2 * theta * step) * small
    factor = math.exp(log_power + 2 * theta * shift)
    return _CircleSum(factor, value, rounding, T / 12 * density / (value + rounding))


def transform(
    positions: Vector, masses: Vector, T: int, size: int, splits: bool
) -> tuple[Any, Any, Vector, Vector, float]:
    """Return the frequencies k that count; w - 1, |w| and the error of w at each; a bound on |w|^T at all others.

    w is the mean of e^(-2 pi i k position / size). If `splits`, positions near the origin, which have most of the mass,
    are summed one by one as changes of 1. The others have little mass, so the error of their transform is small.
    """
    wrapped = positions.astype(np.int64) % size
    plain = _UNIT_ROUNDOFF * (8 * math.log2(size) + 48)
    is_far = np.abs(positions) > _NEAR_STEPS if splits else np.full(len(positions), True)
    change = fft.rfft(np.bincount(wrapped[is_far], weights=masses[is_far], minlength=size))
    if splits:
        indices = (positions[~is_far] + _NEAR_STEPS).astype(np.int64)
        near_masses = np.bincount(indices, weights=masses[~is_far], minlength=2 * _NEAR_STEPS + 1)
        positive, negative = near_masses[_NEAR_STEPS + 1 :], near_masses[_NEAR_STEPS - 1 :: -1]
        half, square, product = _sines(size)
        mass = float(masses[is_far].sum())
        change -= mass
        change -= 2 * (square @ (positive + negative)) + 2j * (product @ (positive - negative))
        terms = (4 * _NEAR_STEPS + 64) * (half @ (positive + negative)) + 4 * np.abs(change)
        error = _UNIT_ROUNDOFF * terms + 2 * plain * mass
    else:
        change -= 1
        error = np.full(len(change), plain)
    modulus = np.abs(1 + change)
    limit = math.exp(-_NEGLIGIBLE_LOG_POWER / T)
    frequencies = np.flatnonzero(modulus > limit)
    small = (float(np.max(modulus + error, where=modulus <= limit, initial=0.0)) + plain) ** T
    selector = _selector(frequencies)
    return frequencies, change[selector], modulus[selector], error[selector], small


@lru_cache(maxsize=4)
def _turns(size: int) -> tuple[NDArray[np.complex128], Vector]:
    """Return e^(-2 pi i k / size), and 1 minus its real part without cancellation, for each frequency k."""
    turn = -2j * math.pi / size * np.arange(size // 2 + 1)
    return np.exp(turn), 2 * np.exp(turn / 2).imag ** 2


@lru_cache(maxsize=2)
def _sines(size: int) -> tuple[Vector, Vector, Vector]:
    """Return pi j k / size for each frequency k and j = 1 to `_NEAR_STEPS`, its sine squared, and sine times cosine."""
    half = np.multiply.outer(np.arange(size // 2 + 1), np.arange(1, _NEAR_STEPS + 1)) * (math.pi / size)
    sine = np.sin(half)
    return half, sine**2, sine * np.cos(half)


def _selector(frequencies: NDArray[np.int64]) -> Any:
    """Return an index of these frequencies: a slice, which copies nothing, if they are the first ones."""
    return slice(len(frequencies)) if frequencies[-1] == len(frequencies) - 1 else frequencies


def _log1p(z: NDArray[np.complex128]) -> Any:
    """Return ln(1 + z), accurate for small z."""
    return 0.5 * np.log1p(2 * z.real + z.real**2 + z.imag**2) + 1j * np.arctan2(z.imag, 1 + z.real)
