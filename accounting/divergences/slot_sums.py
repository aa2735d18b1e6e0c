"""E[(S/T - kappa)_+] for S = X_1 + ... + X_T independent, rounded up: the sum behind the profile of hidden slots.

In steps that each are exact or raise the value; what is chosen in them affects only by how much:
1. X has finitely many values (`slot_law`), within a cap, beyond which its expectation is added, and a floor.
2. Each point's mass goes to the two nearest points of a lattice, its mean kept.
3. The law is tilted by e^(theta x): with M = E e^(theta (X - kappa)), f(s) = s e^(-theta s) for s > 0, else 0,
   E[(S - T kappa)_+] = M^T E~ f(S - T kappa). By f <= 1 / (e theta) that is at most M^T / (e theta) (Chernoff).
4. f is at most g, the sum of f over all shifts by whole turns of a circle of N lattice steps. E~ g is a finite sum over
   N frequencies: the Fourier coefficients of g are geometric series, those of S the T-th powers of those of X.
5. The worst rounding is added, that of the transform absolutely, that of all else as a factor e^(T eta).
Proof, with the error analysis: docs/proofs/random_allocation.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from accounting.divergences.slot_law import SlotLaw, Stretch, Vector, stretch

_UNIT = 2.0**-53
_STEP = 0.12  # sqrt(T) lattice steps, over the scale on which the value changes
_RAISED = 0.003  # half the share by which step 2 may raise the value
_TILTS = 40
_SLACK = 7.0  # -ln M^T / theta may miss its most by so much, for a smaller circle
_SMALLEST_CIRCLE, _LARGEST_CIRCLE = 1 << 11, 1 << 13  # of lattice steps; where T is large, more
_NOTHING = 1e-17  # beside any delta
_LARGEST_POWER, _LARGEST_ETA = 600.0, 0.1
_NEAR = 5  # lattice steps
_SMALL = 45.0  # frequencies whose power is below e^-45 are taken for rounding
_LOST = 0.05  # the share of rounding, or of what step 2 raised, at which another way is tried
# And, of so many slots, the share by the size of steps alone at which this way is left out: ways that do were found up
# to a tenth of it, and what receipts and charges of before state must be found again, to 2^-30 of it.
_COARSE, _MANY = 20.0, 64
_BENT, _SHARE = 0.15, 0.3  # along a curve: the same share, by what the sum before showed; and of the value, what it did


@dataclass(frozen=True, slots=True)
class _Way:
    """How to do it: what the cap cuts, -ln of what may come round the circle from below and above, whether to transform
    what is far apart from what is near. A low cap costs more, but the less comes round the circle.
    """

    trim: float
    below: float
    above: float
    apart: bool

    def least(self, T: int) -> float:
        """theta E~ g below which what comes round, or rounding, would count."""
        return max(1e3 * math.exp(-self.above), 0.0 if self.apart else T * 1e-13)


_WAYS = (_Way(1e-3, 30, 24, False), *(_Way(trim, 40, 30, True) for trim in (1e-3, 1e-2, 5e-2, 0.3)))


@dataclass(slots=True)
class Along:
    """What the sums along a curve showed, its gamma growing: for a search, in which ways that would not do for the next
    sum are left out, most of them rightly. Each sum is a bound still, and nothing is certified by one.

    Parameters
    ----------
    hasty : whether the next sum begins with the way that did for this one
    ways : so many are left out then
    bend, share : of the last circle: by which share its lattice raised the value, over the step squared; and the value
        over what was roughly expected
    """

    hasty: bool = False
    ways: int = 0
    bend: float = 0.0
    share: float = math.inf


def excess(law: SlotLaw, slots: int, kappa: float, along: Along | None = None, little: float = 0.0) -> float:
    """E[(S/T - kappa)_+], rounded up; infinite where the arithmetic does not reach. Where a first bound of it is at
    most `little`, that one; `along` a curve at times another one, lower or higher, from fewer ways.
    """
    least, coarse, within = math.inf, 0.0, dict[float, _Within]()
    part, begun = stretch(law, slots, kappa), along.ways if along else 0
    for i, way in enumerate(_WAYS[begun:], begun):
        if way.trim <= coarse:
            continue
        if way.trim not in within:
            within[way.trim] = _within(part, kappa, way.trim)
        found = _excess(within[way.trim], slots, kappa, way, along, little)
        least = min(least, found.value)
        if found.raised < _LOST and not found.lost:
            if along and along.hasty:
                along.ways = i
            break
        coarse = way.trim if found.raised >= _LOST else 0.0
    return least


@dataclass(frozen=True, slots=True)
class _Found:
    """A bound, by which share the lattice raised it, and whether much was lost to rounding or came round the circle."""

    value: float
    raised: float
    lost: bool


_NOTHING_FOUND = _Found(math.inf, 0.0, True)


@dataclass(frozen=True, slots=True)
class _Within:
    """A law within its cap and floor; tilts that may be good, and ln M^T at each."""

    part: Stretch
    law: SlotLaw
    thetas: Vector
    powers: Vector


def _within(part: Stretch, kappa: float, trim: float) -> _Within:
    law = part.within(trim)
    return _Within(part, law, *_powers(law, law.points - kappa, part.slots, part.typical))


def _excess(
    within: _Within, T: int, kappa: float, way: _Way, along: Along | None = None, little: float = 0.0
) -> _Found:
    """The same in one way."""
    part, law, thetas, powers = within.part, within.law, within.thetas, within.powers
    chernoff = powers - 1 - np.log(thetas)
    best = int(np.argmin(chernoff))
    eta = T * _UNIT * 2**13 * (1 + law.conditioning)
    if not eta < _LARGEST_ETA:
        return _NOTHING_FOUND
    rounding = math.exp(eta)
    crude = rounding * (math.exp(min(chernoff[best], _LARGEST_POWER)) / T + law.cut)
    if chernoff[best] < math.log(_NOTHING * T) or crude <= little:
        return _Found(crude, 0.0, False)
    theta, around, power = _circle(thetas, powers, way)
    rough, last = part.rough * (min(1.0, _SHARE * along.share) if along else 1.0), way is _WAYS[-1]
    hopeless = not last and rough * theta < 0.1 * way.least(T) * math.exp(min(power, _LARGEST_POWER))
    if hopeless or not 0 < around < math.inf:
        return _NOTHING_FOUND
    finest, found = around / max(_LARGEST_CIRCLE, 2**8 * math.sqrt(T)), math.inf
    scale = min(1 / float(thetas[best]), part.scale)
    raised = T / 12 * (finest / scale) ** 2  # about, on the finest lattice
    bent = along is not None and along.bend * finest**2 > _BENT
    if not last and T >= _MANY and (raised > _COARSE or bent):
        return _Found(math.inf, raised, True)
    step = max(min(_STEP * scale / math.sqrt(T), around / _SMALLEST_CIRCLE), finest)
    while max(float(np.abs(law.points).max()), T * abs(kappa)) / step < 2.0**52:
        size = fft.next_fast_len(math.ceil(around / step) + 1, real=True)
        turned = _on_circle(law, T, kappa, theta, step, size, way.apart)
        if along:
            along.bend, along.share = turned.raised / step**2, turned.factor * turned.value / part.rough
        found = min(found, rounding * (turned.factor * (turned.value + turned.lost) / T + law.cut))
        if not turned.raised > 2 * _RAISED or step <= finest:
            lost = turned.lost > _LOST * turned.value or theta * turned.value < way.least(T)
            return _Found(found, turned.raised, lost)
        step = max(step * min(math.sqrt(_RAISED / turned.raised), 0.5), finest)
    return _NOTHING_FOUND


def _powers(law: SlotLaw, v: Vector, T: int, typical: float) -> tuple[Vector, Vector]:
    """Tilts that may be good, ascending, and ln M^T at each."""
    total = math.sqrt(T * float(law.masses @ (v - law.masses @ v) ** 2))
    largest = float(v.max())
    low, high = 0.2 / total, 100 / typical
    if largest > 0:
        low, high = min(low, 5 / largest), min(high, _LARGEST_POWER / largest)
    thetas = np.exp(np.linspace(math.log(low), math.log(max(high, 3 * low)), _TILTS))
    exponents = np.multiply.outer(thetas, v)
    most = thetas * largest  # of points that ascend
    exponents -= most[:, None]
    return thetas, T * (np.log(np.exp(exponents, out=exponents) @ law.masses) + most)


def _circle(thetas: Vector, powers: Vector, way: _Way) -> tuple[float, float, float]:
    """The tilt whose circle is the smallest, its circumference C, and ln M^T there.

    E[(S + C - T kappa)_+] comes round from below with a factor e^(-theta C), which is kept below e^-below M^T; what is
    above T kappa + C comes round from above, in all at most e^-above by Chernoff's inequality at a larger tilt.
    """
    goal = powers - np.log(thetas)
    near = np.flatnonzero(goal <= goal.min() + _SLACK)
    step = thetas[None, :] - thetas[near][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(step > 0, (powers[None, :] - powers[near][:, None] + way.above) / step, np.inf).min(axis=1)
    around = np.maximum((way.below - np.minimum(powers[near], 0.0)) / thetas[near], beyond)
    found = int(np.argmin(around))
    return float(thetas[near[found]]), float(around[found]), float(powers[near[found]])


@dataclass(frozen=True, slots=True)
class _Turned:
    """M^T; E~ g; the worst rounding of it; and about by which share step 2 raised it."""

    factor: float
    value: float
    lost: float
    raised: float


def _on_circle(law: SlotLaw, T: int, kappa: float, theta: float, step: float, size: int, apart: bool) -> _Turned:
    """Steps 2 to 5 on a circle of `size` lattice steps."""
    tilted = law.masses * np.exp(theta * (law.points - law.points[-1]))
    origin = float(law.points[np.searchsorted(np.cumsum(tilted), tilted.sum() / 2)])  # where most of it is
    at = np.floor((law.points - origin) / step)
    share = (law.points - origin) / step - at
    place = np.concatenate([at, at + 1])
    exponents = theta * (place * step + (origin - kappa))
    most = float(exponents.max())
    tilted = np.concatenate([law.masses * (1 - share), law.masses * share]) * np.exp(exponents - most)
    scale = float(tilted.sum())
    power = T * (math.log(scale) + most)
    if not power < _LARGEST_POWER:
        return _Turned(math.inf, 1.0, 0.0, 0.0)
    kept, change, modulus, error, small = _transform(place, tilted / scale, T, size, apart)
    # the first lattice point from T kappa on, or from just below it, is `start`, `offset` steps beyond
    shift = 8 * _UNIT * T * (abs(kappa) + abs(origin))
    threshold = T * ((kappa - origin) / step) - shift / step
    start = math.ceil(threshold)
    offset, turn = start - threshold, 2 * math.pi / size
    logs = T * _log1p(np.conj(change))
    waves = np.exp(logs - 1j * turn * (kept * (start % size) % size))
    weight = np.full(len(kept), 2 * step * math.exp(-theta * step * offset) / size)
    weight[(kept == 0) | (2 * kept == size)] /= 2
    density = abs(float(np.sum((weight * waves).real)))  # of S at T kappa, times step^2
    whole, versed = (part[_first(kept)] for part in _turns(size))
    r = math.exp(-theta * step) * whole  # e^(-theta step - 2 pi i k / size)
    less = math.expm1(-theta * step) * whole.real - versed + 1j * r.imag  # r - 1
    terms = weight * (offset + (1 - offset) * r) / less**2 * waves
    value = max(float(np.sum(terms.real)), 0.0)
    lost = float(np.abs(terms) @ (np.expm1(T * error / modulus) + _UNIT * (64 + 32 * np.abs(logs))))
    lost += 2 * step / -math.expm1(-2 * theta * step) * small
    return _Turned(math.exp(power + 2 * theta * shift), value, lost, T / 12 * density / (value + lost))


def _transform(place: Vector, masses: Vector, T: int, size: int, apart: bool) -> tuple[Any, Any, Vector, Vector, float]:
    """The frequencies k that count; w - 1, |w| and the error of w at each; |w|^T at most, at all others.

    w is the mean of e^(-2 pi i k place / size). If `apart`, near places, where the most is, are summed one by one, as
    what they change 1 by; the far ones are few in mass, and so is then the error of their transform.
    """
    spots, plain = place.astype(np.int64) % size, _UNIT * (8 * math.log2(size) + 48)
    far = np.abs(place) > _NEAR if apart else np.full(len(place), True)
    change = fft.rfft(np.bincount(spots[far], weights=masses[far], minlength=size))
    if apart:
        near = np.bincount((place[~far] + _NEAR).astype(np.int64), weights=masses[~far], minlength=2 * _NEAR + 1)
        right, left = near[_NEAR + 1 :], near[_NEAR - 1 :: -1]
        half, square, product = _sines(size)
        mass = float(masses[far].sum())
        change -= mass
        change -= 2 * (square @ (right + left)) + 2j * (product @ (right - left))
        error = _UNIT * ((4 * _NEAR + 64) * (half @ (right + left)) + 4 * np.abs(change)) + 2 * plain * mass
    else:
        change -= 1
        error = np.full(len(change), plain)
    modulus, limit = np.abs(1 + change), math.exp(-_SMALL / T)
    kept = np.flatnonzero(modulus > limit)
    small = (float(np.max(modulus + error, where=modulus <= limit, initial=0.0)) + plain) ** T
    first = _first(kept)
    return kept, change[first], modulus[first], error[first], small


@lru_cache(maxsize=4)
def _turns(size: int) -> tuple[NDArray[np.complex128], Vector]:
    """e^(-2 pi i k / size), and 1 less its real part, without a difference, for each frequency k."""
    turn = -2j * math.pi / size * np.arange(size // 2 + 1)
    return np.exp(turn), 2 * np.exp(turn / 2).imag ** 2


@lru_cache(maxsize=2)
def _sines(size: int) -> tuple[Vector, Vector, Vector]:
    """pi j k / size for each frequency k and j = 1 to `_NEAR`; its sine squared, and its sine times its cosine."""
    half = np.multiply.outer(np.arange(size // 2 + 1), np.arange(1, _NEAR + 1)) * (math.pi / size)
    sine = np.sin(half)
    return half, sine**2, sine * np.cos(half)


def _first(kept: NDArray[np.int64]) -> Any:
    """The index of these frequencies: a slice, which copies nothing, where they are the first ones."""
    return slice(len(kept)) if kept[-1] == len(kept) - 1 else kept


def _log1p(z: NDArray[np.complex128]) -> Any:
    """ln(1 + z), accurate where z is small."""
    return 0.5 * np.log1p(2 * z.real + z.real**2 + z.imag**2) + 1j * np.arctan2(z.imag, 1 + z.real)
