"""The minimizer of an objective with a random linear term, for scalar generalized linear models.

Precondition: theta = argmin over R^d of sum_i phi_i(<x_i, theta>) + (Lambda / 2) ||theta||^2 + <b, theta>, phi_i convex
with |phi_i'| ||x_i|| <= G and phi_i'' ||x_i||^2 <= beta, b ~ N(0, s^2 I), s = z G.
Pseudo-code: draw b; release theta. A solver's distance from theta is covered by the query that adds noise to it.
Postcondition: Renyi divergence of order a at most
    ln(1 + beta / Lambda) + a k^2 / (2 z^2) + ln(2 Phi(k (a - 1) / z)) / (a - 1),   k = 2 under replace_one, else 1.
Proof: docs/proofs/objective_perturbation.md.

Review: Curvature and slope bounds hold for every record.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np
from scipy.special import erf

from accounting.divergences.renyi_profile import RenyiLoss
from accounting.mechanisms.gaussian import Gaussian
from accounting.mechanisms.mechanism import AbstractFixedAnswers, AbstractUnsampled, Curves, Event, Source, Vector
from accounting.noise import Noise
from accounting.numbers import finite, within
from accounting.privacy import REPLACE_ONE, Relation, sensitivity_factor

_ROUNDING = 1 + 1e-12
LATTICE_BITS = 31  # lattice steps in one std of b, as a power of two


class AbstractPerturbedObjective(AbstractFixedAnswers):
    """The random linear term of an objective: what both mechanisms have in common."""

    __slots__ = ()
    answers: ClassVar[int] = 1
    source: ClassVar[Source | None] = Source()
    curvature_ratio: float

    def __post_init__(self) -> None:
        within(self.curvature_ratio, "the curvature ratio", 1e-12, 1e6)

    @final
    def curves_for_any_rows(self, noise_multiplier: float, relation: Relation) -> Curves:
        """Return the postcondition's Renyi curve, and a pair over it, as its ratio of determinants is not Gaussian."""
        curve = _Curve(self.curvature_ratio, sensitivity_factor(relation) / noise_multiplier)
        return Curves(curve, over=(RenyiLoss(curve, curve.mu),))

    @final
    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which the linear term alone would spend mu^2."""
        return sensitivity_factor(relation) / math.sqrt(mu_squared)

    @final
    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:  # noqa: ARG002
        """Return the std of each coordinate of b that `perturb` uses, in the gradient's unit: z G, rounded up."""
        return finite(math.nextafter(noise_multiplier * bound * _ROUNDING, math.inf), "noise std")

    @final
    def spacing(self, noise_multiplier: float, bound: float) -> float:
        """Return the lattice spacing of b. Coarse rounding moves theta, and the method accounts for that."""
        return float(2.0 ** (math.frexp(self.std(noise_multiplier, bound, 1))[1] - 1 - LATTICE_BITS))

    @final
    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return b, the linear term's coefficients, shape (d,): of the shape of `value` and independent of it."""
        spacing = self.spacing(noise_multiplier, bound)
        scale = self.std(noise_multiplier, bound, len(value)) / spacing
        return np.asarray(noise.rounded_gaussian(len(value), scale) * spacing)


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(AbstractUnsampled, AbstractPerturbedObjective):
    """One minimizer; the noise multiplier is z = s / G, std of the linear term over a record's gradient bound.

    Parameters
    ----------
    curvature_ratio : beta / Lambda in [1e-12, 1e6], a record's curvature over the summed objective's strong convexity

    Reference: Kifer, Smith and Thakurta 2012; Redberg, Koskela and Wang 2023; docs/spec 10 (replace-one).
    """

    curvature_ratio: float
    name: Literal["objective_perturbation"] = "objective_perturbation"

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the curves for any number of rows."""
        return self.curves_for_any_rows(noise_multiplier, relation)

    def event(self, noise_multiplier: float) -> Event:
        """Return the minimizer of an objective whose random linear term has the noise of a Gaussian event."""
        gaussian = Gaussian().event(noise_multiplier)
        return {"type": "ObjectivePerturbationDpEvent", "curvature_ratio": self.curvature_ratio, "event": gaussian}


@dataclass(frozen=True, slots=True)
class _Curve:
    """The Renyi curve ln(1 + beta / Lambda) + a mu^2 / 2 + ln(2 Phi((a - 1) mu)) / (a - 1), at each order a > 1."""

    curvature_ratio: float
    mu: float

    def __call__(self, orders: Sequence[float]) -> Vector:
        a = np.asarray(orders, dtype=float)
        tilt = np.log1p(erf((a - 1) * self.mu / math.sqrt(2))) / (a - 1)  # ln(2 Phi(x)), accurate near 0
        curve = math.log1p(self.curvature_ratio) + a * self.mu**2 / 2 + tilt
        return np.asarray(curve * _ROUNDING)
