"""The least noise that keeps a plan within a privacy target; a function of public facts only."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from accounting.accountants import (
    ACCOUNTANTS,
    Accountant,
    GaussianAccountant,
    PldAccountant,
    PureAccountant,
    RdpAccountant,
    RoughPld,
    SingleUseAccountant,
)
from accounting.accountants.rdp import ORDERS
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import CalibrationFailed, OutOfRange, Unsupported
from accounting.mechanisms import Mechanism
from accounting.plan import MULTIPLIERS, Plan, PlannedQuery, Query, ReleasePlan
from accounting.privacy import DELTA_RANGE, REPLACE_ONE, Privacy, Relation, sensitivity_factor
from accounting.search import Found, Point, largest

_CLOSE = 2e-4  # the search stops when epsilon is this close below the target, relatively
_COARSE = 0.1  # and so close on a coarser grid, where it only looks for a place to begin
_BEGUN = 4e-3  # and on as fine a grid, by what is near to what certifies: where the slope then leads is close
_COARSENESS = 2.0
_MARGIN = 1e-10
_PURE_MARGIN = 2e-9  # two jobs of half a budget fit it: more than a charge is rounded up by, of epsilon 1e-3 too
_ROUNDED = 1 + 1e-15  # what two divisions may be off by
_NEAR = 1.05
_WASTEFUL = 0.97
# Above `_FIRM` a profile in floats may be mostly what it grants to rounding: another processor's last digits moved
# epsilon by .6 % at most. So the noise is for less than what is stated, and a verifier anywhere finds it kept. A search
# is dearest there, and may end `_FREE` below that: (1 - _FREE) / (1 + _SLACK) is (1 - _CLOSE) / 1.02 at least.
_FIRM, _SLACK, _FREE = 4.0, 0.0198, 3.96e-4
# A search may end where a bound jumps: one that is a little larger on another processor would jump past the slack. If
# bounds larger by this factor do, the noise is for a delta that is smaller by it.
_UNSURE = 1.1


def calibrate(queries: Sequence[Query], privacy: Privacy, relation: Relation = REPLACE_ONE) -> ReleasePlan:
    """The plan of least noise that some accountant certifies as (epsilon, delta)-DP.

    Every query gets the share weight / (sum of weights) of one total mu^2; each accountant finds the largest total that
    it certifies, and the largest of all wins. Where pure accounting wins, and at delta = 0, the queries share epsilon
    itself by their weights. The result is cached: it depends on its arguments alone.

    Parameters
    ----------
    queries : what will be asked, with distinct names
    privacy, relation : the target, and between which neighbors

    Raises
    ------
    CalibrationFailed
        if no accountant covers the target (no Gaussian answer can be had at delta = 0).
    """
    if privacy.epsilon <= _FIRM or all(q.mechanism.curves(1.0).delta is None for q in queries):
        return _calibrate(tuple(queries), privacy, relation)
    target = Privacy(privacy.epsilon / (1 + _SLACK), privacy.delta)
    strict = replace(target, delta=max(privacy.delta / _UNSURE, DELTA_RANGE[0]))
    found = _calibrate(tuple(queries), target, relation, _FREE)
    if certify(found.plan, strict.delta)[0] > min(found.epsilon * (1 + _SLACK), privacy.epsilon):
        found = _calibrate(tuple(queries), strict, relation, _FREE)
    return replace(found, epsilon=min(found.epsilon * (1 + _SLACK), privacy.epsilon), delta=privacy.delta)


@lru_cache(maxsize=4096)
def _calibrate(queries: tuple[Query, ...], privacy: Privacy, relation: Relation, close: float = _CLOSE) -> ReleasePlan:
    if not queries or len({q.name for q in queries}) < len(queries):
        raise OutOfRange("a plan needs queries with distinct names")
    search = _Search(queries, privacy, relation, close)
    if privacy.is_pure:
        return search.confirmed(PureAccountant(), search.pure())
    budget = gauss_mu(privacy.epsilon, privacy.delta) ** 2
    plan = search.plan(budget)
    if plan.pure() is not None:
        return _least_of_pure(search, budget)
    if plan.gdp() is not None and all(curves.pure is None for _, curves in plan.parts()):
        return search.certified(GaussianAccountant(), budget * (1 - _MARGIN))
    exact = SingleUseAccountant()
    if exact.supports(plan, privacy.delta):
        if plan.parts()[0][1].delta is None:
            return search.certified(exact, search.largest(exact, budget).total)
        return search.certified(exact, search.refined(exact, budget, (_ByDelta(privacy), _COARSE)))
    found: list[tuple[float, Accountant]] = []
    total = search.refined(PldAccountant(), budget, (RoughPld(_COARSENESS), _COARSE), (RoughPld(1.0), _BEGUN))
    if total > 0:
        found.append((total, PldAccountant()))
    # Renyi accounting is worth its search only where the other found nothing, or where it admits what the other found:
    # all orders are asked where that left something, or where a few of them come near it
    plan, quick, renyi = search.plan(total or budget), RdpAccountant(ORDERS[::6]), RdpAccountant()
    left = total == 0 or search.epsilon(PldAccountant(), plan) < privacy.epsilon * _WASTEFUL
    near = left or search.epsilon(quick, plan) < privacy.epsilon * _NEAR
    if total == 0 or (near and search.epsilon(renyi, plan) <= privacy.epsilon):
        found.append((search.refined(renyi, total or budget, (quick, _COARSE)), renyi))
    # what the answers would cost without sampling is always there, and best where the rate is near 1
    found.append((search.largest(GaussianAccountant(), budget).total, GaussianAccountant()))
    best, accountant = max(found, key=lambda candidate: candidate[0])
    return search.certified(accountant, best)


def _pure_multiplier(mechanism: Mechanism, epsilon: float, relation: Relation) -> float:
    """The z at which one use is epsilon-DP: 2 / epsilon (zero_out: 1 / epsilon), or more where one use costs more."""
    low = high = sensitivity_factor(relation) / epsilon
    while (mechanism.curves(high, relation).pure or 0.0) > epsilon * _ROUNDED:
        low, high = high, high * 2
    while low < high / _ROUNDED:
        middle = (low + high) / 2
        low, high = (middle, high) if (mechanism.curves(middle, relation).pure or 0.0) > epsilon else (low, middle)
    return high


def _least_of_pure(search: "_Search", budget: float) -> ReleasePlan:
    """At a positive delta: epsilons added up, or, for many answers, what Renyi or Gaussian accounting makes of them."""
    plain = search.pure()
    bound = plain.gdp_bound()
    found: list[tuple[float, Accountant]] = [
        (search.largest(a, budget).total, a) for a in (RdpAccountant(), GaussianAccountant())
    ]
    best, accountant = max(found, key=lambda candidate: candidate[0])
    if bound is not None and best > bound**2:
        return search.certified(accountant, best)
    return search.confirmed(PureAccountant(), plain)


@dataclass(frozen=True, slots=True)
class _ByDelta:
    """An epsilon of one use that is about right where it is the target: delta falls like a power of epsilon."""

    privacy: Privacy

    def epsilon(self, plan: Plan, delta: float) -> float:
        """By what delta is at the target's epsilon."""
        target, profile = self.privacy.epsilon, plan.parts()[0][1].delta
        return math.inf if profile is None else target * math.sqrt(profile(target) / delta)


class _Epsilon(Protocol):
    """What may be asked in a search."""

    def __hash__(self) -> int: ...

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The plan's epsilon at delta."""
        ...


@dataclass(frozen=True, slots=True)
class _Search:
    """The largest total mu^2 that an accountant finds within the target; what it was asked before is not asked again.

    Parameters
    ----------
    close : how near below the target it stops, relatively
    known : epsilons, by accountant and plan
    """

    queries: tuple[Query, ...]
    privacy: Privacy
    relation: Relation
    close: float
    known: dict[tuple[_Epsilon, Plan], float] = field(default_factory=dict)

    def plan(self, total: float) -> Plan:
        """The plan in which the queries share a total mu^2 by their weights."""
        return self._shared(total, lambda mechanism, mu_squared: mechanism.multiplier(mu_squared, self.relation))

    def pure(self) -> Plan:
        """The plan in which they share epsilon itself."""
        total = self.privacy.epsilon * (1 - _PURE_MARGIN)
        return self._shared(total, lambda mechanism, epsilon: _pure_multiplier(mechanism, epsilon, self.relation))

    def epsilon(self, accountant: _Epsilon, plan: Plan) -> float:
        """What the accountant says of the plan at the target's delta."""
        asked = (accountant, plan)
        if asked not in self.known:
            self.known[asked] = accountant.epsilon(plan, self.privacy.delta)
        return self.known[asked]

    def largest(self, accountant: _Epsilon, guess: float, like: Sequence[Point] = ()) -> Found:
        """A total mu^2 whose plan stays at or below the target and close to it; 0 if none was found."""
        return largest(self._share(accountant), guess, self.close, like)

    def refined(self, accountant: _Epsilon, guess: float, *rough: tuple[_Epsilon, float]) -> float:
        """The same, from where the last of these has the total, each as close as it says and from the one before it."""
        found = Found(0.0, ())
        for way, close in rough:
            like = found.points if found.total else ()
            found = largest(self._share(way), found.total or guess, close, like, rough=True)
        return self.largest(accountant, found.total or guess, found.points if found.total else ()).total

    def _share(self, accountant: _Epsilon) -> Callable[[float], float]:
        return lambda total: self.epsilon(accountant, self.plan(total)) / self.privacy.epsilon

    def certified(self, accountant: Accountant, total: float) -> ReleasePlan:
        """The plan of that total, as the accountant certifies it; `CalibrationFailed` if that is 0 or it does not."""
        if total == 0:
            raise CalibrationFailed("no noise within reach meets this epsilon and delta for so many queries")
        return self.confirmed(accountant, self.plan(total))

    def confirmed(self, accountant: Accountant, plan: Plan) -> ReleasePlan:
        """The plan with the accountant's epsilon; `CalibrationFailed` if that is not within the target."""
        delta = self.privacy.delta
        if not accountant.supports(plan, delta):
            raise CalibrationFailed("delta = 0 needs pure mechanisms; Gaussian noise needs a delta above 0")
        epsilon = self.epsilon(accountant, plan)
        if not epsilon <= self.privacy.epsilon:
            raise CalibrationFailed("the accountant did not confirm the noise it found")
        return ReleasePlan(plan, epsilon, delta, accountant.name, accountant.version)

    def _shared(self, total: float, multiplier: Callable[[Mechanism, float], float]) -> Plan:
        """The plan in which the queries share a total by their weights, each use of one as much as every other."""
        weights, (least, most) = sum(q.weight for q in self.queries), MULTIPLIERS
        planned = []
        for q in self.queries:
            z = multiplier(q.mechanism, total * q.weight / weights / q.count)
            planned.append(PlannedQuery(q.name, q.count, q.mechanism, min(max(z, least), most)))
        return Plan(tuple(planned), self.relation)


def certify(plan: Plan, delta: float) -> tuple[float, Accountant]:
    """The least epsilon that any accountant certifies for the plan at delta, and which one does.

    Raises
    ------
    Unsupported
        if none does: an empty plan, or delta = 0 where an answer is Gaussian.
    """
    found = [(a.epsilon(plan, delta), a) for a in ACCOUNTANTS if a.supports(plan, delta)]
    if not found:
        raise Unsupported("no accountant covers this plan at this delta")
    return min(found, key=lambda pair: pair[0])
