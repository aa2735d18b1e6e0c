"""The minimizer of an objective with a random linear term, if each record is one row: it also has a profile.

Precondition: that of `objective_perturbation`, and a record has only one term phi(<x, theta>).
Pseudo-code: that of `objective_perturbation`.
Postcondition: its Renyi curve, and two profiles. Put e = epsilon - ln(1 + beta / Lambda) >= 0, and let D(e, t) be the
profile of N(0, 1) against N(sqrt(t), 1). T is 4 / z^2 under replace_one, and 1 / z^2 under zero_out.
1. Together with GDP mechanisms of mu^2 = E in all, with S = T + E: under replace_one
       delta(epsilon) <= 2 D(e, S) + 2 min(D(e, S), D(e, E) + 2 Phi(-(e - sqrt(S + S^2 / 4) - E / 2) / sqrt(E)));
   under zero_out delta(epsilon) <= 2 D(e, S). Earlier receipts and targets out of reach of composed losses need it.
2. The minimizer alone has `MinimizerProfile`. A pair over it has losses, which accountants and filters compose with
   those of other answers.
Proof: docs/proofs/row_objective_perturbation.md.

Review: The tighter profile applies only to one row per record.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import ndtr

from accounting.divergences.gaussian import (
    LARGEST_MU,
    SMALLEST_DELTA,
    SMALLEST_MU,
    gauss_delta,
    gauss_deltas,
    rdp_epsilon,
)
from accounting.divergences.renyi_profile import Curve, RenyiLoss
from accounting.divergences.roots import root
from accounting.mechanisms.mechanism import Curves, Event, Vector
from accounting.mechanisms.objective_perturbation import AbstractPerturbedObjective, ObjectivePerturbation
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

_ORDERS = tuple(float(a) for a in 1 + np.geomspace(0.05, 1e5, 120))
_ROOT_TOLERANCE, _EPSILON_MARGIN, _DELTA_MARGIN = 1e-12, 1 + 1e-9, 1 - 1e-6
_GAPS = 0.3 * np.linspace(0.0, 1.0, 33) ** 2  # 1 - c, from 0 to more than 1 - 1/sqrt(2); fine near the usual maximum
_LARGEST_DISTANCE = 30.0  # r: larger ones gain nothing
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class RowObjectivePerturbation(AbstractPerturbedObjective):
    """One minimizer, each record one row; the noise multiplier is z = s / G, as in `ObjectivePerturbation`.

    It has a name of its own, because a person with several rows has the curve but not the profile.

    Parameters
    ----------
    curvature_ratio : beta / Lambda in [1e-12, 1e6], a record's curvature over the summed objective's strong convexity

    Reference: Redberg, Koskela and Wang 2023 (a record added or removed); the rest is proven here.
    """

    curvature_ratio: float
    name: Literal["row_objective_perturbation"] = "row_objective_perturbation"

    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a record is one row."""
        return unit.slots == 1

    def needs_all_rows(self, n: int) -> None:
        """Return None, because no records are drawn."""

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the Renyi curve for any number of rows, the first profile, and a pair over the second."""
        curves = self.curves_for_any_rows(noise_multiplier, relation)
        profile = LossProfile(math.log1p(self.curvature_ratio) * _EPSILON_MARGIN, noise_multiplier, relation)
        epsilon = partial(_epsilon, profile, curves.rdp)
        own = MinimizerProfile(self.curvature_ratio, noise_multiplier, relation)
        loss = RenyiLoss(curves.rdp, sensitivity_factor(relation) / noise_multiplier, own)
        return Curves(curves.rdp, losses=(loss,), epsilon=epsilon, epsilon_with_gaussian=epsilon)

    def event(self, noise_multiplier: float) -> Event:
        """Return the event of `ObjectivePerturbation`, with a type for records of one row."""
        event = ObjectivePerturbation(self.curvature_ratio).event(noise_multiplier)
        return event | {"type": "RowObjectivePerturbationDpEvent"}


@dataclass(frozen=True, slots=True)
class MinimizerProfile:
    """A bound on the profile of the minimizer alone at each epsilon >= 0, in both orders of neighbors.

    Put m = 1 / z, K = beta / Lambda and g(r) = phi(r) - r Phi(-r), for any r > 0. The bound is

    - under zero_out max(D(e, T), min(2 D(epsilon, T), Z(r))), where Z is for epsilon >= T / 2 alone:
          Z(r) = D(epsilon, T) max(1, 2 K r / m) + 2 K (Phi(-r) + m g(r));
    - under replace_one the first profile at E = 0 or, for e >= T / 2, the maximum over c in [1/sqrt(2), 1] of
          B(c, r) = D(e, T c^2) (1 + K (1 - c) r / (2 m) + 2 Phi(-(e - T/2) / (2 m q))) + 2 D(e, T q^2)
                    + K (1 - c) (Phi(-r) + (.8 + 2 m) g(r)),      q = sqrt(1 - c^2).
    """

    curvature_ratio: float
    noise_multiplier: float
    relation: Relation

    def __call__(self, epsilons: Vector) -> Vector:
        shift = math.log1p(self.curvature_ratio) * _EPSILON_MARGIN
        bounds, is_known = np.ones(len(epsilons)), epsilons >= shift
        e = epsilons[is_known] - shift
        if sensitivity_factor(self.relation) == 1:
            profile = np.maximum(_deltas(1 / self.noise_multiplier, e), self.without_record(epsilons[is_known]))
        else:
            profile = self._replace_one(e)
        bounds[is_known] = np.minimum(profile * _ROUNDING, 1.0)
        return bounds

    def without_record(self, epsilons: Vector) -> Vector:
        """Return the bound under zero_out if P is the law without the record, which needs no determinants."""
        m, ratio = 1 / self.noise_multiplier, self.curvature_ratio
        one_corner = _deltas(m, epsilons)
        r = np.maximum(_distance(one_corner / m), min(m / (2 * ratio), _LARGEST_DISTANCE))
        slow = one_corner * np.maximum(1.0, 2 * ratio * r / m) + 2 * ratio * (ndtr(-r) + m * _excess(r))
        two_corners = 2 * one_corner
        return np.where(epsilons >= m * m / 2, np.minimum(slow, two_corners), two_corners)

    def _replace_one(self, e: Vector) -> Vector:
        m, ratio = 1 / self.noise_multiplier, self.curvature_ratio
        own = 4 * m * m
        parallel = _deltas(2 * m, e)
        corners = np.where(e >= math.sqrt(own + own**2 / 4), 2, 4) * parallel
        r = _distance(parallel / (2 * m))[:, None]
        # A cell of c has the largest c in D(e, T c^2), and the smallest c in all terms that grow as c falls.
        largest_c, gap = 1 - _GAPS[:-1], _GAPS[1:]
        q, column = np.sqrt(gap * (2 - gap)), e[:, None]
        early = 2 * ndtr(-(column - own / 2) / (2 * m * q))
        first = _deltas(2 * m * largest_c, column) * (1 + ratio * gap * r / (2 * m) + early)
        remainder = 2 * _deltas(2 * m * q, column) + ratio * gap * (ndtr(-r) + (0.8 + 2 * m) * _excess(r))
        return np.where(e >= own / 2, np.minimum((first + remainder).max(axis=1), corners), corners)


@dataclass(frozen=True, slots=True)
class LossProfile:
    """The postcondition's first profile: delta at each epsilon, and epsilon at each delta.

    Parameters
    ----------
    shift : ln(1 + beta / Lambda), rounded up
    """

    shift: float
    noise_multiplier: float
    relation: Relation

    def delta(self, epsilon: float, mu_squared: float = 0.0) -> float:
        """Return delta at epsilon - shift = `epsilon` >= 0, together with other Gaussian answers of `mu_squared`."""
        own = (sensitivity_factor(self.relation) / self.noise_multiplier) ** 2
        both = own + mu_squared
        gaussian = _delta(both, epsilon)
        if sensitivity_factor(self.relation) == 1:
            return 2 * gaussian
        threshold = math.sqrt(both + both**2 / 4)
        if mu_squared == 0:
            return 2 * gaussian if epsilon >= threshold else 4 * gaussian
        early = 2 * float(ndtr(-(epsilon - threshold - mu_squared / 2) / math.sqrt(mu_squared)))
        return 2 * (gaussian + min(gaussian, _delta(mu_squared, epsilon) + early))

    def epsilon(self, delta: float, mu_squared: float = 0.0) -> float:
        """Return the epsilon at which the profile is delta, rounded up; infinite out of range."""
        if (
            delta < SMALLEST_DELTA
            or sensitivity_factor(self.relation) / self.noise_multiplier + math.sqrt(mu_squared) > LARGEST_MU
        ):
            return math.inf
        target = delta * _DELTA_MARGIN
        if self.delta(0.0, mu_squared) <= target:
            return self.shift
        high = 1e-9
        while self.delta(high, mu_squared) > target:
            high *= 2
        at = root(
            lambda epsilon: self.delta(epsilon, mu_squared) - target,
            0.0,
            high,
            relative=_ROOT_TOLERANCE,
            absolute=1e-18,
        )
        return self.shift + at * _EPSILON_MARGIN


def _epsilon(profile: LossProfile, curve: Curve, delta: float, mu_squared: float = 0.0) -> float:
    """Return epsilon by the profile, or by the Renyi curve if that is smaller, as when delta is near epsilon."""
    rho = curve(_ORDERS) + np.array(_ORDERS) * (mu_squared / 2)
    return min(profile.epsilon(delta, mu_squared), rdp_epsilon(_ORDERS, rho, delta))


def _distance(density: Vector) -> Vector:
    """Return the r of at least .1 at which phi(r) is about the density. Any r is valid."""
    logs = np.log(np.maximum(density, 1e-300) * math.sqrt(2 * math.pi))
    return np.asarray(np.sqrt(np.clip(-2 * logs, 0.01, _LARGEST_DISTANCE**2)))


def _excess(r: Vector) -> Vector:
    """Return phi(r) - r Phi(-r), the mean of (X - r)_+ for a standard normal X, from above."""
    return np.asarray(_ROUNDING * np.exp(-(r**2) / 2) / math.sqrt(2 * math.pi) - r * ndtr(-r))


def _deltas(mu: float | Vector, epsilons: Vector) -> Vector:
    """Return D(epsilon, mu^2) at each epsilon, for a mu that is not too small."""
    return gauss_deltas(np.maximum(mu, SMALLEST_MU), epsilons)


def _delta(mu_squared: float, epsilon: float) -> float:
    """Return D(epsilon, mu^2), for a mu that is not too small."""
    return gauss_delta(max(math.sqrt(mu_squared), SMALLEST_MU), epsilon)
