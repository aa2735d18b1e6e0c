"""The least noise that keeps a plan within a privacy target; a function of public facts only."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from accounting.accountants import (
    ACCOUNTANTS,
    Accountant,
    GaussianAccountant,
    PldAccountant,
    PureAccountant,
    RdpAccountant,
    SingleUseAccountant,
)
from accounting.accountants.rdp import ORDERS
from accounting.divergences.gaussian import gauss_mu
from accounting.errors import CalibrationFailed, OutOfRange, Unsupported
from accounting.mechanisms import Mechanism
from accounting.plan import MULTIPLIERS, Plan, PlannedQuery, Query, ReleasePlan
from accounting.privacy import Privacy

_CLOSE = 2e-4  # the search stops when epsilon is this close below the target, relatively
_COARSE = 5e-3  # and so close on a coarser grid, where it only looks for a place to begin
_ROUNDS = 24
_NARROW = 1e-6  # a bracket of log mu^2 not worth halving
_MARGIN = 1e-10
_PURE_MARGIN = 2e-9  # two jobs of half a budget fit it: more than a charge is rounded up by, of epsilon 1e-3 too
_ROUNDED = 1 + 1e-15  # what two divisions may be off by
_NEAR = 1.05
_WASTEFUL = 0.97
# Above `_FIRM` a profile in floats may be mostly what it grants to rounding: another processor's last digits moved
# epsilon by .6 % at most. So the noise is for less than what is stated, and a verifier anywhere finds it kept.
_FIRM, _SLACK = 4.0, 0.02


def calibrate(queries: Sequence[Query], privacy: Privacy) -> ReleasePlan:
    """The plan of least noise that some accountant certifies as (epsilon, delta)-DP.

    Every query gets the share weight / (sum of weights) of one total mu^2; each accountant finds the largest total that
    it certifies, and the largest of all wins. Where pure accounting wins, and at delta = 0, the queries share epsilon
    itself by their weights. The result is cached: it depends on its arguments alone.

    Parameters
    ----------
    queries : what will be asked, with distinct names
    privacy : the target

    Raises
    ------
    CalibrationFailed
        if no accountant covers the target (no Gaussian answer can be had at delta = 0).
    """
    if privacy.epsilon <= _FIRM or all(q.mechanism.curves(1.0).delta is None for q in queries):
        return _calibrate(tuple(queries), privacy)
    found = _calibrate(tuple(queries), Privacy(privacy.epsilon / (1 + _SLACK), privacy.delta))
    return replace(found, epsilon=min(found.epsilon * (1 + _SLACK), privacy.epsilon))


@lru_cache(maxsize=4096)
def _calibrate(queries: tuple[Query, ...], privacy: Privacy) -> ReleasePlan:
    if not queries or len({q.name for q in queries}) < len(queries):
        raise OutOfRange("a plan needs queries with distinct names")
    if privacy.is_pure:
        return _confirmed(_pure_plan(queries, privacy), privacy, PureAccountant())
    budget = gauss_mu(privacy.epsilon, privacy.delta) ** 2
    plan = _plan(queries, budget)
    if plan.pure() is not None:
        return _least_of_pure(queries, privacy, budget)
    if plan.gdp() is not None and all(q.mechanism.pure(q.noise_multiplier) is None for q in plan.queries):
        return _certified(queries, privacy, GaussianAccountant(), budget * (1 - _MARGIN))
    exact = SingleUseAccountant()
    if exact.supports(plan, privacy.delta):
        begin = (
            _largest(queries, privacy, _by_delta(privacy), budget, _COARSE) if plan.queries[0].curves.delta else budget
        )
        return _certified(queries, privacy, exact, _largest(queries, privacy, exact.epsilon, begin or budget))
    found: list[tuple[float, Accountant]] = []
    coarse = _largest(queries, privacy, PldAccountant(coarseness=4.0).epsilon, budget, _COARSE)
    total = _largest(queries, privacy, PldAccountant().epsilon, coarse or budget)
    if total > 0:
        found.append((total, PldAccountant()))
    # Renyi accounting is worth its search only where the other left something, or where a few orders come near it
    plan, quick = _plan(queries, total or budget), RdpAccountant(ORDERS[::6])
    left = total == 0 or PldAccountant().epsilon(plan, privacy.delta) < privacy.epsilon * _WASTEFUL
    if left or quick.epsilon(plan, privacy.delta) < privacy.epsilon * _NEAR:
        begin = _largest(queries, privacy, quick.epsilon, total or budget, _COARSE)
        found.append((_largest(queries, privacy, RdpAccountant().epsilon, begin or budget), RdpAccountant()))
    # what the answers would cost without sampling is always there, and best where the rate is near 1
    found.append((_largest(queries, privacy, GaussianAccountant().epsilon, budget), GaussianAccountant()))
    best, accountant = max(found, key=lambda candidate: candidate[0])
    if best == 0:
        raise CalibrationFailed("no noise within reach meets this epsilon and delta for so many queries")
    return _certified(queries, privacy, accountant, best)


def _pure_plan(queries: Sequence[Query], privacy: Privacy) -> Plan:
    """The plan in which the queries share epsilon by their weights."""
    return _shared(queries, privacy.epsilon * (1 - _PURE_MARGIN), _pure_multiplier)


def _pure_multiplier(mechanism: Mechanism, epsilon: float) -> float:
    """The z at which one use is epsilon-DP: 2 / epsilon, or more where one use costs more than that."""
    low = high = 2 / epsilon
    while (mechanism.pure(high) or 0.0) > epsilon * _ROUNDED:
        low, high = high, high * 2
    while low < high / _ROUNDED:
        middle = (low + high) / 2
        low, high = (middle, high) if (mechanism.pure(middle) or 0.0) > epsilon else (low, middle)
    return high


def _shared(queries: Sequence[Query], total: float, multiplier: Callable[[Mechanism, float], float]) -> Plan:
    """The plan in which the queries share a total by their weights, each use of one as much as every other."""
    weights, (least, most) = sum(q.weight for q in queries), MULTIPLIERS
    found = [multiplier(q.mechanism, total * q.weight / weights / q.count) for q in queries]
    return Plan(
        tuple(
            PlannedQuery(q.name, q.count, q.mechanism, min(max(z, least), most))
            for q, z in zip(queries, found, strict=True)
        )
    )


def _least_of_pure(queries: Sequence[Query], privacy: Privacy, budget: float) -> ReleasePlan:
    """At a positive delta: epsilons added up, or, for many answers, what Renyi or Gaussian accounting makes of them."""
    plain = _pure_plan(queries, privacy)
    bound = plain.gdp_bound()
    found: list[tuple[float, Accountant]] = [
        (_largest(queries, privacy, a.epsilon, budget), a) for a in (RdpAccountant(), GaussianAccountant())
    ]
    best, accountant = max(found, key=lambda candidate: candidate[0])
    if bound is not None and best > bound**2:
        return _certified(queries, privacy, accountant, best)
    return _confirmed(plain, privacy, PureAccountant())


def _by_delta(privacy: Privacy) -> Callable[[Plan, float], float]:
    """An epsilon of one use that is about right where it is the target: delta falls like a power of epsilon."""

    def epsilon(plan: Plan, delta: float) -> float:
        profile = plan.queries[0].curves.delta
        return math.inf if profile is None else privacy.epsilon * math.sqrt(profile(privacy.epsilon) / delta)

    return epsilon


def _plan(queries: Sequence[Query], total: float) -> Plan:
    """The plan in which the queries share a total mu^2 by their weights."""
    return _shared(queries, total, lambda mechanism, mu_squared: mechanism.multiplier(mu_squared))


def _largest(
    queries: Sequence[Query],
    privacy: Privacy,
    epsilon: Callable[[Plan, float], float],
    guess: float,
    close: float = _CLOSE,
) -> float:
    """A total mu^2 whose plan stays at or below the target and within `close` of it; 0 if none was found.

    Root finding on f = ln(epsilon / target) over x = ln total, which grows but may jump: beyond a bracket by the last
    slope, inside by regula falsi with a bisection every third round.
    """
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    x, slope = math.log(guess), 0.6
    for round_ in range(_ROUNDS):
        reached = epsilon(_plan(queries, math.exp(x)), privacy.delta)
        f = math.log(reached / privacy.epsilon) if 0 < reached < math.inf else (-math.inf if reached == 0 else math.inf)
        last = low if f > 0 else high
        if f <= 0:
            low = (x, f)
            if f >= math.log1p(-close):
                break
        else:
            high = (x, f)
        if last is not None and math.isfinite(f) and math.isfinite(last[1]):
            slope = min(max((last[1] - f) / (last[0] - x), 0.1), 10.0)
        aim = math.log1p(-close / 2)
        if low is None or high is None:
            step = 1.2 * (aim - f) / slope if math.isfinite(f) else -math.copysign(1.4, f)
            x += min(max(step, -3.0), 3.0)
        elif high[0] - low[0] < _NARROW:
            break
        elif round_ % 3 == 2 or not (math.isfinite(low[1]) and math.isfinite(high[1])):
            x = (low[0] + high[0]) / 2
        else:
            width = high[0] - low[0]
            x = low[0] + width * min(max((aim - low[1]) / (high[1] - low[1]), 0.01), 0.99)
    return 0.0 if low is None else math.exp(low[0])


def _certified(queries: Sequence[Query], privacy: Privacy, accountant: Accountant, total: float) -> ReleasePlan:
    return _confirmed(_plan(queries, total), privacy, accountant)


def _confirmed(plan: Plan, privacy: Privacy, accountant: Accountant) -> ReleasePlan:
    if not accountant.supports(plan, privacy.delta):
        raise CalibrationFailed("delta = 0 needs pure mechanisms; Gaussian noise needs a delta above 0")
    epsilon = accountant.epsilon(plan, privacy.delta)
    if not epsilon <= privacy.epsilon:
        raise CalibrationFailed("the accountant did not confirm the noise it found")
    return ReleasePlan(plan, epsilon, privacy.delta, accountant.name, accountant.version)


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
