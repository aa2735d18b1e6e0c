"""Ledgers with every kind of entry, and systematic changes of them and of other JSON documents."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

from accounting import Privacy, Unit
from accounting.filter import Cost, Filter
from accounting.records.chain import Entry, EntryKind, Head
from accounting.records.events import (
    Cancelled,
    Charged,
    Emptied,
    External,
    Failed,
    Frozen,
    Joined,
    LedgerEvent,
    Opened,
    Promised,
    Refunded,
    Released,
    Renamed,
    RolledBack,
    SessionRule,
    Settled,
    Started,
)
from tests.support import sessions
from tests.support.chains import charge_of, ledger_of
from tests.support.ledgers import PAID, RULE, relinked
from tests.support.receipts import MODEL

VALUES: tuple[Any, ...] = (None, True, 0, -1, 0.5, 1e300, "", "01", "x\n", [], {})
_SLACKED = Filter.open("rdp", Privacy(2.0, 1e-6), 1e-7)
_PLANNED = sessions.plan(sessions.many(sessions.GAUSSIAN, 20), sessions.DRAWN)
_PURE = sessions.plan(sessions.many(sessions.PURE, 3), sessions.LAPLACE)
_LARGE = sessions.plan(sessions.many(sessions.GAUSSIAN, 40))  # the filter refuses it, but it keeps the budget
_OUTSIDE = sessions.many(sessions.GAUSSIAN, 2)


def _charged(job: str, cost: Cost, guarantee: Privacy = Privacy(0.5, 1e-6)) -> Charged:  # noqa: B008
    return Charged(job, cost, guarantee, "ada", "d1", "dp_gd", "cd" * 32)


def _external(rule: Filter, exceeds: bool) -> External:
    cost = rule.cost(sessions.plan(_OUTSIDE))
    return External("d1", "old", _OUTSIDE, cost, exceeds, "eve")


def valid_ledgers() -> dict[str, list[Entry]]:
    """Return ledgers that hold. Together they have every kind of entry, and every optional field."""
    mixed, person = sessions.RULE, Unit("person", 8)
    own, whole = Privacy(3.0, 1e-6), RULE.thresholds[0] + 1
    reserved = sessions.reserved(mixed, _PLANNED)
    larger = Promised(mixed.raised(Privacy(4.0, 1e-6)), "eve")
    too_much = sessions.reserved(mixed, _LARGE, guarantee=own)
    stories: dict[str, tuple[Opened, *tuple[LedgerEvent, ...]]] = {
        "jobs": (
            Opened("d1", 20_000, RULE),
            *(_charged("j1", PAID), Started("j1", 1), Started("j1", 2), Released("j1", 2, MODEL)),
            *(charge_of("j2", PAID, Privacy(0.5, 1e-6)), Refunded("j2", PAID, False)),
            *(_charged("j3", PAID), Started("j3", 1), Failed("j3", 1)),
        ),
        "stewards": (
            Opened("d1", 500, mixed, "kin", person, "zero_out", "ab" * 32, "refund"),
            *(Joined("d2", 600, "eve", person, "cd" * 32, "refused"), Renamed("d1", "Census", "eve")),
            *(SessionRule("d1", "no_refund", "eve"), Frozen(True, "eve"), Frozen(False, "eve")),
            *(Emptied("d2", True, "eve"), Promised(Filter.open("pure", Privacy(1.0)), "eve")),
        ),
        "sessions": (
            Opened("d1", 20_000, mixed, unit=Unit(), session_rule="refund"),
            *(reserved, sessions.settled(mixed, _PLANNED, [3, 0])),
            *(replace(reserved, session="s2"), Settled("s2", [1, 0], mixed.zero_cost, False, "expired"), larger),
            *(_external(mixed, False), Emptied("d1", False, "eve")),
        ),
        "a whole budget": (
            Opened("d1", 20_000, mixed),
            too_much,
            _external(mixed, True),
            sessions.settled(mixed, _LARGE, [0]),
        ),
        "a whole job": (
            Opened("d1", 20_000, RULE),
            _charged("j1", (whole,), RULE.privacy),
            Refunded("j1", (whole,), True),
        ),
        "lost entries": (
            Opened("d1", 20_000, RULE),
            *(_charged("j1", PAID), RolledBack("disk lost", Head(7, "ab" * 32)), Frozen(False, "eve")),
            RolledBack("again", None),
        ),
        "pure": (
            Opened("d1", 20_000, sessions.PURE_RULE),
            *(sessions.reserved(sessions.PURE_RULE, _PURE), sessions.settled(sessions.PURE_RULE, _PURE, [2, 1])),
        ),
        "renyi": (
            Opened("d1", 20_000, _SLACKED),
            *(_charged("j1", (*(t // 9 for t in _SLACKED.thresholds[:-1]), 1)), Started("j1", 1), Cancelled("j1", 1)),
        ),
    }
    return {name: ledger_of(*events)[1] for name, events in stories.items()}


def changes(value: Any) -> Iterator[Any]:
    """Yield the value with one part removed, added, replaced or exchanged, for each of its parts at any depth."""
    yield from (other for other in _near(value) if not _is_same(other, value))
    if isinstance(value, dict):
        yield value | {"more": 1}
        names = list(value)
        for name, part in value.items():
            yield {other: value[other] for other in names if other != name}
            yield from (value | {name: changed} for changed in changes(part))
        yield from (value | {a: value[b], b: value[a]} for a, b in pairwise(names))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield [*value[:i], *value[i + 1 :]]
            yield [*value[: i + 1], *value[i:]]
            yield from ([*value[:i], changed, *value[i + 1 :]] for changed in changes(part))
        yield value[::-1]


def tampered(entries: Sequence[Entry], foreign_entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield the ledger with one change of an entry, or of the order of entries, and all hashes computed again.

    Parameters
    ----------
    foreign_entries : entries that are inserted at each position
    """
    for i, entry in enumerate(entries):
        earlier, later = entries[:i], entries[i + 1 :]
        bodies = (body for body in changes(entry.body) if isinstance(body, dict))
        changed = [replace(entry, body=body) for body in bodies]
        changed += [replace(entry, kind=kind) for kind in (*get_args(EntryKind), "other", "toString")]
        yield from (relinked([*earlier, each, *later]) for each in changed)
        yield relinked([*earlier, *later])
        yield relinked([*earlier, *later[:1], entry, *later[1:]])
        yield from (relinked([*earlier, entry, inserted, *later]) for inserted in (entry, *foreign_entries))


def _near(value: Any) -> list[Any]:
    """Return the usual wrong values, and some close to this one."""
    if isinstance(value, bool):
        return [*VALUES, not value]
    if isinstance(value, int | float):
        return [*VALUES, value + 1, value * 2, value / 2, -value, value * (1 + 1e-6), value * (1 - 1e-6), str(value)]
    if isinstance(value, str) and value.isdecimal():
        return [*VALUES, int(value), *(str(int(value) + step) for step in (-1, 2)), str(2 * int(value)), f"-{value}"]
    return [*VALUES, [value], f"{value}x" if isinstance(value, str) else value, str(value).upper()]


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
