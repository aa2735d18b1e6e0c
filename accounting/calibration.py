"""The least noise that keeps a plan within a privacy target; a function of public facts only."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from accounting.accountants import ACCOUNTANTS, Accountant, GaussianAccountant, PldAccountant, RdpAccountant
from accounting.accountants.gaussian import gauss_mu
from accounting.accountants.rdp import ORDERS
from accounting.errors import CalibrationFailed, OutOfRange
from accounting.plan import Plan, PlannedQuery, Query, ReleasePlan
from accounting.privacy import Privacy

_CLOSE = 2e-4  # the search stops when epsilon is this close below the target, relatively
_ROUNDS = 40
_NUDGE = 1e-10
_NEAR = 1.05


def calibrate(queries: Sequence[Query], privacy: Privacy) -> ReleasePlan:
    """The plan of least noise that some accountant certifies as (epsilon, delta)-DP.

    Every query gets the share weight / (sum of weights) of one total mu^2; each accountant finds the largest total that
    it certifies, and the largest of all wins. The result is cached: it depends on its arguments alone.

    Parameters
    ----------
    queries : what will be asked, with distinct names
    privacy : the target

    Raises
    ------
    CalibrationFailed
        if no accountant covers the target (Gaussian answers cannot be had at delta = 0).
    """
    return _calibrate(tuple(queries), privacy)


@lru_cache(maxsize=4096)
def _calibrate(queries: tuple[Query, ...], privacy: Privacy) -> ReleasePlan:
    if not queries or len({q.name for q in queries}) < len(queries):
        raise OutOfRange("a plan needs queries with distinct names")
    if privacy.is_pure:
        raise CalibrationFailed("delta = 0 needs a pure mechanism; these queries are Gaussian")
    budget = gauss_mu(privacy.epsilon, privacy.delta) ** 2
    start = _plan(queries, budget)
    if GaussianAccountant().supports(start, privacy.delta):
        return _certified(queries, privacy, GaussianAccountant(), budget * (1 - _NUDGE))
    candidates: list[tuple[float, Accountant]] = []
    total = budget
    if PldAccountant().supports(start, privacy.delta):
        coarse = _largest(queries, privacy, PldAccountant(coarseness=4.0).epsilon, budget)
        total = _largest(queries, privacy, PldAccountant().epsilon, coarse)
        candidates.append((total, PldAccountant()))
    # Renyi accounting is worth its search only where, on a few of its orders, it comes near what was found
    glance = RdpAccountant(ORDERS[::8])
    if not candidates or glance.epsilon(_plan(queries, total), privacy.delta) < privacy.epsilon * _NEAR:
        candidates.append((_largest(queries, privacy, RdpAccountant().epsilon, total), RdpAccountant()))
    best, accountant = max(candidates, key=lambda c: c[0])
    return _certified(queries, privacy, accountant, best)


def _plan(queries: Sequence[Query], total: float) -> Plan:
    """The plan in which the queries share a total mu^2 by their weights."""
    weights = sum(q.weight for q in queries)
    return Plan(
        tuple(
            PlannedQuery(q.name, q.count, q.mechanism, q.mechanism.multiplier(total * q.weight / weights / q.count))
            for q in queries
        )
    )


def _largest(
    queries: Sequence[Query], privacy: Privacy, epsilon: Callable[[Plan, float], float], guess: float
) -> float:
    """The largest total mu^2 (to 2e-4 of epsilon) whose plan stays at or below the target.

    Secant steps on log total against log epsilon inside a bracket that every evaluation tightens.
    """
    low, high, total, slope = 0.0, math.inf, guess, 0.6
    for _ in range(_ROUNDS):
        reached = epsilon(_plan(queries, total), privacy.delta)
        if reached <= privacy.epsilon:
            low = total
            if reached >= privacy.epsilon * (1 - _CLOSE):
                break
        else:
            high = total
        aim = privacy.epsilon * (1 - _CLOSE / 2)
        step = math.exp(math.log(aim / reached) / slope) if 0 < reached < math.inf else (4.0 if reached == 0 else 0.25)
        proposal = total * min(max(step, 0.1), 10.0)
        if not low < proposal < high:
            proposal = math.sqrt(low * high) if low > 0 and high < math.inf else (total * (0.5 if low == 0 else 2.0))
        total = proposal
    if low == 0.0:
        raise CalibrationFailed("no noise within reach meets this epsilon and delta for so many queries")
    return low


def _certified(queries: Sequence[Query], privacy: Privacy, accountant: Accountant, total: float) -> ReleasePlan:
    plan = _plan(queries, total)
    epsilon = accountant.epsilon(plan, privacy.delta)
    if not epsilon <= privacy.epsilon:
        raise CalibrationFailed("the accountant did not confirm the noise it found")
    return ReleasePlan(plan, epsilon, privacy.delta, accountant.name, accountant.version)


def certify(plan: Plan, delta: float) -> tuple[float, Accountant]:
    """The least epsilon that any accountant certifies for the plan at delta, and which one does."""
    return min(((a.epsilon(plan, delta), a) for a in ACCOUNTANTS if a.supports(plan, delta)), key=lambda pair: pair[0])
