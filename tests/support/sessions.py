"""Sessions on a small ledger: plans, reservations, their ends and their receipts."""

from dataclasses import replace
from typing import Any

from accounting import Privacy, Unit
from accounting.calibration import calibrate
from accounting.filter import Filter
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from accounting.records import receipt
from accounting.records.chain import Entry
from accounting.records.events import LedgerEvent, Opened, Reserved, Settled
from accounting.records.ledger import LedgerState, share
from accounting.records.outside import event_from_json
from accounting.records.session_receipt import SessionEnd, build
from accounting.records.sessions import Certificate, SessionPlan, plan_epsilon, plan_to_json, refund
from accounting.records.signing import sign_json
from tests.support.chains import ledger_of
from tests.support.receipts import KEY

N = 20_000
RULE = Filter.open("gdp_rdp", Privacy(3.0, 1e-6))
PURE_RULE = Filter.open("pure", Privacy(3.0))
GAUSSIAN: dict[str, Any] = {"type": "GaussianDpEvent", "noise_multiplier": 20.0}
LAPLACE: dict[str, Any] = {"type": "LaplaceDpEvent", "noise_multiplier": 50.0}
PURE: dict[str, Any] = {"type": "EpsilonDeltaDpEvent", "epsilon": 0.1, "delta": 0.0}
SAMPLED: dict[str, Any] = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": GAUSSIAN}
DRAWN: dict[str, Any] = {
    "type": "SampledWithoutReplacementDpEvent",
    "source_dataset_size": 1000,
    "sample_size": 10,
    "event": GAUSSIAN,
}
ALLOCATED: dict[str, Any] = {
    "type": "RandomAllocationDpEvent",
    "rate": 1.0,
    "slots": 50,
    "form": "ordered",
    "event": GAUSSIAN,
}


def many(event: dict[str, Any], count: int) -> dict[str, Any]:
    return {"type": "SelfComposedDpEvent", "event": event, "count": count}


def plan(*documents: dict[str, Any], relation: Any = "replace_one") -> SessionPlan:
    return SessionPlan.of([event_from_json(document) for document in documents], relation)


def reserved(
    ours: Filter, planned: SessionPlan, name: str = "s1", guarantee: Privacy | None = None, dataset: str = "d1"
) -> Reserved:
    cost = ours.cost(planned)
    return Reserved(name, dataset, "ada", plan_to_json(planned), cost, guarantee, "2026-01-03T03:04:05Z")


def settled(ours: Filter, planned: SessionPlan, recorded: list[int], name: str = "s1", whole: bool = False) -> Settled:
    returned = refund(ours, ours.cost(planned), planned, recorded, whole=whole)
    return Settled(name, recorded, returned, whole, "closed")


def run(
    ours: Filter, *events: LedgerEvent, records: int = N, relation: Any = "replace_one"
) -> tuple[LedgerState, list[Entry]]:
    return ledger_of(Opened("d1", records, ours, neighbors=relation), *events)


def ended_session(
    ours: Filter, planned: SessionPlan, recorded: list[int], *, expired: bool = False, **change: Any
) -> tuple[receipt.Receipt, list[Entry]]:
    """Return the receipt of a session that reserved, recorded and ended, and its ledger."""
    end = settled(ours, planned, recorded)
    if expired:
        end = replace(end, refund=ours.zero_cost, reason="expired")
    state, entries = run(ours, reserved(ours, planned), end, relation=planned.relation)
    facts: dict[str, Any] = {
        "id": "r1",
        "dataset": "d1",
        "dataset_name": "Cens\u00fcs\u00a02026",
        "records": N,
        "unit": Unit(),
        "analyst": "ada",
        "session": "s1",
        "plan": planned,
        "certificate": plan_epsilon(planned, ours.privacy.delta),
        "entry": entries[-1],
        "title": "Training on our cluster",
        "share": share(state, state.spent),
    }
    return build(SessionEnd(**facts | change)), entries


def signed(stated: receipt.Receipt) -> dict[str, Any]:
    return {"receipt": stated, "signature": sign_json(stated, KEY)}


RELEASE = calibrate([Query("answers", 50, PoissonGaussian(0.5))], Privacy(3.0, 1e-6))
TARGETED = plan(RELEASE.plan.event())
CERTIFICATE = Certificate(RELEASE.epsilon, RELEASE.delta, RELEASE.accountant, RELEASE.accountant_version)
