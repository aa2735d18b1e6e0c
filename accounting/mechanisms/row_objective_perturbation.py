"""The minimizer of an objective with a random linear term, if each record is one row: it also has a profile.

Precondition: that of `objective_perturbation`, and a record has only one term phi(<x, theta>).
Pseudo-code: that of `objective_perturbation`.
Postcondition: its Renyi curve; and, together with GDP mechanisms of mu^2 = E in all, with
e = epsilon - ln(1 + beta / Lambda) >= 0, S = T + E, D(e, t) the profile of N(0, 1) against N(sqrt(t), 1):
under replace_one T = 4 / z^2 and
    delta(epsilon) <= 2 D(e, S) + 2 min(D(e, S), D(e, E) + 2 Phi(-(e - sqrt(S + S^2 / 4) - E / 2) / sqrt(E)));
under zero_out T = 1 / z^2 and delta(epsilon) <= 2 D(e, S).
Proof: docs/proofs/row_objective_perturbation.md.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import ndtr

from accounting.divergences.gaussian import LARGEST_MU, SMALLEST_DELTA, SMALLEST_MU, gauss_delta, rdp_epsilon
from accounting.divergences.renyi_profile import Curve
from accounting.divergences.roots import root
from accounting.mechanisms.mechanism import Curves, Event
from accounting.mechanisms.objective_perturbation import AbstractPerturbedObjective, ObjectivePerturbation
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor

_ORDERS = tuple(float(a) for a in 1 + np.geomspace(0.05, 1e5, 120))
_ROOT_TOLERANCE, _EPSILON_MARGIN, _DELTA_MARGIN = 1e-12, 1 + 1e-9, 1 - 1e-6


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
        """Return the curves for any number of rows, and the postcondition's profile."""
        curves = self.curves_for_any_rows(noise_multiplier, relation)
        profile = Profile(math.log1p(self.curvature_ratio) * _EPSILON_MARGIN, noise_multiplier, relation)
        epsilon = partial(_epsilon, profile, curves.rdp)
        return replace(curves, epsilon=epsilon, epsilon_with_gaussian=epsilon)

    def event(self, noise_multiplier: float) -> Event:
        """Return the event of `ObjectivePerturbation`, with a type for records of one row."""
        event = ObjectivePerturbation(self.curvature_ratio).event(noise_multiplier)
        return event | {"type": "RowObjectivePerturbationDpEvent"}


@dataclass(frozen=True, slots=True)
class Profile:
    """The postcondition's profile: delta at each epsilon, and epsilon at each delta.

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


def _epsilon(profile: Profile, curve: Curve, delta: float, mu_squared: float = 0.0) -> float:
    """Return epsilon by the profile, or by the Renyi curve if that is smaller, as when delta is near epsilon."""
    rho = curve(_ORDERS) + np.array(_ORDERS) * (mu_squared / 2)
    return min(profile.epsilon(delta, mu_squared), rdp_epsilon(_ORDERS, rho, delta))


def _delta(mu_squared: float, epsilon: float) -> float:
    """Return D(epsilon, mu^2), for a mu that is not too small."""
    return gauss_delta(max(math.sqrt(mu_squared), SMALLEST_MU), epsilon)
