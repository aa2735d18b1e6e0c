"""The privacy profile of a random allocation, H_gamma for gamma >= 1, rounded up (see its mechanism for the formula).

E[(S/T - kappa)_+], S = X_1 + ... + X_T independent, in five steps that each only raise it:
1. X beyond a cap is put at the cap, and the expectation of what was cut is added; X below a floor is put at the floor;
2. each cell's mass goes to the two ends of the cell so that its mean stays (more spread, same mean);
3. the masses are tilted by e^(theta x), so that the few S above T kappa, which matter, become the many;
4. one circular convolution, a float FFT to the power T: what wraps around is only added. What it cannot show, S beyond
   the window, is bounded by Chernoff's inequality and added, and so is the worst rounding of the transform;
5. the tilt is taken back, and 1e-6 added for the rounding of all else.
Proof: docs/proofs/random_allocation.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, ndtr

from accounting.divergences.gaussian import gauss_delta

Vector = NDArray[np.float64]

_ROUNDING = 1 + 1e-6
_UNIT = 2.0**-53
_FINE = 0.05  # of one X's std, the width of a cell, where the cells are not too few or too many with it
_LEAST_CELLS, _MOST_CELLS = 1 << 12, 1 << 15
_REACH = 9.0  # standard deviations of S that the window keeps on each side
_STEP = 0.5  # between knots the profile falls by about e^-0.5
_LEAST = 1e-12  # and beyond the last by no more than this, all of it counted as infinite loss
_MOST_KNOTS = 160
_LARGEST_SHIFT = 20.0  # as in loss.py
_LARGEST_EPSILON = 250.0  # beyond it secret slots are not counted on: squares of what grows like gamma would overflow
_LAST_EPSILON = 600.0  # and no knot lies beyond this: what the profile is there counts as infinite loss


class Allocation(Protocol):
    """Each record is, with probability `rate`, in one secret slot of `slots`, drawn in one of two forms."""

    def __hash__(self) -> int: ...

    @property
    def rate(self) -> float: ...

    @property
    def slots(self) -> int: ...

    @property
    def form(self) -> Literal["independent", "ordered"]: ...


@dataclass(frozen=True, slots=True)
class _Slot:
    """The law of one X. Its values rise with y on a few pieces of the normal line; see `_pieces`."""

    c: float
    gamma: float
    ordered: bool

    def above(self, x: Vector) -> tuple[Vector, Vector]:
        """P(X > x) and E[X; X > x], for x >= 0."""
        c, gamma = self.c, self.gamma
        if self.ordered:
            mu = 2 * c
            y = (np.log(gamma + x) + mu * mu / 2) / mu
            tail = ndtr(-y)
            return tail, ndtr(mu - y) - gamma * tail
        y = self._inverse(x)
        return ndtr(-y), ndtr(c - y) - gamma * ndtr(-c - y)

    def below(self, x: Vector) -> tuple[Vector, Vector]:
        """P(X < x) and E[X; X < x], for x <= 0."""
        c, gamma = self.c, self.gamma
        if self.ordered:
            mu = 2 * c
            y = (np.log((1 - x) / gamma) + mu * mu / 2) / mu
            tail = ndtr(-y)
            return tail, tail - gamma * ndtr(mu - y)
        y = self._inverse(x)
        return ndtr(y), ndtr(y - c) - gamma * ndtr(y + c)

    def values(self, y: Vector) -> tuple[Vector, Vector]:
        """X at two copies of y that together have its law (each counted where its X is not 0); a rough guide only."""
        c, gamma = self.c, self.gamma
        if self.ordered:
            a = np.exp(2 * c * y - 2 * c * c)
            return np.maximum(a - gamma, 0.0), np.minimum(1 - gamma * a, 0.0)
        return np.exp(c * y - c * c / 2) - gamma * np.exp(-c * y - c * c / 2), np.zeros_like(y)

    def _inverse(self, x: Vector) -> Vector:
        """y with e^(cy - c^2/2) - gamma e^(-cy - c^2/2) = x: w = e^(cy) solves k w - gamma k / w = x."""
        k = math.exp(-(self.c**2) / 2)
        root = np.sqrt(x * x + 4 * self.gamma * k * k)
        w = np.where(x > 0, (x + root) / (2 * k), 2 * self.gamma * k / (root - np.minimum(x, 0.0)))
        return np.log(w) / self.c


def hockey_stick(mechanism: Allocation, noise_multiplier: float, epsilon: float) -> float:
    """An upper bound on H_gamma of one use at gamma = e^epsilon, epsilon >= 0: delta at that epsilon."""
    c, q = 1 / noise_multiplier, min(1.0, math.nextafter(mechanism.rate, 2.0))
    gamma, ordered = math.exp(epsilon), mechanism.form == "ordered"
    known = _known_slots(c, q, epsilon, ordered)
    alone = mechanism.slots == 1 and not ordered  # with one slot it is the whole truth
    if known < _LEAST or alone or epsilon > _LARGEST_EPSILON:
        return min(known, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # far from private, where the other bound is the less
        hidden = _hidden_slots(_Slot(c, gamma, ordered), mechanism.slots, q)
    return min(known, 1.0, hidden if hidden >= 0 else 1.0)


def _known_slots(c: float, q: float, epsilon: float, ordered: bool) -> float:
    """H_gamma where a record's slot, if it has one, is known: one answer on a sample."""
    gamma = math.exp(epsilon)
    if ordered:
        return q * gauss_delta(2 * c, math.log1p((gamma - 1) / q)) * _ROUNDING
    x = (epsilon / 2 + math.asinh((1 - q) / q * math.exp(c * c / 2) * math.sinh(epsilon / 2))) / c
    base, near, far = (float(ndtr(-x - shift)) for shift in (0.0, -c, c))
    return max(0.0, q * near - gamma * q * far - (gamma - 1) * (1 - q) * base) + 4e-15 * near


def knots(mechanism: Allocation, noise_multiplier: float, coarse: bool = False) -> tuple[Vector, Vector, float]:
    """epsilon_0 = 0 < epsilon_1 < ... with the probability of the losses +epsilon_k and -epsilon_k, and of +inf.

    The pair whose profile is piecewise linear in gamma, through the lower hull of the bounds at gamma = e^epsilon_k,
    and constant beyond the last. A profile is convex in gamma, so this one lies above it.

    Returns
    -------
    epsilons : shape (k,)
    masses : shape (2, k), at +epsilon and at -epsilon; what is at 0 stands in the first row
    infinity : float
    """
    return _knots(mechanism, noise_multiplier, coarse)


@lru_cache(maxsize=256)
def _knots(mechanism: Allocation, noise_multiplier: float, coarse: bool) -> tuple[Vector, Vector, float]:
    fall, least = (1.5, 1e-10) if coarse else (_STEP, _LEAST)
    epsilons, bounds = [0.0], [hockey_stick(mechanism, noise_multiplier, 0.0)]
    step = 0.3 * fall * typical_deviation(mechanism, noise_multiplier)
    while bounds[-1] > least and len(bounds) < _MOST_KNOTS and epsilons[-1] + step <= _LAST_EPSILON:
        epsilons.append(epsilons[-1] + step)
        bounds.append(min(bounds[-1], hockey_stick(mechanism, noise_multiplier, epsilons[-1])))
        fell = math.log(bounds[-2] / max(bounds[-1], 1e-300)) + 1e-9
        step *= min(max(fall / fell, 0.5), 2.0)
    gamma, delta = np.exp(epsilons), np.array(bounds)
    delta[0] = float(np.min((gamma - 1 + 2 * delta) / (gamma + 1)))  # chords from 1/gamma to gamma, and itself
    hull = _lower_hull(gamma, delta)
    gamma, delta = gamma[hull], delta[hull]
    slopes = np.append(np.diff(delta) / np.diff(gamma), 0.0)
    # Q has the jump of the slope as its mass at each gamma; left of 1 the slope is delta - 1 - slope, by symmetry
    low = np.maximum(np.diff(slopes, prepend=delta[0] - 1 - slopes[0]), 0.0)
    masses = np.vstack([low * gamma, low])
    masses[1, 0] = 0.0
    return np.log(gamma), masses, float(delta[-1])


def conditioned_rdp(
    mechanism: Allocation, noise_multiplier: float, orders: Sequence[float], slack: float
) -> Vector | None:
    """D_a(P' || Q) at each order, P' the law P of the knots given that its loss is not among the largest.

    P gives those, the infinite ones among them, at most `slack`; so P = (1 - s) P' + s P'' with s <= slack. The pair is
    its own mirror image, so the same holds in the other direction. None if the infinite ones alone are more.
    """
    if 1 / noise_multiplier > _LARGEST_SHIFT:
        return None
    epsilons, masses, infinity = knots(mechanism, noise_multiplier)
    losses, upper = np.concatenate([-epsilons[:0:-1], epsilons]), np.concatenate([masses[1, :0:-1], masses[0]])
    beyond = infinity + np.append(np.cumsum(upper[::-1])[::-1][1:], 0.0)  # P(loss above this one)
    kept = np.flatnonzero(beyond * _ROUNDING <= slack)
    if len(kept) == 0:
        return None
    end = int(kept[0]) + 1
    a, log_kept = np.asarray(orders, dtype=float), math.log1p(-float(beyond[end - 1]) * _ROUNDING)
    moments = logsumexp(np.outer(a - 1, losses[:end]), b=upper[:end], axis=1)
    return np.asarray(np.maximum((moments - a * log_kept) / (a - 1) * _ROUNDING + 1e-12, 0.0))


def typical_deviation(mechanism: Allocation, noise_multiplier: float) -> float:
    """The std of one use's loss in the limit of many slots, and never more than with known slots."""
    c = 1 / noise_multiplier
    spread = 4 * mechanism.rate**2 * math.sinh(min(c * c, 300.0)) / mechanism.slots
    return min(math.sqrt(spread), 2 * c)


def _lower_hull(x: Vector, y: Vector) -> list[int]:
    """The vertices of the greatest convex function below the points."""
    hull = [0]
    for i in range(1, len(x)):
        while len(hull) > 1 and (y[hull[-1]] - y[hull[-2]]) * (x[i] - x[hull[-2]]) >= (y[i] - y[hull[-2]]) * (
            x[hull[-1]] - x[hull[-2]]
        ):
            hull.pop()
        hull.append(i)
    return hull


def _hidden_slots(slot: _Slot, slots: int, q: float) -> float:
    """q E[(S/T - kappa)_+], rounded up."""
    T, gamma = slots, slot.gamma
    kappa, gap = (1 - q) * (gamma - 1) / q, (gamma - 1) / q  # E X = 1 - gamma lies by the gap below kappa
    y = np.linspace(-11 - slot.c, 11 + 2 * slot.c, 1500)
    weight = np.exp(-y * y / 2) * (y[1] - y[0]) / math.sqrt(2 * math.pi)
    rough = slot.values(y)
    deviation = math.sqrt(sum(float(weight @ np.clip(x, -T * gap - 9, T * gap + 9) ** 2) for x in rough) + 1e-300)
    total = deviation * math.sqrt(T)
    cap = T * gap + _REACH * total
    low, high = T * (1 - gamma) - _REACH * total, T * (1 - gamma) + 2.2 * cap + _REACH * total
    floor = max(4 * deviation, 1.0)
    while floor < high - low and _beyond_floor(slot, floor) > 1e-4 * max(gap, 0.3 * total / T):
        floor *= 1.5
    h = max(min(_FINE * deviation, (high - low) / _LEAST_CELLS), (high - low) / _MOST_CELLS)
    right, left = (max(1, math.ceil(min(edge / h, 4 * _MOST_CELLS))) for edge in (cap, floor))
    masses, cut = _masses(slot, h, left, right)
    grid = np.arange(-left, right + 1, dtype=np.float64) * h
    rough_values = [np.clip(x, -left * h, right * h) for x in rough]

    def cumulant(theta: float) -> float:
        """About ln E e^(theta X)."""
        return math.log1p(max(sum(float(weight @ np.expm1(np.minimum(theta * x, 600.0))) for x in rough_values), -0.99))

    theta = _tilt(cumulant, T, T * kappa, total)
    size = fft.next_fast_len(math.ceil((high - low) / h) + 2, real=True)
    first = math.floor(low / h)
    end = (first + size) * h
    steep = max(_tilt(cumulant, T, end, total), 1 / end)
    return q * _ROUNDING * (_tail(masses, grid, T, kappa, theta, first, size, h, end, steep) + cut)


def _beyond_floor(slot: _Slot, floor: float) -> float:
    """E[(-floor - X)_+]: by how much putting X at the floor raises its mean."""
    probability, mean = slot.below(np.array([-floor]))
    return float(-floor * probability[0] - mean[0])


def _masses(slot: _Slot, h: float, left: int, right: int) -> tuple[Vector, float]:
    """The masses at -left h .. right h (steps 1 and 2), and the expectation of what the cap cut."""
    masses = np.zeros(left + right + 1)
    edges = np.arange(0, right + 1, dtype=np.float64) * h
    tail, mean = slot.above(edges)
    _spread(masses, left, tail[:-1] - tail[1:], mean[:-1] - mean[1:], edges[:-1], h)
    masses[-1] += tail[-1]
    cut = max(0.0, float(mean[-1] - edges[-1] * tail[-1]))
    edges = np.arange(-left, 1, dtype=np.float64) * h
    low, low_mean = slot.below(edges)
    _spread(masses, 0, low[1:] - low[:-1], low_mean[1:] - low_mean[:-1], edges[:-1], h)
    masses[0] += low[0]
    masses[left] += max(0.0, 1.0 - float(tail[0]) - float(low[-1]))  # X = 0, in the ordered form
    return masses, cut


def _spread(masses: Vector, start: int, probability: Vector, mean: Vector, edge: Vector, h: float) -> None:
    probability = np.maximum(probability, 0.0)
    up = np.clip((mean - edge * probability) / h, 0.0, probability)
    masses[start : start + len(up)] += probability - up
    masses[start + 1 : start + 1 + len(up)] += up


def _tilt(cumulant: Callable[[float], float], T: int, threshold: float, total: float) -> float:
    """The theta >= 0 that makes S about T kappa in the mean: where T cumulant(theta) - theta T kappa is least."""
    found = minimize_scalar(
        lambda log: T * cumulant(math.exp(log)) - math.exp(log) * threshold,
        bounds=(math.log(1e-4 / total), math.log(40 / total)),
        method="bounded",
        options={"xatol": 0.05},
    )
    return math.exp(float(found.x)) if found.fun < 0 else 0.0


def _tail(
    masses: Vector,
    grid: Vector,
    T: int,
    kappa: float,
    theta: float,
    first: int,
    size: int,
    h: float,
    end: float,
    steep: float,
) -> float:
    """E[(S/T - kappa)_+] of the masses, steps 3 to 5, for the window of `size` cells from `first` on."""
    tilted = masses * np.exp(theta * grid)
    scale = float(tilted.sum())
    circle = np.zeros(size)
    offset = round(float(grid[0]) / h)
    np.add.at(circle, np.arange(offset, offset + len(masses)) % size, tilted / scale)
    wave = fft.rfft(circle)
    wave = _power(wave, T)
    # the mean of |wave|^(T-1) bounds how the errors of the first transform pass through the power, by Jensen
    through = T * min(1.0, float(np.mean(np.abs(wave)))) ** ((T - 1) / T)
    lost = through * _UNIT * (8 * math.log2(size) + 16)
    sums = np.maximum(fft.irfft(wave, n=size), 0.0) + lost
    s = np.arange(max(first, math.floor(T * kappa / h)), first + size)
    values = s * h
    worth = np.exp(T * math.log(scale) - theta * values) * np.maximum(values / T - kappa, 0.0)
    inside = float(sums[s % size] @ worth)
    # x 1{x >= end} <= end e^(steep (x - end)), as steep >= 1 / end
    chance = T * math.log(float(masses @ np.exp(steep * grid))) - steep * end
    return inside + end / T * math.exp(min(chance, 700.0))


def _power(wave: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """wave^exponent by squaring, which loses about `exponent` roundings; what is below 1e-150 is taken for 0."""
    result: NDArray[np.complex128] | None = None
    while True:
        if exponent & 1:
            result = wave.copy() if result is None else result * wave
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        wave = np.where(np.abs(wave) > 1e-150, wave * wave, 0.0)
