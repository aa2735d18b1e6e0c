"""The smallest noise that keeps a plan within a privacy target. It depends on public facts only."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

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
from accounting.accountants.tight import losses_of
from accounting.divergences.allocation import LARGEST_PORTABLE_EPSILON
from accounting.divergences.few_slots import MOST_FEW_SLOTS
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import CalibrationFailed, OutOfRange, Unsupported
from accounting.mechanisms import Mechanism, RandomAllocation
from accounting.plan import MULTIPLIERS, Plan, PlannedQuery, Query, ReleasePlan
from accounting.privacy import DELTA_RANGE, REPLACE_ONE, Privacy, Relation, sensitivity_factor
from accounting.search import Point, SearchResult, largest

# Relative tolerances of epsilon below the target at which a search ends: the last stage, a stage on a coarse grid, and
# a stage on the fine grid with an approximate accountant.
_TOLERANCE = 2e-4
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
# Above `LARGEST_PORTABLE_EPSILON`, another processor may compute another epsilon. So the noise is calibrated for
# 1 / (1 + _PORTABILITY_MARGIN) of the stated epsilon, and every verifier confirms it. These searches are the most
# expensive, so they end at a larger tolerance. It keeps (1 - _PORTABLE_TOLERANCE) / (1 + _PORTABILITY_MARGIN) at or
# above (1 - _TOLERANCE) / 1.02.
_PORTABILITY_MARGIN = 0.0198
_PORTABLE_TOLERANCE = 3.96e-4
# A search may end where a bound jumps, and a bound that is slightly larger on another processor could jump past the
# margin. If the plan exceeds the target at delta divided by this factor, the noise is calibrated for that delta.
_DELTA_MARGIN_FACTOR = 1.1


def calibrate(queries: Sequence[Query], privacy: Privacy, relation: Relation = REPLACE_ONE) -> ReleasePlan:
    """Return the plan of least noise that some accountant certifies as (epsilon, delta)-DP.

    Each query gets the share weight / (sum of weights) of one total mu^2. The largest total that an accountant
    certifies wins. Under pure accounting, and at delta = 0, the queries share epsilon by their weights instead. The
    result is cached, since it depends on the arguments alone.

    Parameters
    ----------
    queries : the planned queries, with distinct names
    privacy : the target
    relation : the neighbors

    Raises
    ------
    CalibrationFailed
        if no accountant covers the target, such as a Gaussian answer at delta = 0.
    """
    portable = math.inf if _is_portable(queries) else LARGEST_PORTABLE_EPSILON
    if privacy.epsilon <= portable * (1 + _PORTABILITY_MARGIN):
        return plan_of_least_noise(tuple(queries), replace(privacy, epsilon=min(privacy.epsilon, portable)), relation)
    target = Privacy(privacy.epsilon / (1 + _PORTABILITY_MARGIN), privacy.delta)
    strict = replace(target, delta=max(privacy.delta / _DELTA_MARGIN_FACTOR, DELTA_RANGE[0]))
    release = plan_of_least_noise(tuple(queries), target, relation, _PORTABLE_TOLERANCE)
    if not _is_certified(release.plan, strict.delta, min(release.epsilon * (1 + _PORTABILITY_MARGIN), privacy.epsilon)):
        release = plan_of_least_noise(tuple(queries), strict, relation, _PORTABLE_TOLERANCE)
    stated = min(release.epsilon * (1 + _PORTABILITY_MARGIN), privacy.epsilon)
    return replace(release, epsilon=stated, delta=privacy.delta)


def certify(plan: Plan, delta: float) -> tuple[float, Accountant]:
    """Return the smallest epsilon that an accountant certifies for the plan at delta, and that accountant.

    Raises
    ------
    Unsupported
        if the plan is empty, if delta is negative or NaN, if delta is 0 and an answer has Gaussian noise, or if the
        noise is so small that no accountant has a finite epsilon.
    """
    certificates = [(a.epsilon(plan, delta), a) for a in ACCOUNTANTS if plan.queries and delta >= 0]
    epsilon, accountant = min(certificates, key=lambda certificate: certificate[0], default=(math.inf, ACCOUNTANTS[0]))
    if math.isinf(epsilon):
        raise Unsupported(
            "no accountant has a finite epsilon for this plan and delta. A plan needs a query, delta must be at least "
            "0, and Gaussian noise needs a positive delta. If all this holds, use more noise"
        )
    return epsilon, accountant


def _is_certified(plan: Plan, delta: float, epsilon: float) -> bool:
    """Return whether an accountant certifies the plan at epsilon and delta."""
    return any(a.epsilon(plan, delta) <= epsilon for a in ACCOUNTANTS if plan.queries)


def _is_portable(queries: Sequence[Query]) -> bool:
    """Return whether the plan's epsilon does not depend on the processor, except for last digits.

    Among random allocations, the epsilon of one use of a few slots does not.
    """
    mechanisms = [q.mechanism for q in queries]
    if sum(q.count for q in queries) == 1 and isinstance(mechanisms[0], RandomAllocation):
        return mechanisms[0].slots <= MOST_FEW_SLOTS
    return all(mechanism.curves(1.0).delta is None for mechanism in mechanisms)


@lru_cache(maxsize=4096)
def plan_of_least_noise(
    queries: tuple[Query, ...], privacy: Privacy, relation: Relation, tolerance: float = _TOLERANCE
) -> ReleasePlan:
    """Return the plan of least noise for the target."""
    if not queries or len({q.name for q in queries}) < len(queries):
        raise OutOfRange("queries must be a non-empty list with distinct names")
    target = _Target(queries, privacy, relation, tolerance)
    if privacy.is_pure:
        return target.confirmed(PureAccountant(), target.pure_plan())
    return _search(target)


@dataclass(frozen=True, slots=True)
class _EpsilonByDelta:
    """An approximate epsilon of one use, from its delta at the target epsilon; exact if the result is the target."""

    privacy: Privacy

    def epsilon(self, plan: Plan, delta: float) -> float:
        """Return target epsilon * sqrt(delta at that epsilon / delta), as if delta fell like epsilon^-2."""
        target, profile = self.privacy.epsilon, plan.parts()[0][1].delta
        return math.inf if profile is None else target * math.sqrt(profile(target, delta) / delta)


_EpsilonBound = Accountant | RoughPld | _EpsilonByDelta


@dataclass(frozen=True, slots=True)
class _Target:
    """The queries and the privacy target of one calibration, with a cache of evaluated epsilons.

    Parameters
    ----------
    queries, privacy, relation : as for `calibrate`
    tolerance : relative distance below the target epsilon at which a search ends
    epsilons : evaluated epsilons, by accountant and plan
    """

    queries: tuple[Query, ...]
    privacy: Privacy
    relation: Relation
    tolerance: float
    epsilons: dict[tuple[_EpsilonBound, Plan], float] = field(default_factory=dict)

    @property
    def gaussian_budget(self) -> float:
        """The largest mu^2 of Gaussian answers within the target."""
        return gauss_mu(self.privacy.epsilon, self.privacy.delta) ** 2

    def plan(self, total: float) -> Plan:
        """Return the plan in which the queries share a total mu^2 by their weights."""
        return self._shared(total, lambda mechanism, mu_squared: mechanism.multiplier(mu_squared, self.relation))

    def pure_plan(self) -> Plan:
        """Return the plan in which the queries share epsilon by their weights."""
        total = self.privacy.epsilon * (1 - _PURE_EPSILON_MARGIN)
        return self._shared(total, lambda mechanism, epsilon: _pure_multiplier(mechanism, epsilon, self.relation))

    def epsilon(self, accountant: _EpsilonBound, plan: Plan) -> float:
        """Return the accountant's epsilon for the plan at the target's delta."""
        key = (accountant, plan)
        if key not in self.epsilons:
            self.epsilons[key] = accountant.epsilon(plan, self.privacy.delta)
        return self.epsilons[key]

    def largest(self, accountant: _EpsilonBound, guess: float, hints: Sequence[Point] = ()) -> SearchResult:
        """Return a total mu^2 whose plan is within the target and close to it, or 0 if there is none."""
        return largest(self._share(accountant), guess, self.tolerance, hints)

    def refined(self, accountant: _EpsilonBound, guess: float, *stages: tuple[_EpsilonBound, float]) -> float:
        """Return a total as `largest` does, with a search that begins at the result of cheaper stages.

        Parameters
        ----------
        stages : an approximate accountant and its relative tolerance; each stage begins where the one before it ended
        """
        result = self.approximate(guess, *stages)
        return self.largest(accountant, result.total or guess, result.points if result.total else ()).total

    def approximate(self, guess: float, *stages: tuple[_EpsilonBound, float]) -> SearchResult:
        """Return the result of the last of these stages; it is approximate, and not a bound."""
        result = SearchResult(0.0, ())
        for approximate, tolerance in stages:
            hints = result.points if result.total else ()
            result = largest(self._share(approximate), result.total or guess, tolerance, hints, rough=True)
        return result

    def certified(self, accountant: Accountant, total: float) -> ReleasePlan:
        """Return the plan of a total with its certificate; `CalibrationFailed` if the total is 0 or not confirmed."""
        if total == 0:
            raise CalibrationFailed(
                "no noise within reach meets this epsilon and delta for so many queries. Raise epsilon, or plan fewer"
            )
        return self.confirmed(accountant, self.plan(total))

    def confirmed(self, accountant: Accountant, plan: Plan) -> ReleasePlan:
        """Return the plan with its certificate; `CalibrationFailed` if the accountant's epsilon exceeds the target."""
        epsilon = self.epsilon(accountant, plan)
        if self.privacy.is_pure and math.isinf(epsilon):
            raise CalibrationFailed("Gaussian noise needs a delta above 0. Use Laplace noise, or raise delta")
        if not epsilon <= self.privacy.epsilon:
            raise CalibrationFailed("the accountant did not confirm the noise that the search returned")
        return ReleasePlan(plan, epsilon, self.privacy.delta, accountant.name, accountant.version)

    def _share(self, accountant: _EpsilonBound) -> Callable[[float], float]:
        return lambda total: self.epsilon(accountant, self.plan(total)) / self.privacy.epsilon

    def _shared(self, total: float, multiplier: Callable[[Mechanism, float], float]) -> Plan:
        """Return the plan in which the queries share a total by weight, and the uses of a query share it equally."""
        weights, (smallest, largest_multiplier) = sum(q.weight for q in self.queries), MULTIPLIERS
        planned = []
        for q in self.queries:
            z = multiplier(q.mechanism, total * q.weight / weights / q.count)
            planned.append(PlannedQuery(q.name, q.count, q.mechanism, min(max(z, smallest), largest_multiplier)))
        return Plan(tuple(planned), self.relation)


def _search(target: _Target) -> ReleasePlan:
    """Return the certified plan of least noise at a positive delta, by the search for the class of the plan."""
    plan = target.plan(target.gaussian_budget)  # its class does not depend on its noise multipliers
    if plan.pure() is not None:
        return _search_pure(target)
    if plan.gdp() is not None and all(curves.pure is None for _, curves in plan.parts()):
        # The profile of Gaussian answers is exact, so they need no search.
        return target.certified(GaussianAccountant(), target.gaussian_budget * (1 - _GAUSSIAN_MU_SQUARED_MARGIN))
    if SingleUseAccountant().profile(plan) is not None:
        return _search_single_use(target, plan)
    return _search_sampled(target)


def _search_pure(target: _Target) -> ReleasePlan:
    """Return the plan of pure queries: their epsilons add up, unless composition admits less noise."""
    pure = target.pure_plan()
    bound = pure.gdp_bound() or 0.0
    candidates: list[tuple[float, Accountant]] = [
        (target.largest(accountant, target.gaussian_budget).total, accountant)
        for accountant in (RdpAccountant(), GaussianAccountant())
    ]
    total, accountant = _best(candidates)
    smallest_total = max(total, bound**2 * _PURE_ADVANTAGE)
    composed = target.approximate(smallest_total, *_PLD_STAGES)
    if composed.total > smallest_total:
        exact = target.largest(PldAccountant(), composed.total, composed.points)
        total, accountant = _best([*candidates, (exact.total, PldAccountant())])
    if total > bound**2:
        return target.certified(accountant, total)
    return target.confirmed(PureAccountant(), pure)


def _search_single_use(target: _Target, plan: Plan) -> ReleasePlan:
    """Return the plan of one use of a mechanism with a profile of its own, perhaps beside Gaussian answers."""
    exact, budget = SingleUseAccountant(), target.gaussian_budget
    if plan.parts()[0][1].delta is None:
        total = target.largest(exact, budget).total
        composed = target.largest(PldAccountant(), total or budget).total if losses_of(plan) else 0.0
        total, accountant = _best([(composed, PldAccountant()), (total, exact)])
        return target.certified(accountant, total)
    return target.certified(exact, target.refined(exact, budget, (_EpsilonByDelta(target.privacy), _COARSE_TOLERANCE)))


def _search_sampled(target: _Target) -> ReleasePlan:
    """Return the best plan by privacy-loss, Renyi and unsampled Gaussian accounting, for all other queries."""
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
    total, accountant = _best(candidates)
    return target.certified(accountant, total)


def _is_renyi_worthwhile(target: _Target, total: float, quick: RdpAccountant, renyi: RdpAccountant) -> bool:
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


def _best(candidates: Iterable[tuple[float, Accountant]]) -> tuple[float, Accountant]:
    """Return the first candidate with the largest total."""
    return max(candidates, key=lambda candidate: candidate[0])


def _pure_multiplier(mechanism: Mechanism, epsilon: float, relation: Relation) -> float:
    """Return the z at which one use is epsilon-DP: 2 / epsilon (zero_out: 1 / epsilon), or more if a use costs more."""
    low = high = sensitivity_factor(relation) / epsilon
    while (mechanism.curves(high, relation).pure or 0.0) > epsilon * _DIVISION_ROUNDING:
        low, high = high, high * 2
    while low < high / _DIVISION_ROUNDING:
        middle = (low + high) / 2
        low, high = (middle, high) if (mechanism.curves(middle, relation).pure or 0.0) > epsilon else (low, middle)
    return high
