"""The privacy profile of a random allocation, H_gamma for gamma >= 1, rounded up (see its mechanism for the formula).

H_gamma <= q E[((X_1 + ... + X_T)/T - kappa)_+], kappa = (1-q)(gamma-1)/q, evaluated in `slot_sums`; never more than one
answer on a sample, whose slot is known, would cost; and never more than at a smaller gamma.
Proof: docs/proofs/random_allocation.md.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from accounting.divergences import polygon, sampled_gaussian, slot_law, slot_sums
from accounting.divergences.gaussian import gauss_delta, gauss_epsilon
from accounting.divergences.losses import Search
from accounting.divergences.polygon import Knots
from accounting.divergences.spline import spline
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

Vector = NDArray[np.float64]

_ROUNDING = 1 + 1e-6
_FALLS = (0.2, 0.5)  # by which -ln of the profile grows from knot to knot: in its body and its tail
# And between the points of a search, a spline between them; before these, how far about the first one is.
_SEARCH = {"about": (0.7, 1.5, 5.0), "nearly": (0.2, 0.4, 1.5)}
_BODY = 0.03  # of the profile at gamma = 1, where the tail begins
_NOTHING = 1e-17  # beside any delta
_LEAST = 1e-12  # beyond the last knot the profile is at most this, all of it counted as infinite loss
_MOST_KNOTS = 160
_LARGEST_SHIFT = 20.0  # as in tight.py
# Beyond these secret slots are not counted on: e^(c^2/2), by which a record shows in its slot, is then far more than
# slots that could hide it, and squares would overflow.
_LARGEST_HIDDEN_SHIFT, _LARGEST_EPSILON = 8.0, 150.0
_LAST_EPSILON = 600.0  # and no knot lies beyond this: what the profile is there counts as infinite loss
_EPSILONS = 1 << 15  # of each power of two, the epsilons that `epsilon` answers
# From this epsilon on the bounds may rise where rounding is most of them (found at 13 and above); there the first one
# within delta is looked for, in steps of 2 % or more, within which -ln of a bound grows by about `_STEEPEST` times the
# step in epsilon at most.
_RISING, _STEEPEST = 8.0, 4.0
_SCANNED = _EPSILONS >> 5
Point = tuple[int, float]


class Allocation(Protocol):
    """Each record is, with probability `rate`, in one secret slot of `slots`, drawn in one of two forms."""

    def __hash__(self) -> int: ...

    @property
    def rate(self) -> float: ...

    @property
    def slots(self) -> int: ...

    @property
    def form(self) -> Literal["independent", "ordered"]: ...


def hockey_stick(
    mechanism: Allocation,
    noise_multiplier: float,
    epsilon: float,
    relation: Relation = REPLACE_ONE,
    along: slot_sums.Along | None = None,
) -> float:
    """Upper bound on H_gamma of one use at gamma = e^epsilon, epsilon >= 0: delta at that epsilon, in both orders.

    `along` is of the same curve's sums at lower epsilons.
    """
    c, q = 1 / noise_multiplier, min(1.0, math.nextafter(mechanism.rate, 2.0))
    if c > _LARGEST_SHIFT:
        return 1.0
    gamma, ordered, zeroed = math.exp(epsilon), mechanism.form == "ordered", relation == "zero_out"
    if ordered and zeroed:  # the same slots on both datasets, or, as ever, with the null record for another one
        return min(hockey_stick(mechanism, noise_multiplier, epsilon), q * gauss_delta(c, epsilon) * _ROUNDING)
    known = sampled_gaussian.hockey_stick(q, c, epsilon) if zeroed else _known_slots(c, q, epsilon, ordered)
    known = min(known, 1.0)
    alone = mechanism.slots == 1 and not ordered  # with one slot it is the whole truth
    if known < _NOTHING or alone or epsilon > _LARGEST_EPSILON or c > _LARGEST_HIDDEN_SHIFT:
        return known
    if zeroed:
        return min(known, _zeroed(c, q, gamma, mechanism.slots, along) * _ROUNDING)
    law = slot_law.ordered(c, gamma) if ordered else slot_law.independent(c, gamma)
    return min(known, q * slot_sums.excess(law, mechanism.slots, (1 - q) * (gamma - 1) / q, along) * _ROUNDING)


def _zeroed(c: float, q: float, gamma: float, slots: int, along: slot_sums.Along | None) -> float:
    """The larger of E[(1 - q + q S - gamma)_+] and E[(1 - gamma (1 - q + q S))_+], S the mean of the slots' ratios."""
    with_it = q * slot_sums.excess(slot_law.single(c, False), slots, 1 + (gamma - 1) / q, along)
    least = (1 - 1 / gamma) / q - 1  # where it is 0 or above, 1 - gamma (1 - q) is not positive
    if least >= 0:
        return with_it
    share = gamma * q
    return max(with_it, share * slot_sums.excess(slot_law.single(c, True), slots, least, little=0.5 * with_it / share))


@lru_cache(maxsize=1024)
def epsilon(mechanism: Allocation, noise_multiplier: float, delta: float, relation: Relation = REPLACE_ONE) -> float:
    """Return an epsilon at which one use costs at most delta > 0: 0, a power 2^(k / 2^15), or infinity.

    It is infinite if no such epsilon was found. The power before it costs more. Another platform's last digits give the
    same number, unless two bounds tie.
    """

    def over(k: int) -> float:
        return math.log(max(hockey_stick(mechanism, noise_multiplier, 2 ** (k / _EPSILONS), relation), 1e-300) / delta)

    if hockey_stick(mechanism, noise_multiplier, 0.0, relation) <= delta:
        return 0.0
    rising = round(math.log2(_RISING) * _EPSILONS)
    guess = gauss_epsilon(typical_deviation(mechanism, noise_multiplier, relation), delta)
    begin = round(math.log2(min(max(guess, 1e-9), _RISING)) * _EPSILONS)
    k: float = _crossing(over, (-30 * _EPSILONS, math.inf), (rising + 1, -math.inf), begin)
    if k > rising:
        k = _first(over, rising)
    return 2 ** (k / _EPSILONS) if k < math.inf else math.inf


def _first(over: Callable[[int], float], begin: int) -> float:
    """Return the first k > begin with over(k) <= 0 that is found in small steps, infinity if there is none.

    The profile falls as epsilon grows, so a bound at a smaller epsilon holds at all larger ones. The bound itself may
    rise where rounding is most of it: any k with over(k) <= 0 is valid, and the first one is the least epsilon.
    """
    last = math.floor(math.log2(_LAST_EPSILON) * _EPSILONS)
    low = high = (begin, over(begin))
    while high[1] > 0:
        if high[0] == last:
            return math.inf
        ahead = math.log2(1 + high[1] / _STEEPEST * 2 ** (-high[0] / _EPSILONS)) * _EPSILONS
        k = min(high[0] + max(1, math.floor(ahead / _SCANNED)) * _SCANNED, last)
        low, high = high, (k, over(k))
    return _crossing(over, low, high, begin) if low[0] < high[0] else begin


def _crossing(over: Callable[[int], float], low: Point, high: Point, begin: int) -> int:
    """Return a k with over(k) <= 0 < over(k - 1) between two points (k, over(k)), the first positive, the last not.

    An infinite value stands for one that was not evaluated; the search then begins at `begin`, with growing steps.
    """
    k, turn = min(max(begin, low[0] + 1), high[0] - 1), 0
    while high[0] - low[0] > 1:
        if not math.isinf(low[1]) and not math.isinf(high[1]):  # regula falsi, and every third time bisection
            k = low[0] + round((high[0] - low[0]) * (low[1] / (low[1] - high[1]) if turn % 3 else 0.5))
            k = min(max(k, low[0] + 1), high[0] - 1)
        found, turn = (k, over(k)), turn + 1
        low, high = (found, high) if found[1] > 0 else (low, found)
        k += round(found[1] * _EPSILONS / 8 + math.copysign(_EPSILONS * 2**turn / 64, found[1]))
        k = min(max(k, low[0] + 1), high[0] - 1)
    return high[0]


def _known_slots(c: float, q: float, epsilon: float, ordered: bool) -> float:
    """H_gamma where a record's slot, if it has one, is known: one answer on a sample."""
    gamma = math.exp(epsilon)
    if ordered:
        return q * gauss_delta(2 * c, math.log1p((gamma - 1) / q)) * _ROUNDING
    x = (epsilon / 2 + math.asinh((1 - q) / q * math.exp(c * c / 2) * math.sinh(epsilon / 2))) / c
    base, near, far = (float(ndtr(-x - shift)) for shift in (0.0, -c, c))
    return max(0.0, q * near - gamma * q * far - (gamma - 1) * (1 - q) * base) + 4e-15 * near


def knots(
    mechanism: Allocation, noise_multiplier: float, search: Search | None = None, relation: Relation = REPLACE_ONE
) -> Knots:
    """The pair whose profile is the polygon over bounds of the mechanism's; in a search near that, and no bound."""
    return _knots(mechanism, noise_multiplier, search, relation)


@lru_cache(maxsize=256)
def _knots(mechanism: Allocation, noise_multiplier: float, search: Search | None, relation: Relation) -> Knots:
    step = 0.3 * typical_deviation(mechanism, noise_multiplier, relation)
    along = slot_sums.Along(hasty=search == "about") if search else None

    def profile(epsilon: float) -> float:
        return hockey_stick(mechanism, noise_multiplier, epsilon, relation, along)

    if search:
        first, *falls = _SEARCH[search]
        few, bounds = _along(profile, first * step, *falls)
        logs = spline(few, [math.log(max(bound, 1e-300)) for bound in bounds])
        epsilons, bounds = _along(lambda epsilon: math.exp(min(logs(epsilon), 0.0)), _FALLS[0] * step, *_FALLS)
    else:
        epsilons, bounds = _along(profile, _FALLS[0] * step, *_FALLS)
    return polygon.knots(np.exp(epsilons), np.array(bounds))


def _along(profile: Callable[[float], float], step: float, body: float, tail: float) -> tuple[list[float], list[float]]:
    """Epsilons from 0 on, between which -ln of the profile grows by about so much, and the profile there."""
    epsilons, bounds = [0.0], [profile(0.0)]
    while bounds[-1] > _LEAST and len(bounds) < _MOST_KNOTS and epsilons[-1] + step <= _LAST_EPSILON:
        epsilons.append(epsilons[-1] + step)
        bounds.append(min(bounds[-1], profile(epsilons[-1])))
        fall = body if bounds[-1] > _BODY * bounds[0] else tail
        fell = math.log(bounds[-2] / max(bounds[-1], 1e-300)) + 1e-9
        step *= min(max(fall / fell, 0.5), 2.0)
    return epsilons, bounds


def conditioned_rdp(
    mechanism: Allocation,
    noise_multiplier: float,
    orders: Sequence[float],
    slack: float,
    relation: Relation = REPLACE_ONE,
) -> Vector | None:
    """D_a(P' || Q) at each order, P' the law P of the knots given that its loss is not among the largest.

    P gives those, the infinite ones among them, at most `slack`; so P = (1 - s) P' + s P'' with s <= slack. The pair is
    its own mirror image, so the same holds in the other direction. None if the infinite ones alone are more.
    """
    if 1 / noise_multiplier > _LARGEST_SHIFT:
        return None
    epsilons, masses, infinity = knots(mechanism, noise_multiplier, relation=relation)
    losses, upper = np.concatenate([-epsilons[:0:-1], epsilons]), np.concatenate([masses[1, :0:-1], masses[0]])
    beyond = infinity + np.append(np.cumsum(upper[::-1])[::-1][1:], 0.0)  # P(loss above this one)
    kept = np.flatnonzero(beyond * _ROUNDING <= slack)
    if len(kept) == 0:
        return None
    end = int(kept[0]) + 1
    a, log_kept = np.asarray(orders, dtype=float), math.log1p(-float(beyond[end - 1]) * _ROUNDING)
    moments = logsumexp(np.outer(a - 1, losses[:end]), b=upper[:end], axis=1)
    return np.asarray(np.maximum((moments - a * log_kept) / (a - 1) * _ROUNDING + 1e-12, 0.0))


def typical_deviation(mechanism: Allocation, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> float:
    """The std of one use's loss in the limit of many slots, and never more than with known slots."""
    c = 1 / noise_multiplier
    square = min(c * c, 300.0)
    one = math.expm1(square) if relation == "zero_out" else 4 * math.sinh(square)
    return min(math.sqrt(mechanism.rate**2 * one / mechanism.slots), sensitivity_factor(relation) * c)
