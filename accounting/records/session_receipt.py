"""Receipts of sessions: the plan that was reserved, the uses that a program recorded, and what stays charged.

`build` makes one, and `accounting.records.receipt` signs and verifies it like the receipt of a release. It states no
answer and no model, because the service saw none.
"""

from dataclasses import dataclass
from typing import Literal

from accounting.errors import OutOfRange, ReceiptInvalid
from accounting.records.filters import cost_from_json
from accounting.records.receipt import Facts
from accounting.records.sessions import Certificate, SessionPlan, plan_epsilon, plan_to_json
from accounting.records.statement import ASSERTED, Receipt, check


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd(Facts):
    """The facts of a session that its receipt states.

    Parameters
    ----------
    session : identifier
    title : the analyst's, or None
    plan : all uses that were reserved
    certificate : epsilon of the whole plan alone at the dataset's delta, as it was stated at the reservation
    charged_epsilon : see `charged_epsilon`; None to calculate it, which may take seconds

    The other fields are those of `Facts`. `entry` is the "settled" entry. `share` is the part that stays charged, read
    right after the reservation, or after a refund.
    """

    session: str
    plan: SessionPlan
    certificate: Certificate
    charged_epsilon: float | None = None
    title: str | None = None


def build(end: SessionEnd) -> Receipt:
    """Return the receipt of a session that has ended.

    Raises
    ------
    ReceiptInvalid
        if the entry is not the end of such a session, or a value cannot be stated in a receipt.
    """
    entry, certificate = end.entry, end.certificate
    if entry.kind != "settled" or entry.body.get("session") != end.session:
        raise ReceiptInvalid("entry: it must be the entry that ended the session")
    recorded = entry.body["recorded"]
    try:
        part = end.plan.recorded(recorded)
    except OutOfRange as error:
        raise ReceiptInvalid(str(error)) from error
    planned = zip(plan_to_json(end.plan), recorded, strict=True)
    charged: Literal["plan", "recorded"] = "recorded" if any(cost_from_json(entry.body["refund"])) else "plan"
    epsilon = end.charged_epsilon
    if epsilon is None:
        epsilon = charged_epsilon(certificate, part if charged == "recorded" else end.plan)
    receipt = end.common_fields() | {
        "kind": "session",
        "session": end.session,
        "neighbors": end.plan.relation,
        "state": entry.body["reason"],
        "plan": [planned_event | {"recorded": count} for planned_event, count in planned],
        "asserted": ASSERTED,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "accountant": certificate.accountant,
        "accountant_version": certificate.accountant_version,
        "charged": charged,
        "charged_epsilon": epsilon,
        "issued_at": entry.body["at"],
    }
    optional = {"title": end.title, "share": end.share}
    return check(receipt | {name: value for name, value in optional.items() if value is not None})


def charged_epsilon(certificate: Certificate, charged: SessionPlan) -> float:
    """Return the epsilon of the charged part alone, if the number of its uses had been fixed in advance.

    It is a guarantee only if the answers did not decide when the program stopped. Otherwise it is a gauge, and the
    guarantee is the certificate of the whole plan.
    """
    return min(certificate.epsilon, plan_epsilon(charged, certificate.delta).epsilon)
