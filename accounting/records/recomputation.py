"""Recomputation of a receipt's epsilon from its queries alone."""

import math
from dataclasses import dataclass, replace
from typing import Any

from accounting.accountants import ACCOUNTANTS, Accountant, PldAccountant
from accounting.accountants.tight import VERIFIED_ERROR_SHARE
from accounting.errors import AccountingError, CodecError, ReceiptInvalid
from accounting.mechanisms import Selection
from accounting.plan import Plan
from accounting.privacy import REPLACE_ONE, Unit, sensitivity_factor
from accounting.records import sessions
from accounting.records.codec import plan_from_json
from accounting.records.sessions import SessionPlan, plan_epsilon
from accounting.records.statement import Receipt, check, is_session

# Relative: another processor's elementary functions change epsilon, and the numbers of an event tree, by less.
_PORTABLE_ERROR = 1e-9


@dataclass(frozen=True, slots=True)
class Recomputation:
    """An epsilon that holds for the queries at the stated delta, and the accountant that certifies it.

    `charged_epsilon` is that of the charged part of a session; None for a release.
    """

    epsilon: float
    accountant: str
    charged_epsilon: float | None = None

    def is_within(self, stated: float) -> bool:
        """Return whether the epsilon is at most the stated one, apart from another platform's last digits."""
        return self.epsilon <= stated * (1 + _PORTABLE_ERROR)

    def is_charge_within(self, stated: float) -> bool:
        """Return whether the charged part of a session costs at most the stated epsilon, likewise."""
        return self.charged_epsilon is not None and self.charged_epsilon <= stated * (1 + _PORTABLE_ERROR)


def recompute(receipt: Receipt) -> Recomputation:
    """Return an epsilon that the queries cost at the stated delta, from the queries alone.

    Each accountant bounds epsilon from above, so the first bound within the stated epsilon is returned, or the smallest
    bound if none is within it. Call this only for receipts whose signature holds: forged queries can be made costly to
    account for.

    Raises
    ------
    ReceiptInvalid
        if the receipt is malformed, its event tree is not that of its queries, the queries cannot have run on the
        records that it states, or no accountant covers them.
    """
    if is_session(check(receipt)):
        return _recompute_session_receipt(receipt)
    plan = plan_of(receipt)
    _check_records(receipt, plan)
    for run in _runs(receipt["method"], plan):
        _check_records(receipt, run)
    if not _is_same(receipt["event"], plan.event()):
        raise ReceiptInvalid("event: the queries and the event tree differ, but the tree must follow from the queries")
    best = recompute_plan(plan, receipt["epsilon"], receipt["delta"])
    if best is None:
        raise ReceiptInvalid("queries: no accountant covers these queries at this delta")
    return best


def session_plan_of(receipt: Receipt) -> SessionPlan:
    """Return the plan that a session's receipt states; `ReceiptInvalid` if it is not one or does not fit the records.

    The plan has all uses, whether they were recorded or not.
    """
    planned = [{name: uses[name] for name in ("event", "count")} for uses in receipt["plan"]]
    try:
        plan = sessions.plan_from_json(planned, receipt["neighbors"])
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
    if plan.misfit(*records_of(receipt)) is not None:
        raise ReceiptInvalid("plan: an event assumes another number of records than the receipt states")
    return plan


def _recompute_session_receipt(receipt: Receipt) -> Recomputation:
    """Return the epsilons of the plan and of its charged part."""
    plan, delta = session_plan_of(receipt), receipt["delta"]
    best = recompute_session(plan, receipt["epsilon"], delta)
    if best is None:
        raise ReceiptInvalid("plan: no accountant covers these events at this delta")
    if receipt["charged"] == "plan":
        return replace(best, charged_epsilon=best.epsilon)
    part = recompute_session(plan.recorded([uses["recorded"] for uses in receipt["plan"]]), 0.0, delta, sums_only=True)
    return replace(best, charged_epsilon=min(best.epsilon, part.epsilon) if part else best.epsilon)


def recompute_session(
    plan: SessionPlan, stated: float, delta: float, *, sums_only: bool = False
) -> Recomputation | None:
    """Return an epsilon that a session's plan costs alone at delta: the first bound within `stated`, or the smallest.

    None if no accountant covers the plan at this delta. With `sums_only`, the bound is that of `plan_epsilon`.
    """
    try:
        sums = plan_epsilon(plan, delta)
    except AccountingError:
        return None
    best = Recomputation(sums.epsilon, sums.accountant)
    queries = None if sums_only else plan.queries()
    return best if queries is None else recompute_plan(queries, stated, delta, best)


def recompute_plan(plan: Plan, stated: float, delta: float, best: Recomputation | None = None) -> Recomputation | None:
    """Return the first bound of the accountants within the stated epsilon, or the smallest; None if there is none."""
    verifying = (
        replace(a, error_share=VERIFIED_ERROR_SHARE, earlier=earlier)
        for a in ACCOUNTANTS
        if isinstance(a, PldAccountant)
        for earlier in (False, True)
    )
    for accountant in (*ACCOUNTANTS, *verifying) if plan.queries else ():
        if best is not None and best.is_within(stated):
            break
        epsilon = _certified(accountant, plan, delta)
        if epsilon is not None and (best is None or epsilon < best.epsilon):
            best = Recomputation(epsilon, accountant.name)
    return best


def plan_of(receipt: Receipt) -> Plan:
    """Return the plan of a receipt's queries under its relation. Raise `ReceiptInvalid` if they are not a plan."""
    try:
        own = {"neighbors": receipt["neighbors"]} if receipt["neighbors"] != REPLACE_ONE else {}
        return plan_from_json({"queries": receipt["queries"]} | own)
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error


def _check_records(receipt: Receipt, plan: Plan) -> None:
    """Raise `ReceiptInvalid` unless every mechanism fits the records that the receipt states."""
    n, unit = records_of(receipt)
    misfits = [query.name for query in plan.queries if not query.mechanism.fits(n, unit)]
    if misfits:
        raise ReceiptInvalid(
            f"the query {misfits[0]!r} does not fit the records that the receipt states: their number differs, a batch "
            "or part has less than one record, or the query needs single rows"
        )


def records_of(stated: dict[str, Any]) -> tuple[int, Unit]:
    """Return n and the unit that a receipt states, or the body of a registration; rows if it names no unit."""
    unit = Unit(**stated.get("unit", {}))
    return stated[f"{unit.name}s"], unit


def _runs(method: dict[str, Any], plan: Plan) -> list[Plan]:
    """Return the runs that a selection chose from; empty if there is no selection.

    `ReceiptInvalid` unless they are all runs of the method, and each is (sum mu^2)-GDP within what the selection allows
    for one run. The selection's cost holds for such runs only.
    """
    selections = [query for query in plan.queries if isinstance(query.mechanism, Selection)]
    if not selections and "trials" not in method:
        return []
    try:
        (selection,), repeats = selections, method["repeats"]
        trials = [plan_from_json(trial["plan"]) for trial in method["trials"]]
        costs = [trial.gdp() for trial in trials if trial.relation == plan.relation]
        is_complete = type(repeats) is int and selection.mechanism.answers == repeats * len(costs)
        limit = sensitivity_factor(plan.relation) / selection.noise_multiplier * (1 + _PORTABLE_ERROR)
    except (AccountingError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ReceiptInvalid("method: the receipt does not state every run that the selection chose from") from error
    if not is_complete or any(mu is None or not mu <= limit for mu in costs):
        raise ReceiptInvalid("method: a run costs more than the selection allows, or the number of runs differs")
    return trials


def _is_same(value: Any, derived: Any) -> bool:
    """Return whether both are one JSON value, apart from another platform's last digits of a computed number."""
    if isinstance(derived, dict):
        return (
            isinstance(value, dict)
            and value.keys() == derived.keys()
            and all(_is_same(value[key], part) for key, part in derived.items())
        )
    if isinstance(derived, list):
        return isinstance(value, list) and len(value) == len(derived) and all(map(_is_same, value, derived))
    if isinstance(derived, float):
        return type(value) in (int, float) and math.isclose(value, derived, rel_tol=_PORTABLE_ERROR)
    return type(value) is type(derived) and bool(value == derived)


def _certified(accountant: Accountant, plan: Plan, delta: float) -> float | None:
    """Return the certified epsilon, or None if the accountant does not cover the plan."""
    try:
        epsilon = accountant.epsilon(plan, delta)
    except (AccountingError, ArithmeticError, ValueError):  # multipliers far from those of any plan
        return None
    return epsilon if math.isfinite(epsilon) else None
