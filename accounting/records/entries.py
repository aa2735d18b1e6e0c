"""Ledger events to and from the kind and body of an entry."""

from dataclasses import asdict, fields
from typing import Any, Literal, assert_never, get_args

from accounting.errors import LedgerInvalid
from accounting.privacy import Privacy, Relation, Unit
from accounting.records import events
from accounting.records.chain import Entry, Head
from accounting.records.documents import number, text
from accounting.records.filters import cost_from_json, cost_to_json, filter_from_json, filter_to_json

_NAMES = ("analyst", "dataset", "method")  # of a charge, if they were recorded
_RESERVED_NAMES = ("session", "dataset", "analyst", "expires_at")
# The body of an entry of such an event has the fields of the event.
_PlainEvent = events.Renamed | events.SessionRule | events.Started | events.Released | events.Failed | events.Cancelled
EntryKind = Literal[
    "opened",
    "joined",
    "promised",
    "frozen",
    "unfrozen",
    "renamed",
    "session_rule",
    "deleted",
    "withdrawn",
    "external",
    "rolled_back",
    "charged",
    "started",
    "refunded",
    "released",
    "failed",
    "cancelled",
    "reserved",
    "settled",
]
_PLAIN: dict[EntryKind, type[_PlainEvent]] = {
    "renamed": events.Renamed,
    "session_rule": events.SessionRule,
    "started": events.Started,
    "released": events.Released,
    "failed": events.Failed,
    "cancelled": events.Cancelled,
}


def record(event: events.LedgerEvent, whole: bool) -> tuple[EntryKind, dict[str, Any]]:
    """Return the kind and body of the event's entry; `whole` if a charge took the whole budget."""
    match event:
        case events.Opened(dataset=dataset, filter=rule, family=family, neighbors=neighbors):
            body = {"dataset": dataset, "neighbors": neighbors, "filter": filter_to_json(rule), **_registered(event)}
            return "opened", body if family is None else body | {"family": family}
        case events.Joined(dataset=dataset, by=by):
            return "joined", {"dataset": dataset, "by": by, **_registered(event)}
        case events.Promised(filter=rule, by=by):
            return "promised", {"filter": filter_to_json(rule), "by": by}
        case events.Frozen(is_frozen=is_frozen, by=by):
            return "frozen" if is_frozen else "unfrozen", {"by": by}
        case events.Emptied(dataset=dataset, withdrawn=withdrawn, by=by):
            return "withdrawn" if withdrawn else "deleted", {"dataset": dataset, "by": by}
        case events.External(cost=cost):
            named = {name: getattr(event, name) for name in ("dataset", "label", "event", "exceeds", "by")}
            return "external", named | {"cost": cost_to_json(cost)}
        case events.RolledBack(reason=reason, lacks=head):
            return "rolled_back", {"reason": text(reason, "reason")} | ({} if head is None else {"lacks": str(head)})
        case events.Charged(job=job, cost=cost, guarantee=own):
            body = {"job": job, "cost": cost_to_json(cost), "epsilon": own.epsilon, "delta": own.delta, "whole": whole}
            names = {name: getattr(event, name) for name in (*_NAMES, "spec_sha256")}
            body |= {name: text(value, name) for name, value in names.items() if value is not None}
            return "charged", body if event.share is None else body | {"share": event.share}
        case events.Refunded(job=job, cost=cost, whole=refund_whole):
            return "refunded", {"job": job, "cost": cost_to_json(cost), "whole": refund_whole}
        case events.Reserved(cost=cost, guarantee=certified):
            names = {name: text(getattr(event, name), name) for name in _RESERVED_NAMES}
            body = names | {"plan": event.plan, "cost": cost_to_json(cost), "whole": whole}
            body |= {} if certified is None else {"epsilon": certified.epsilon, "delta": certified.delta}
            return "reserved", body if event.share is None else body | {"share": event.share}
        case events.Settled(session=session, refund=returned):
            named = {name: getattr(event, name) for name in ("recorded", "whole", "reason")}
            return "settled", {"session": session, "refund": cost_to_json(returned), **named}
        case (
            events.Renamed()
            | events.SessionRule()
            | events.Started()
            | events.Released()
            | events.Failed()
            | events.Cancelled()
        ):
            return next(kind for kind, cls in _PLAIN.items() if isinstance(event, cls)), asdict(event)
        case _:
            assert_never(event)


def event_of(entry: Entry) -> events.LedgerEvent:
    """Return the event that an entry records. Its content is checked when the ledger advances by it again."""
    body = entry.body
    match entry.kind:
        case "opened":
            n, unit = _count(body)
            rule = filter_from_json(body["filter"])
            sha256, session_rule = _declaration(body)
            family = body.get("family")
            neighbors = _neighbors(body)
            return events.Opened(body["dataset"], n, rule, family, unit, neighbors, sha256, session_rule)
        case "joined":
            n, unit = _count(body)
            return events.Joined(body["dataset"], n, body["by"], unit, *_declaration(body))
        case "promised":
            return events.Promised(filter_from_json(body["filter"]), body["by"])
        case "frozen" | "unfrozen":
            return events.Frozen(entry.kind == "frozen", body["by"])
        case "deleted" | "withdrawn":
            return events.Emptied(body["dataset"], entry.kind == "withdrawn", body["by"])
        case "external":
            named = {name: body[name] for name in ("dataset", "label", "event", "exceeds", "by")}
            return events.External(cost=cost_from_json(body["cost"]), **named)
        case "rolled_back":
            return events.RolledBack(body["reason"], Head.parse(body["lacks"]) if "lacks" in body else None)
        case "charged":
            own = Privacy(body["epsilon"], body["delta"])
            analyst, dataset, method = map(body.get, _NAMES)
            share = _share(body)
            cost = cost_from_json(body["cost"])
            spec = body.get("spec_sha256")
            return events.Charged(body["job"], cost, own, analyst, dataset, method, share, spec)
        case "refunded":
            return events.Refunded(body["job"], cost_from_json(body["cost"]), body["whole"])
        case "reserved":
            certified = Privacy(body["epsilon"], body["delta"]) if "epsilon" in body else None
            session, dataset, analyst, expires_at = (body[name] for name in _RESERVED_NAMES)
            cost = cost_from_json(body["cost"])
            share = _share(body)
            return events.Reserved(session, dataset, analyst, body["plan"], cost, certified, expires_at, share)
        case "settled":
            recorded = _counts(body["recorded"])
            returned = cost_from_json(body["refund"])
            return events.Settled(body["session"], recorded, returned, body["whole"], _reason(body))
        case "session_rule":
            return events.SessionRule(body["dataset"], _session_rule(body["rule"]), body["by"])
        case "renamed" | "started" | "released" | "failed" | "cancelled":
            cls = _PLAIN[entry.kind]
            return cls(*(body[field.name] for field in fields(cls)))
        case _:
            raise LedgerInvalid(f"kind must be one of: {', '.join(get_args(EntryKind))}")


def _registered(event: events.Opened | events.Joined) -> dict[str, Any]:
    """Return n, the unit, the hash of the declaration and the rule for sessions as the fields of an entry."""
    named = {name: getattr(event, name) for name in ("declaration_sha256", "session_rule")}
    declared = {name: value for name, value in named.items() if value is not None}
    if event.unit is None:
        return {"rows": event.records} | declared
    return {**event.unit.counted(event.records), "unit": asdict(event.unit)} | declared


def _share(body: dict[str, Any]) -> float | None:
    """Return the share of a charge; None if the entry has none."""
    return None if "share" not in body else number(body["share"], 0.0, 1.0, "share")


def _counts(recorded: Any) -> list[int]:
    """Return the numbers of recorded uses; `LedgerInvalid` unless they are a list of integers that are not negative."""
    if not isinstance(recorded, list) or not all(type(k) is int and k >= 0 for k in recorded):
        raise LedgerInvalid("recorded must be a list of integers that are not negative")
    return recorded


def _reason(body: dict[str, Any]) -> Literal["closed", "expired"]:
    reason: Literal["closed", "expired"] = body["reason"]
    if reason not in ("closed", "expired"):
        raise LedgerInvalid("reason must be closed or expired")
    return reason


def _declaration(body: dict[str, Any]) -> tuple[str | None, events.SessionPolicy | None]:
    """Return the hash of the declaration and the rule for sessions that `_registered` wrote, or None for each."""
    sha256 = text(body["declaration_sha256"], "declaration_sha256", 64) if "declaration_sha256" in body else None
    return sha256, _session_rule(body["session_rule"]) if "session_rule" in body else None


def _session_rule(stated: Any) -> events.SessionPolicy:
    rule: events.SessionPolicy = stated
    if rule not in get_args(events.SessionPolicy):
        raise LedgerInvalid("the rule for sessions must be refund, no_refund or refused")
    return rule


def _count(body: dict[str, Any]) -> tuple[int, Unit | None]:
    """Return the n and the unit that `_registered` wrote."""
    if "unit" not in body:
        return body["rows"], None
    unit = Unit(**body["unit"])
    return body[f"{unit.name}s"], unit


def _neighbors(body: dict[str, Any]) -> Relation:
    neighbors: Relation = body["neighbors"]
    if neighbors not in get_args(Relation):
        raise LedgerInvalid("neighbors must be replace_one or zero_out")
    return neighbors
