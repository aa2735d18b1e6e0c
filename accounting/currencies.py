"""The currencies of charges: how each kind of filter computes thresholds, charges and epsilons.

A filter adds up charges in one currency and compares the sum with its thresholds (accounting/filter.py). This module
has one small class for each kind. Proof: docs/proofs/filter.md.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from accounting import charges, thresholds
from accounting.charges import APPROXIMATIONS, UNIT, Cost
from accounting.divergences.gaussian import gauss_epsilon, rdp_epsilons
from accounting.plan import AbstractComposition
from accounting.privacy import Privacy
from accounting.thresholds import Kind

_NEXT_JOB_SHARE = 1 - 1e-9  # of what remains: the next job's charge is rounded up by less than the rest
_LOG_ROUNDING = 1 + 1e-12  # more than a logarithm may lose
_NO_GUARANTEE = 1e9  # the epsilon to state if external charges have used up all of delta


@dataclass(frozen=True, slots=True)
class FilterParameters:
    """The public parameters of a filter, which are fixed before any answer.

    Parameters
    ----------
    kind : the currency
    privacy : the overall guarantee
    orders : of Renyi divergence, fixed at registration
    weights : of mu^2 beside orders, then of each order; empty if there are no orders
    thresholds : of mu^2, of epsilon or of the orders (mu^2 first), in units of 2^-40; with a slack its own comes last
    slack : the part of delta for approximations; 0 if there is none
    """

    kind: Kind
    privacy: Privacy
    orders: tuple[float, ...]
    weights: tuple[float, ...]
    thresholds: Cost
    slack: float = 0.0

    def curve(self, cost: Cost) -> Cost:
        """Return a vector of this filter without its slack coordinate."""
        return cost[:-1] if self.slack else cost

    def remainders(self, spent: Cost) -> list[int]:
        """Return what remains of each threshold except the slack's; negative if the charges exceed it."""
        return [top - s for top, s in zip(self.curve(self.thresholds), self.curve(spent), strict=True)]


class Currency(ABC):
    """The arithmetic of one kind of filter."""

    slack_threshold: ClassVar[int] = 0  # of the slack's coordinate, if the filter has a slack
    most_slack_per_job: ClassVar[int] = 0  # on that coordinate

    @abstractmethod
    def thresholds(self, parameters: FilterParameters) -> Cost:
        """Return the thresholds without the slack's, for a filter that has none yet."""

    @abstractmethod
    def cost(self, parameters: FilterParameters, plan: AbstractComposition) -> Cost:
        """Return the plan's charge."""

    def cost_at(self, parameters: FilterParameters, plan: AbstractComposition, slack: int) -> Cost | None:  # noqa: ARG002
        """Return the plan's charge by an approximation that uses this slack, or its exact charge if the slack is 0.

        None if the plan has no such approximation.
        """
        return self.cost(parameters, plan)

    def spent_epsilon(self, parameters: FilterParameters, spent: Cost) -> float:
        """Return the epsilon of charges that are not all 0, rounded up.

        If thresholds change by as much as epsilon, it is the budget's epsilon less the largest remainder of a
        threshold.
        """
        largest = Fraction(max(parameters.remainders(spent)), UNIT)
        return _float_above(max(Fraction(0), Fraction(parameters.privacy.epsilon) - largest))

    def next_epsilon(self, parameters: FilterParameters, remainders: list[int]) -> float:
        """Return the largest epsilon of one more job in these remainders, rounded down; at most 0 if there is none.

        It is that of a Gaussian job that uses up the coordinate with the largest remainder.
        """
        orders = parameters.orders
        charge_per_square = (1.0,) * (len(remainders) - len(orders)) + tuple(a / 2 for a in orders)
        square = max((free - 1) / rate for free, rate in zip(remainders, charge_per_square, strict=True)) / UNIT
        if square <= 0:
            return 0.0
        return gauss_epsilon(math.sqrt(square * _NEXT_JOB_SHARE), parameters.privacy.delta) * _NEXT_JOB_SHARE


def _renyi_thresholds(parameters: FilterParameters, weights: tuple[float, ...]) -> Cost:
    """Return the threshold of each order at its weight's part of delta."""
    delta = thresholds.delta_without_slack(parameters.kind, parameters.privacy, parameters.slack)
    weighed = zip(parameters.orders, weights, strict=True)
    return tuple(thresholds.renyi(parameters.privacy.epsilon, delta, a, w) for a, w in weighed)


class _Renyi(Currency):
    """Renyi divergences at fixed orders."""

    slack_threshold, most_slack_per_job = APPROXIMATIONS, 1

    def thresholds(self, parameters: FilterParameters) -> Cost:
        return _renyi_thresholds(parameters, parameters.weights)

    def cost(self, parameters: FilterParameters, plan: AbstractComposition) -> Cost:
        return charges.renyi(plan, parameters.orders, parameters.curve(parameters.thresholds), parameters.slack)

    def cost_at(self, parameters: FilterParameters, plan: AbstractComposition, slack: int) -> Cost | None:
        if slack:
            return charges.renyi_at(plan, parameters.orders, parameters.slack)
        return charges.exact_renyi(plan, parameters.orders) + ((0,) if parameters.slack else ())


class _Gaussian(Currency):
    """The total mu^2 of Gaussian-DP mechanisms."""

    def thresholds(self, parameters: FilterParameters) -> Cost:
        return (thresholds.gaussian(parameters.privacy.epsilon, parameters.privacy.delta),)

    def cost(self, parameters: FilterParameters, plan: AbstractComposition) -> Cost:  # noqa: ARG002
        return charges.gaussian(plan)

    def spent_epsilon(self, parameters: FilterParameters, spent: Cost) -> float:
        return gauss_epsilon(_mu(spent[0]), parameters.privacy.delta)


class _Mixed(Currency):
    """The total mu^2 together with Renyi divergences at fixed orders."""

    slack_threshold, most_slack_per_job = UNIT, UNIT

    def thresholds(self, parameters: FilterParameters) -> Cost:
        delta = thresholds.delta_without_slack(parameters.kind, parameters.privacy, parameters.slack)
        lowered = math.nextafter(parameters.privacy.epsilon + math.log1p(-parameters.slack) * _LOG_ROUNDING, 0.0)
        tops = _renyi_thresholds(parameters, parameters.weights[1:])
        weight = math.nextafter(parameters.weights[0], 0.0)
        return (
            thresholds.gaussian_beside_orders(lowered, delta, weight, parameters.orders, tops, parameters.slack),
            *tops,
        )

    def cost(self, parameters: FilterParameters, plan: AbstractComposition) -> Cost:
        return charges.mixed(plan, parameters.orders, parameters.curve(parameters.thresholds), parameters.slack)

    def cost_at(self, parameters: FilterParameters, plan: AbstractComposition, slack: int) -> Cost | None:
        if slack:
            return charges.mixed_at(plan, parameters.orders, parameters.slack, slack)
        return charges.exact_mixed(plan, parameters.orders)

    def spent_epsilon(self, parameters: FilterParameters, spent: Cost) -> float:
        d = parameters.slack * (spent[-1] / UNIT) * _LOG_ROUNDING
        delta = parameters.privacy.delta - d
        if delta <= 0:
            return _NO_GUARANTEE
        rho = np.array([_float_above(Fraction(s, UNIT)) for s in parameters.curve(spent)[1:]])
        by_order = float(rdp_epsilons(parameters.orders, rho, delta).min())
        epsilon = max(0.0, min(by_order, gauss_epsilon(_mu(spent[0]), delta)))
        return (epsilon - math.log1p(-d)) * _LOG_ROUNDING


class _Pure(Currency):
    """The sum of epsilons, at delta = 0."""

    def thresholds(self, parameters: FilterParameters) -> Cost:
        return (math.floor(Fraction(parameters.privacy.epsilon) * UNIT),)

    def cost(self, parameters: FilterParameters, plan: AbstractComposition) -> Cost:  # noqa: ARG002
        return charges.pure(plan)

    def next_epsilon(self, parameters: FilterParameters, remainders: list[int]) -> float:  # noqa: ARG002
        return (remainders[0] - 1) / UNIT * _NEXT_JOB_SHARE


CURRENCIES: dict[Kind, Currency] = {"rdp": _Renyi(), "gdp": _Gaussian(), "gdp_rdp": _Mixed(), "pure": _Pure()}


def _mu(square: int) -> float:
    """Return mu, rounded up, from mu^2 in units."""
    return math.nextafter(math.sqrt(_float_above(Fraction(square, UNIT))), math.inf)


def _float_above(value: Fraction) -> float:
    """Return a float above the value, since `float` rounds to nearest."""
    return math.nextafter(float(value), math.inf)
