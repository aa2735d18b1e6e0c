"""The privacy profile of a random allocation, H_gamma for gamma >= 1, rounded up (see its mechanism for the formula).

H_gamma <= q E[((X_1 + ... + X_T)/T - kappa)_+], kappa = (1-q)(gamma-1)/q, evaluated in `slot_sums`. It is at most the
cost of one answer on a sample, whose slot is known, and at most the bound at a smaller gamma. If the slots of an
ordered allocation hold all records, the formula is not proved, and known slots are charged.
Proof: docs/proofs/random_allocation.md.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Literal, Protocol

import numpy as np
from scipy.special import logsumexp, ndtr

from accounting.divergences import few_slots, polygon, sampled_gaussian, slot_doubling, slot_law, slot_sums
from accounting.divergences.gaussian import gauss_delta, gauss_epsilon
from accounting.divergences.losses import Search, Vector
from accounting.divergences.polygon import Knots
from accounting.divergences.slot_law import Shifts
from accounting.divergences.spline import spline
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

_ROUNDING = 1 + 1e-6
_KNOT_FALLS = (0.2, 0.5)  # growth of -ln of the profile from knot to knot, in its body and its tail
# For the points of a search, with a spline through them: the first epsilon, and the same two growths.
_SEARCH_STEPS = {"about": (0.7, 1.5, 5.0), "nearly": (0.2, 0.4, 1.5)}
_TAIL_RATIO = 0.03  # of the profile to that at gamma = 1, below which the tail begins
_NEGLIGIBLE = 1e-17  # beside any delta
_SMALLEST_PROFILE = 1e-12  # at the last knot; the profile beyond it counts as infinite loss
_MOST_KNOTS = 160
_LARGEST_SHIFT = 20.0  # as in tight.py
# At larger rates the slots of an ordered allocation may hold all records, up to rounding of the rate (`batch`).
_LARGEST_RATE_WITH_SPARE_RECORD = 1 - 2e-12
# Beyond these the secrecy of slots is not used: a record changes its slot by e^(c^2/2), far more than the other slots
# could hide, and squares would overflow.
_LARGEST_HIDDEN_SHIFT, _LARGEST_HIDDEN_EPSILON = 8.0, 150.0
_LARGEST_KNOT_EPSILON = 600.0  # the profile beyond it counts as infinite loss
# Above this epsilon, rounding may be most of a bound of `slot_sums`, and another processor changed epsilon by 0.6 % at
# most. One use of a few slots is then bounded by `few_slots`. Up to this epsilon, stored receipts must recompute.
LARGEST_PORTABLE_EPSILON = 4.0
# From this epsilon on, a bound of `slot_sums` may rise because most of it is rounding (observed at 13 and above). One
# use of more slots is then bounded by `slot_doubling`.
_SMALLEST_ROUNDED_EPSILON = 8.0
_EPSILONS_PER_OCTAVE = 1 << 15  # epsilons between two powers of two that `epsilon` may return
# Arguments of `slot_law.ordered`, once for each order of neighbors that has a law of its own. The record that holds the
# slot otherwise is at -c, the record is at most at c, and the null record is at 0.
ORDERED_SHIFTS: dict[Relation, tuple[tuple[Shifts, Shifts], ...]] = {
    "replace_one": (((2, 0), (0, 2)),),
    "zero_out": (((2, 1), (0, 1)), ((1, 0), (1, 2))),
}
_FAR_BELOW = 1e-3  # of delta: a bound below this need not be close, in a search
Point = tuple[int, float]


class Allocation(Protocol):
    """A random allocation: each record is in one secret slot of `slots` with probability `rate`."""

    def __hash__(self) -> int: ...

    @property
    def rate(self) -> float: ...

    @property
    def slots(self) -> int: ...

    @property
    def form(self) -> Literal["independent", "ordered"]: ...


def searched_delta(
    mechanism: Allocation, noise_multiplier: float, epsilon: float, delta: float, relation: Relation = REPLACE_ONE
) -> float:
    """Return the bound of `hockey_stick`, which need not be close to H_gamma if it is far below delta."""
    return hockey_stick(mechanism, noise_multiplier, epsilon, relation, enough=_FAR_BELOW * delta)


def hockey_stick(
    mechanism: Allocation,
    noise_multiplier: float,
    epsilon: float,
    relation: Relation = REPLACE_ONE,
    circles_only: bool = False,
    hints: slot_sums.SearchHints | None = None,
    enough: float = 0.0,
) -> float:
    """Return an upper bound on H_gamma of one use at gamma = e^epsilon, epsilon >= 0: delta there, in both orders.

    Parameters
    ----------
    circles_only : whether only the circles of `slot_sums` are used, at a large epsilon too
    hints : for `slot_sums`, from the sums of the same curve at lower epsilons, in a search
    enough : if a bound is at most this, no other bound is evaluated
    """
    c, q = 1 / noise_multiplier, min(1.0, math.nextafter(mechanism.rate, 2.0))
    if c > _LARGEST_SHIFT:
        return 1.0
    gamma, is_ordered, is_zero_out = math.exp(epsilon), mechanism.form == "ordered", relation == "zero_out"
    if is_ordered and is_zero_out:
        # A null record costs at most what another record costs, and moves a known slot by c alone.
        with_known_slots = min(q * gauss_delta(c, epsilon) * _ROUNDING, _known_slots(c, q, epsilon, is_ordered), 1.0)
    elif is_zero_out:
        with_known_slots = min(sampled_gaussian.hockey_stick(q, c, epsilon), 1.0)
    else:
        with_known_slots = min(_known_slots(c, q, epsilon, is_ordered), 1.0)
    is_beyond = epsilon > _LARGEST_HIDDEN_EPSILON or c > _LARGEST_HIDDEN_SHIFT
    if with_known_slots < _NEGLIGIBLE or mechanism.slots == 1 or is_beyond or _holds_all_records(mechanism):
        return with_known_slots
    excess: Callable[..., float] = partial(slot_sums.excess, hints=hints)
    if mechanism.slots <= few_slots.MOST_FEW_SLOTS and epsilon > LARGEST_PORTABLE_EPSILON and not circles_only:
        excess = few_slots.excess
    elif epsilon > _SMALLEST_ROUNDED_EPSILON and not circles_only:
        excess = partial(slot_sums.excess, hints=hints, otherwise=slot_doubling.excess)
    if is_zero_out and not is_ordered:
        return min(with_known_slots, _zero_out(c, q, gamma, mechanism.slots, excess, enough) * _ROUNDING)
    laws, kappa = [slot_law.independent(c, gamma)], (1 - q) * (gamma - 1) / q
    if is_ordered:
        laws = [slot_law.ordered(c, gamma, *shifts) for shifts in ORDERED_SHIFTS[relation]]
    value = excess(laws[0], mechanism.slots, kappa, enough=enough / q)
    for law in laws[1:]:
        value = max(value, excess(law, mechanism.slots, kappa, hints=None, negligible=value / 2, enough=enough / q))
    if is_ordered and is_zero_out:
        # The same holds for secret slots. The lattice may raise these laws more than that of replaced records.
        replaced = slot_law.ordered(c, gamma)
        value = min(value, excess(replaced, mechanism.slots, kappa, hints=None, enough=enough / q))
    return min(with_known_slots, q * value * _ROUNDING)


def _zero_out(c: float, q: float, gamma: float, slots: int, excess: Callable[..., float], enough: float) -> float:
    """Return the larger of E[(1 - q + q S - gamma)_+] and E[(1 - gamma (1 - q + q S))_+], S the mean of slot ratios."""
    forward = q * excess(slot_law.single(c, False), slots, 1 + (gamma - 1) / q, enough=enough / q)
    kappa = ((1 - q) - 1 / gamma) / q  # if it is not negative, 1 - gamma (1 - q) is not positive
    if kappa >= 0:
        return forward
    factor = gamma * q
    law, negligible = slot_law.single(c, True), 0.5 * forward / factor
    backward = excess(law, slots, kappa, hints=None, negligible=negligible, enough=enough / factor)
    return max(forward, factor * backward)


@lru_cache(maxsize=1024)
def epsilon(mechanism: Allocation, noise_multiplier: float, delta: float, relation: Relation = REPLACE_ONE) -> float:
    """Return an epsilon at which one use costs at most delta > 0: 0, a power 2^(k / 2^15), or infinity.

    It is infinite if no such epsilon was found. The power before it costs more. On another platform the result is the
    same, unless two bounds tie.
    """

    def over(k: int) -> float:
        epsilon = 2 ** (k / _EPSILONS_PER_OCTAVE)
        return math.log(max(searched_delta(mechanism, noise_multiplier, epsilon, delta, relation), 1e-300) / delta)

    if hockey_stick(mechanism, noise_multiplier, 0.0, relation) <= delta:
        return 0.0
    has_few_slots = mechanism.slots <= few_slots.MOST_FEW_SLOTS
    border = _exponent(LARGEST_PORTABLE_EPSILON if has_few_slots else _SMALLEST_ROUNDED_EPSILON)
    last = _exponent(_LARGEST_KNOT_EPSILON)
    begin = _exponent(max(gauss_epsilon(typical_deviation(mechanism, noise_multiplier, relation), delta), 1e-9))
    k = _crossing(over, (-30 * _EPSILONS_PER_OCTAVE, math.inf), (border + 1, -math.inf), begin)
    if k > border:
        k = _crossing(over, (border, math.inf), (last + 1, -math.inf), border + 1)
    return 2 ** (k / _EPSILONS_PER_OCTAVE) if k <= last else math.inf


def _exponent(epsilon: float) -> int:
    """Return the k whose 2^(k / 2^15) is nearest to epsilon."""
    return round(math.log2(epsilon) * _EPSILONS_PER_OCTAVE)


def _crossing(over: Callable[[int], float], low: Point, high: Point, begin: int) -> int:
    """Return a k with over(k) <= 0 < over(k - 1) between two points (k, over(k)), the first positive, the last not.

    An infinite value stands for one that was not evaluated; the search then begins at `begin`, with growing steps.
    """
    k, turn = min(max(begin, low[0] + 1), high[0] - 1), 0
    while high[0] - low[0] > 1:
        if not math.isinf(low[1]) and not math.isinf(high[1]):  # regula falsi, and every third time bisection
            k = low[0] + round((high[0] - low[0]) * (low[1] / (low[1] - high[1]) if turn % 3 else 0.5))
            k = min(max(k, low[0] + 1), high[0] - 1)
        point, turn = (k, over(k)), turn + 1
        low, high = (point, high) if point[1] > 0 else (low, point)
        k += round(point[1] * _EPSILONS_PER_OCTAVE / 8 + math.copysign(_EPSILONS_PER_OCTAVE * 2**turn / 64, point[1]))
        k = min(max(k, low[0] + 1), high[0] - 1)
    return high[0]


def _holds_all_records(mechanism: Allocation) -> bool:
    """Return whether an ordered allocation may leave no record without a slot; then only known slots are proved."""
    return mechanism.form == "ordered" and mechanism.rate > _LARGEST_RATE_WITH_SPARE_RECORD


def _known_slots(c: float, q: float, epsilon: float, is_ordered: bool) -> float:
    """Return H_gamma if a record's slot, if it has one, is known: that of one answer on a sample."""
    gamma = math.exp(epsilon)
    if is_ordered:
        return q * gauss_delta(2 * c, math.log1p((gamma - 1) / q)) * _ROUNDING
    x = (epsilon / 2 + math.asinh((1 - q) / q * math.exp(c * c / 2) * math.sinh(epsilon / 2))) / c
    base, plus, minus = (float(ndtr(-x - shift)) for shift in (0.0, -c, c))
    return max(0.0, q * plus - gamma * q * minus - (gamma - 1) * (1 - q) * base) + 4e-15 * plus


@lru_cache(maxsize=256)
def knots(
    mechanism: Allocation, noise_multiplier: float, search: Search | None = None, relation: Relation = REPLACE_ONE
) -> Knots:
    """Return the pair whose profile is the polygon over bounds of the mechanism's profile.

    In a search it is near that pair, and it is not a bound.
    """
    step = 0.3 * typical_deviation(mechanism, noise_multiplier, relation)
    hints = slot_sums.SearchHints(begins_with_last=search == "about") if search else None

    def profile(epsilon: float) -> float:
        return hockey_stick(mechanism, noise_multiplier, epsilon, relation, True, hints)

    if search:
        first, *falls = _SEARCH_STEPS[search]
        points, bounds = _sampled(profile, first * step, *falls)
        logs = spline(points, [math.log(max(bound, 1e-300)) for bound in bounds])
        epsilons, bounds = _sampled(
            lambda epsilon: math.exp(min(logs(epsilon), 0.0)), _KNOT_FALLS[0] * step, *_KNOT_FALLS
        )
    else:
        epsilons, bounds = _sampled(profile, _KNOT_FALLS[0] * step, *_KNOT_FALLS)
    return polygon.knots(np.exp(epsilons), np.array(bounds))


def _sampled(
    profile: Callable[[float], float], step: float, body: float, tail: float
) -> tuple[list[float], list[float]]:
    """Return epsilons from 0 on, between which -ln of the profile grows by about `body` or `tail`, and the profile."""
    epsilons, bounds = [0.0], [profile(0.0)]
    while bounds[-1] > _SMALLEST_PROFILE and len(bounds) < _MOST_KNOTS and epsilons[-1] + step <= _LARGEST_KNOT_EPSILON:
        epsilons.append(epsilons[-1] + step)
        bounds.append(min(bounds[-1], profile(epsilons[-1])))
        target = body if bounds[-1] > _TAIL_RATIO * bounds[0] else tail
        fall = math.log(bounds[-2] / max(bounds[-1], 1e-300)) + 1e-9
        step *= min(max(target / fall, 0.5), 2.0)
    return epsilons, bounds


def conditioned_rdp(
    mechanism: Allocation,
    noise_multiplier: float,
    orders: Sequence[float],
    slack: float,
    relation: Relation = REPLACE_ONE,
) -> Vector | None:
    """Return D_a(P' || Q) at each order, P' the law P of the knots given that its loss is not among the largest.

    P gives the largest losses, with the infinite ones, at most `slack`. So P = (1 - s) P' + s P'' with s <= slack. The
    pair is its own mirror image, so the same holds in the other direction. None if infinite losses alone have more.
    """
    if 1 / noise_multiplier > _LARGEST_SHIFT:
        return None
    epsilons, masses, infinity = knots(mechanism, noise_multiplier, None, relation)
    losses = np.concatenate([-epsilons[:0:-1], epsilons])
    upper = np.concatenate([masses[1, :0:-1], masses[0]])
    beyond = infinity + np.append(np.cumsum(upper[::-1])[::-1][1:], 0.0)  # P(loss above this one)
    cuts = np.flatnonzero(beyond * _ROUNDING <= slack)
    if len(cuts) == 0:
        return None
    end = int(cuts[0]) + 1
    a = np.asarray(orders, dtype=float)
    log_remaining = math.log1p(-float(beyond[end - 1]) * _ROUNDING)
    moments = logsumexp(np.outer(a - 1, losses[:end]), b=upper[:end], axis=1)
    return np.asarray(np.maximum((moments - a * log_remaining) / (a - 1) * _ROUNDING + 1e-12, 0.0))


def typical_deviation(mechanism: Allocation, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> float:
    """Return the std of one use's loss in the limit of many slots, at most that with known slots."""
    c = 1 / noise_multiplier
    square = min(c * c, 300.0)
    variance = math.expm1(square) if relation == "zero_out" else 4 * math.sinh(square)  # of one slot at rate 1
    with_known_slots = sensitivity_factor(relation) * c
    if _holds_all_records(mechanism):
        return with_known_slots
    return min(math.sqrt(mechanism.rate**2 * variance / mechanism.slots), with_known_slots)
