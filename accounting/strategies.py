"""Strategies that propose the least noise for a privacy target. Calibration certifies what they propose."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from accounting.accountants import (
    Accountant,
    GaussianAccountant,
    PldAccountant,
    PureAccountant,
    RdpAccountant,
    RoughPld,
    SingleUseAccountant,
)
from accounting.accountants.rdp import ORDERS
from accounting.accountants.tight import losses_of
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import CalibrationFailed
from accounting.mechanisms import Mechanism
from accounting.plan import MULTIPLIERS, Plan, PlannedQuery, Query
from accounting.privacy import Privacy, Relation, sensitivity_factor
from accounting.search import Point, SearchResult, largest

# Relative tolerances of epsilon below the target at which a stage of a search ends: on a coarse grid, and on the fine
# grid with an approximate accountant.
_COARSE_TOLERANCE = 0.1
_APPROXIMATE_TOLERANCE = 4e-3
_PLD_STAGES = ((RoughPld(2.0), _COARSE_TOLERANCE), (RoughPld(1.0), _APPROXIMATE_TOLERANCE))
_GAUSSIAN_MU_SQUARED_MARGIN = 1e-10
# More than a charge is rounded up by, also for an epsilon of 1e-3. So two jobs of half a budget fit it.
_PURE_EPSILON_MARGIN = 2e-9
# Composed losses are used only if they admit this many times the mu^2 of a sum of epsilons, because the sum holds at
# delta 0 and can be checked by hand.
_PURE_ADVANTAGE = 1.01
_DIVISION_ROUNDING = 1 + 1e-15  # bounds the rounding of two divisions
_RENYI_CONTENDER_RATIO = 1.05  # all orders are searched if a few of them come this near to the target
_USED_EPSILON_RATIO = 0.97  # below this share of the target a plan wastes epsilon


@dataclass(frozen=True, slots=True)
class _EpsilonByDelta:
    """An approximate epsilon of one use, from its delta at the target epsilon; exact if the result is the target."""

    privacy: Privacy

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return target epsilon * sqrt(delta at that epsilon / delta), as if delta fell like epsilon^-2."""
        target, profile = self.privacy.epsilon, plan.parts()[0][1].delta
        return math.inf if profile is None else target * math.sqrt(profile(target, delta) / delta)


EpsilonBound = Accountant | RoughPld | _EpsilonByDelta


class Proposal(NamedTuple):
    """A plan, and the accountant that should certify it."""

    plan: Plan
    accountant: Accountant


@dataclass(frozen=True)
class CalibrationTarget:
    """The queries and the privacy target of one calibration.

    Parameters
    ----------
    queries, privacy, relation : as for `accounting.calibration.calibrate`
    tolerance : relative distance below the target epsilon at which a search ends
    epsilon : evaluates an accountant's epsilon for a plan at the target's delta
    """

    queries: tuple[Query, ...]
    privacy: Privacy
    relation: Relation
    tolerance: float
    epsilon: Callable[[EpsilonBound, Plan], float]

    @property
    def gaussian_budget(self) -> float:
        """The largest mu^2 of Gaussian answers within the target."""
        return gauss_mu(self.privacy.epsilon, self.privacy.delta) ** 2

    @cached_property
    def example(self) -> Plan:
        """A plan of the queries. Its class does not depend on its noise multipliers."""
        return self.plan(self.gaussian_budget)

    def plan(self, total: float) -> Plan:
        """Return the plan in which the queries share a total mu^2 by their weights."""
        return self._shared(total, lambda mechanism, mu_squared: mechanism.multiplier(mu_squared, self.relation))

    def pure_plan(self) -> Plan:
        """Return the plan in which the queries share epsilon by their weights."""
        total = self.privacy.epsilon * (1 - _PURE_EPSILON_MARGIN)
        return self._shared(total, lambda mechanism, epsilon: _pure_multiplier(mechanism, epsilon, self.relation))

    def largest(self, accountant: EpsilonBound, guess: float, hints: Sequence[Point] = ()) -> SearchResult:
        """Return a total mu^2 whose plan is within the target and close to it, or 0 if there is none."""
        return largest(self._share(accountant), guess, self.tolerance, hints)

    def refined(self, accountant: EpsilonBound, guess: float, *stages: tuple[EpsilonBound, float]) -> float:
        """Return a total as `largest` does, with a search that begins at the result of cheaper stages.

        Parameters
        ----------
        stages : an approximate accountant and its relative tolerance; each stage begins where the one before it ended
        """
        result = self.approximate(guess, *stages)
        return self.largest(accountant, result.total or guess, result.points if result.total else ()).total

    def approximate(self, guess: float, *stages: tuple[EpsilonBound, float]) -> SearchResult:
        """Return the result of the last of these stages; it is approximate, and not a bound."""
        result = SearchResult(0.0, ())
        for approximate, tolerance in stages:
            hints = result.points if result.total else ()
            result = largest(self._share(approximate), result.total or guess, tolerance, hints, rough=True)
        return result

    def best(self, candidates: Iterable[tuple[float, Accountant]]) -> Proposal:
        """Return the plan of the largest total. Among equal totals, the first candidate's accountant is proposed.

        Raises
        ------
        CalibrationFailed
            if the largest total is 0.
        """
        total, accountant = max(candidates, key=lambda candidate: candidate[0])
        if total == 0:
            raise CalibrationFailed(
                "no noise within reach meets this epsilon and delta for so many queries. Raise epsilon, or plan fewer"
            )
        return Proposal(self.plan(total), accountant)

    def _share(self, accountant: EpsilonBound) -> Callable[[float], float]:
        return lambda total: self.epsilon(accountant, self.plan(total)) / self.privacy.epsilon

    def _shared(self, total: float, multiplier: Callable[[Mechanism, float], float]) -> Plan:
        """Return the plan in which the queries share a total by weight, and the uses of a query share it equally."""
        weights, (smallest, largest_multiplier) = sum(q.weight for q in self.queries), MULTIPLIERS
        planned = []
        for q in self.queries:
            z = multiplier(q.mechanism, total * q.weight / weights / q.count)
            planned.append(PlannedQuery(q.name, q.count, q.mechanism, min(max(z, smallest), largest_multiplier)))
        return Plan(tuple(planned), self.relation)


def propose(target: CalibrationTarget) -> Proposal:
    """Return the plan of least noise by the first strategy that applies. It is not certified yet.

    Raises
    ------
    CalibrationFailed
        if no noise within reach meets the target.
    """
    return next(strategy for strategy in _STRATEGIES if strategy.applies(target)).search(target)


class Strategy(Protocol):
    """The search for the least noise of one class of targets."""

    def applies(self, target: CalibrationTarget) -> bool:
        """Return whether the target is of this class."""

    def search(self, target: CalibrationTarget) -> Proposal:
        """Return the plan of least noise for a target of this class. It is not certified yet."""


class PureTarget:
    """Targets at delta 0. The queries share epsilon by their weights."""

    def applies(self, target: CalibrationTarget) -> bool:
        """See `Strategy`."""
        return target.privacy.is_pure

    def search(self, target: CalibrationTarget) -> Proposal:
        """See `Strategy`."""
        return Proposal(target.pure_plan(), PureAccountant())


class PureQueries:
    """Queries that are pure. Their epsilons add up, unless composition admits less noise."""

    def applies(self, target: CalibrationTarget) -> bool:
        """See `Strategy`."""
        return target.example.pure() is not None

    def search(self, target: CalibrationTarget) -> Proposal:
        """See `Strategy`."""
        pure = target.pure_plan()
        bound = (pure.gdp_bound() or 0.0) ** 2
        candidates: list[tuple[float, Accountant]] = [
            (target.largest(accountant, target.gaussian_budget).total, accountant)
            for accountant in (RdpAccountant(), GaussianAccountant())
        ]
        smallest_total = max(bound * _PURE_ADVANTAGE, *(total for total, _ in candidates))
        composed = target.approximate(smallest_total, *_PLD_STAGES)
        if composed.total > smallest_total:
            exact = target.largest(PldAccountant(), composed.total, composed.points)
            candidates.append((exact.total, PldAccountant()))
        if max(total for total, _ in candidates) > bound:
            return target.best(candidates)
        return Proposal(pure, PureAccountant())


class GaussianAnswers:
    """Gaussian answers. Their profile is exact, so they need no search."""

    def applies(self, target: CalibrationTarget) -> bool:
        """See `Strategy`."""
        plan = target.example
        return plan.gdp() is not None and all(curves.pure is None for _, curves in plan.parts())

    def search(self, target: CalibrationTarget) -> Proposal:
        """See `Strategy`."""
        return target.best([(target.gaussian_budget * (1 - _GAUSSIAN_MU_SQUARED_MARGIN), GaussianAccountant())])


class SingleUse:
    """One use of a mechanism with a profile of its own, perhaps beside Gaussian answers."""

    def applies(self, target: CalibrationTarget) -> bool:
        """See `Strategy`."""
        return SingleUseAccountant().profile(target.example) is not None

    def search(self, target: CalibrationTarget) -> Proposal:
        """See `Strategy`."""
        exact, budget = SingleUseAccountant(), target.gaussian_budget
        if target.example.parts()[0][1].delta is not None:
            stage = (_EpsilonByDelta(target.privacy), _COARSE_TOLERANCE)
            return target.best([(target.refined(exact, budget, stage), exact)])
        total = target.largest(exact, budget).total
        composed = target.largest(PldAccountant(), total or budget).total if losses_of(target.example) else 0.0
        return target.best([(composed, PldAccountant()), (total, exact)])


class OtherQueries:
    """All other queries. The best of privacy-loss, Renyi and unsampled Gaussian accounting is used."""

    def applies(self, _target: CalibrationTarget) -> bool:
        """See `Strategy`."""
        return True

    def search(self, target: CalibrationTarget) -> Proposal:
        """See `Strategy`."""
        budget, candidates = target.gaussian_budget, list[tuple[float, Accountant]]()
        total = target.refined(PldAccountant(), budget, *_PLD_STAGES)
        if total > 0:
            candidates.append((total, PldAccountant()))
        quick = RdpAccountant(ORDERS[::6])
        renyi = RdpAccountant()
        if _is_renyi_worthwhile(target, total, quick, renyi):
            candidates.append((target.refined(renyi, total or budget, (quick, _COARSE_TOLERANCE)), renyi))
        # The cost without sampling is always available, and the best bound where the sampling rate is near 1.
        candidates.append((target.largest(GaussianAccountant(), budget).total, GaussianAccountant()))
        return target.best(candidates)


_STRATEGIES: tuple[Strategy, ...] = (PureTarget(), PureQueries(), GaussianAnswers(), SingleUse(), OtherQueries())


def _is_renyi_worthwhile(target: CalibrationTarget, total: float, quick: RdpAccountant, renyi: RdpAccountant) -> bool:
    """Return whether Renyi accounting may admit a larger total than privacy-loss accounting.

    It is searched only if the other search returned nothing, or if it admits what that search returned. All orders
    are evaluated only if that total wastes epsilon, or if a few orders come near the target.
    """
    if total == 0:
        return True
    plan, epsilon = target.plan(total), target.privacy.epsilon
    is_wasteful = target.epsilon(PldAccountant(), plan) < epsilon * _USED_EPSILON_RATIO
    is_contender = is_wasteful or target.epsilon(quick, plan) < epsilon * _RENYI_CONTENDER_RATIO
    return is_contender and target.epsilon(renyi, plan) <= epsilon


def _pure_multiplier(mechanism: Mechanism, epsilon: float, relation: Relation) -> float:
    """Return the z at which one use is epsilon-DP: 2 / epsilon (zero_out: 1 / epsilon), or more if a use costs more."""
    low = high = sensitivity_factor(relation) / epsilon
    while (mechanism.curves(high, relation).pure or 0.0) > epsilon * _DIVISION_ROUNDING:
        low, high = high, high * 2
    while low < high / _DIVISION_ROUNDING:
        middle = (low + high) / 2
        low, high = (middle, high) if (mechanism.curves(middle, relation).pure or 0.0) > epsilon else (low, middle)
    return high
