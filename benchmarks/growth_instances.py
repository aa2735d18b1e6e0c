"""Test problems with growth ||w - w*||^kappa whose expected loss is known: the instances of Asi, Levy and Duchi 2021.

The public start of every method is 0. Each instance is shifted, so that 0 is not its minimizer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from solvers import Problem, kernels
from solvers.domains import L2Ball
from solvers.losses import Power
from solvers.losses.one_margin import OneMargin

Vector = NDArray[np.float64]
SHIFT = 0.5  # distance of an instance's minimizer from 0


@dataclass(frozen=True)
class Instance:
    """A problem and the distribution of its rows.

    Parameters
    ----------
    kappa : exponent of the growth; infinite for a problem that is only convex
    problem : returns the problem at (n, epsilon)
    draw : returns n rows at (n, epsilon, generator), their targets, and the excess expected loss as a function of w
    """

    name: str
    kappa: float
    d: int
    problem: Callable[[int, float], Problem]
    draw: Callable[[int, float, np.random.Generator], tuple[Vector, Vector, Callable[[Vector], float]]]

    @property
    def rate(self) -> float:
        """kappa / (kappa - 1)."""
        return 1.0 if math.isinf(self.kappa) else self.kappa / (self.kappa - 1)


@dataclass(frozen=True)
class Linear(OneMargin):
    """The loss f(m, y) = -y m, the random linear term of Theorem 4."""

    takes: ClassVar[Literal["class"]] = "class"
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 0.0

    name: str = "linear"

    @staticmethod
    def derivative(m: float, y: float) -> float:  # noqa: ARG004
        """Return -y."""
        return -y

    def value(self, margin: Vector, y: Vector) -> Vector:
        """Return -y m, elementwise."""
        return -y * margin


@dataclass(frozen=True)
class PowerNorm:
    """r(w) = ||w - c||^k / k, every coordinate of c being `center`; k = 2 or 3. Its strong convexity is not stated."""

    exponent: int
    center: float
    name: str = "power_norm"
    strong_convexity: float = 0.0

    def value(self, w: Vector) -> float:
        return float(np.linalg.norm(w - self.center)) ** self.exponent / self.exponent

    def prox(self, w: Vector, step: float) -> Vector:
        """c + t v, v = w - c, with t + step ||v||^(k-2) t^(k-1) = 1."""
        v = w - self.center
        size = float(np.linalg.norm(v))
        if self.exponent == 2 or size == 0:
            return self.center + v / (1 + step)
        return self.center + v * (2 / (1 + math.sqrt(1 + 4 * step * size)))


@dataclass(frozen=True)
class OneSided(Power):
    """Theorem 5's F(m; y): u^k if u = y (m - SHIFT) - a is positive, otherwise |u|.

    With smoothing h, the slope rises along a line over a width of h instead of the kink.
    """

    a: float = 0.0

    @property
    def slope_bound(self) -> float:
        """Slope bound k 2^(k-1)."""
        return self.exponent * 2 ** (self.exponent - 1)

    @property
    def curvature_bound(self) -> float:
        """Curvature bound; infinite without smoothing."""
        h, k = self.smoothing, self.exponent
        return math.inf if h == 0 else max(1 / h, k * h ** (k - 2))

    @property
    def compiled(self) -> kernels.Slope:
        """Form of the loss that the compiled loops use, with three of its fields."""
        address = kernels.c_function(_one_sided_slope).address
        return kernels.Slope(address, self.exponent, self.a, self.smoothing, self.slope_bound)

    def targets(self, y: Vector) -> Vector:
        """Return +1 for a positive target, otherwise -1."""
        return np.where(y > 0, 1.0, -1.0)

    def value(self, margin: Vector, y: Vector) -> Vector:
        """Return F(m; y) without smoothing, elementwise."""
        u = y * (margin - SHIFT) - self.a
        return np.where(u > 0, np.abs(u) ** self.exponent, -u)


def _one_sided_slope(m: float, y: float, exponent: float, a: float, smoothing: float) -> float:
    u = y * (m - SHIFT) - a
    h = max(smoothing, 1e-300)
    if u <= 0.0:
        return y * max(u / h, -1.0)
    power = math.pow(u, exponent - 1.0) if u >= h else u * math.pow(h, exponent - 2.0)
    return y * exponent * min(power, math.pow(2.0, exponent - 1.0))


def power(kappa: float, d: int) -> Instance:
    """E |<x, w> - y|^kappa, x uniform on the +-e_j, y = <x, w*>: (1/d) sum |w_j - w*_j|^kappa while these are below 1,
    linear beyond. No sampling error.
    """
    truth = np.full(d, SHIFT / math.sqrt(d))

    def draw(n: int, _epsilon: float, rng: np.random.Generator) -> Any:
        X = _basis(n, d, rng)
        return X, X @ truth, lambda w: float(np.mean(Power(kappa).value(w, truth)))

    return Instance("power", kappa, d, lambda n, _: _problem(Power(kappa), n, d), draw)


def one_sided(kappa: float) -> Instance:
    """Theorem 5: P(y = v) = (1 + delta)/2, delta = max(1/sqrt(6n), 1/(2 sqrt(3) n epsilon)), a = delta^(1/(k-1))/2."""

    def delta(n: int, epsilon: float) -> float:
        return max(1 / math.sqrt(6 * n), 1 / (2 * math.sqrt(3) * n * epsilon))

    def loss_of(n: int, epsilon: float) -> OneSided:
        return OneSided(kappa, a=0.5 * delta(n, epsilon) ** (1 / (kappa - 1)))

    def draw(n: int, epsilon: float, rng: np.random.Generator) -> Any:
        shift = delta(n, epsilon)
        v = rng.choice([-1.0, 1.0])
        y = np.where(rng.random(n) < (1 + shift) / 2, v, -v)
        loss = loss_of(n, epsilon)
        positive_share, least = (1 + v * shift) / 2, loss.a * (1 - shift)

        def excess(w: Vector) -> float:
            up, down = loss.value(w, np.array([1.0, -1.0])).tolist()
            return positive_share * up + (1 - positive_share) * down - least

        return np.ones((n, 1)), y, excess

    return Instance("Theorem 5", kappa, 1, lambda n, epsilon: _problem(loss_of(n, epsilon), n, 1), draw)


def linear(kappa: int, d: int) -> Instance:
    """Theorem 4: -<s, w> + ||w - c||^kappa / kappa, s = +-e_j with E s = (delta / d) v, delta = sqrt(d / (24 n))."""
    center = SHIFT / math.sqrt(d)

    def draw(n: int, _epsilon: float, rng: np.random.Generator) -> Any:
        X, y, mean = _signs(n, d, rng)
        size, rate = float(np.linalg.norm(mean)), kappa / (kappa - 1)

        def excess(w: Vector) -> float:
            z = w - center
            return float(np.linalg.norm(z)) ** kappa / kappa - float(mean @ z) + size**rate / rate

        return X, y, excess

    regularizer: Any = PowerNorm(kappa, center)
    return Instance(
        "Theorem 4", kappa, d, lambda n, _: replace(_problem(Linear(), n, d), regularizer=regularizer), draw
    )


def convex(d: int) -> Instance:
    """The linear term alone, on the unit ball: no growth that does not vanish with n. Its start cannot be moved."""

    def draw(n: int, _epsilon: float, rng: np.random.Generator) -> Any:
        X, y, mean = _signs(n, d, rng)
        return X, y, lambda w: float(np.linalg.norm(mean) - mean @ w)

    return Instance("linear on a ball", math.inf, d, lambda n, _: _problem(Linear(), n, d), draw)


def _problem(loss: Any, n: int, d: int) -> Problem:
    return Problem(loss, domain=L2Ball(1.0), n=n, d=d, row_norm=1.0)


def _basis(n: int, d: int, rng: np.random.Generator) -> Vector:
    X = np.zeros((n, d))
    X[np.arange(n), rng.integers(d, size=n)] = rng.choice([-1.0, 1.0], size=n)
    return X


def _signs(n: int, d: int, rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    """Draw rows e_j with targets v_j with probability (1 + delta) / 2 and -v_j otherwise; return E y x too."""
    delta = math.sqrt(d / (24 * n))
    v = rng.choice([-1.0, 1.0], size=d)
    which = rng.integers(d, size=n)
    X = np.zeros((n, d))
    X[np.arange(n), which] = 1.0
    y = np.where(rng.random(n) < (1 + delta) / 2, v[which], -v[which])
    return X, y, delta / d * v
