"""Ledger events to and from the kind and body of an entry. The types of an event's fields define its body."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args

from pydantic import Field, TypeAdapter

from accounting.errors import LedgerInvalid
from accounting.records import events
from accounting.records.chain import Entry, EntryKind
from accounting.records.documents import typed

# The class of the events of each kind, and the values of the fields that the kind states instead of the body.
_KINDS: dict[EntryKind, tuple[type[events.LedgerEvent], dict[str, bool]]] = {
    "opened": (events.Opened, {}),
    "joined": (events.Joined, {}),
    "promised": (events.Promised, {}),
    "frozen": (events.Frozen, {"is_frozen": True}),
    "unfrozen": (events.Frozen, {"is_frozen": False}),
    "renamed": (events.Renamed, {}),
    "session_rule": (events.SessionRule, {}),
    "deleted": (events.Emptied, {"withdrawn": False}),
    "withdrawn": (events.Emptied, {"withdrawn": True}),
    "external": (events.External, {}),
    "rolled_back": (events.RolledBack, {}),
    "charged": (events.Charged, {}),
    "started": (events.Started, {}),
    "refunded": (events.Refunded, {}),
    "released": (events.Released, {}),
    "failed": (events.Failed, {}),
    "cancelled": (events.Cancelled, {}),
    "reserved": (events.Reserved, {}),
    "settled": (events.Settled, {}),
}


@dataclass(frozen=True, slots=True)
class _Admission:
    """The result of a charge, which its entry states and `accounting.records.ledger` computes.

    Parameters
    ----------
    whole : it took the whole budget
    share : of the budget, right after the charge
    """

    __pydantic_config__: ClassVar = {"strict": True}

    whole: bool
    share: Annotated[float, Field(ge=0, le=1)]


_ADMISSION = TypeAdapter(_Admission)
_ADAPTERS: dict[type[events.LedgerEvent], TypeAdapter[Any]] = {cls: TypeAdapter(cls) for cls, _ in _KINDS.values()}
_CHARGES = (events.Charged, events.Reserved)  # their bodies state an `_Admission`, and the guarantee without its name
_REGISTRATIONS = (events.Opened, events.Joined)  # their bodies state the number of records by the name of the unit


def record(event: events.LedgerEvent) -> tuple[EntryKind, dict[str, Any]]:
    """Return the kind and body of the event's entry, without `whole` and `share`. Fields that are None are left out."""
    stated = _ADAPTERS[type(event)].dump_python(event)
    kind, implied = next(
        (kind, implied)
        for kind, (cls, implied) in _KINDS.items()
        if cls is type(event) and implied.items() <= stated.items()
    )
    body = {name: value for name, value in stated.items() if value is not None and name not in implied}
    if isinstance(event, _REGISTRATIONS):
        body |= event.unit.counted(body.pop("records"))
    if isinstance(event, _CHARGES):
        body |= body.pop("guarantee", {})
    return kind, body


def event_of(entry: Entry) -> events.LedgerEvent:
    """Return the event that an entry records. Its content is checked when the ledger advances by it again.

    Raises
    ------
    LedgerInvalid
        if the kind is unknown.
    CodecError
        if the body does not have the fields of its kind, with their types.
    """
    if entry.kind not in _KINDS:
        raise LedgerInvalid(f"kind must be one of: {', '.join(get_args(EntryKind))}")
    cls, implied = _KINDS[entry.kind]
    stated = {name: value for name, value in entry.body.items() if name != "at"} | implied
    if cls in _REGISTRATIONS:
        stated["records"] = stated.pop("persons" if "persons" in stated else "rows", None)
    if cls in _CHARGES:
        typed(_ADMISSION, {name: stated.pop(name, None) for name in ("whole", "share")}, "a charge")
        own = {name: stated.pop(name) for name in ("epsilon", "delta") if name in stated}
        stated["guarantee"] = own or None
    event: events.LedgerEvent = typed(_ADAPTERS[cls], stated, f"the body of {entry.kind!r}")
    return event
