"""The smallest noise that keeps a plan within a privacy target. It depends on public facts only."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache

from accounting.accountants import ACCOUNTANTS, Accountant
from accounting.divergences.allocation import LARGEST_PORTABLE_EPSILON
from accounting.divergences.few_slots import MOST_FEW_SLOTS
from accounting.errors import CalibrationFailed, OutOfRange, Unsupported
from accounting.mechanisms import RandomAllocation
from accounting.plan import Plan, Query, ReleasePlan
from accounting.privacy import DELTA_RANGE, REPLACE_ONE, Privacy, Relation
from accounting.strategies import CalibrationTarget, EpsilonBound, propose

_TOLERANCE = 2e-4  # relative distance below the target epsilon at which a search ends
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
    """Return the plan of least noise for the target.

    Parameters
    ----------
    tolerance : relative distance below the target epsilon at which the search ends

    Raises
    ------
    OutOfRange
        if there is no query, or two have the same name.
    CalibrationFailed
        if no noise within reach meets the target, or the proposed accountant does not certify the proposed plan.
    """
    if not queries or len({q.name for q in queries}) < len(queries):
        raise OutOfRange("queries must be a non-empty list with distinct names")

    @cache
    def evaluated(accountant: EpsilonBound, plan: Plan) -> float:
        return accountant.epsilon(plan, privacy.delta)

    plan, accountant = propose(CalibrationTarget(queries, privacy, relation, tolerance, evaluated))
    if accountant not in ACCOUNTANTS or not _plans(plan, queries, relation):
        raise CalibrationFailed("the search returned another plan or accountant than calibration may certify")
    epsilon = evaluated(accountant, plan)
    if privacy.is_pure and math.isinf(epsilon):
        raise CalibrationFailed("Gaussian noise needs a delta above 0. Use Laplace noise, or raise delta")
    if not epsilon <= privacy.epsilon:
        raise CalibrationFailed("the accountant did not confirm the noise that the search returned")
    return ReleasePlan(plan, epsilon, privacy.delta, accountant.name, accountant.version)


def _plans(plan: Plan, queries: Sequence[Query], relation: Relation) -> bool:
    """Return whether the plan has exactly these queries under this relation, with any noise."""
    planned = [(q.name, q.count, q.mechanism) for q in plan.queries]
    return plan.relation == relation and planned == [(q.name, q.count, q.mechanism) for q in queries]
