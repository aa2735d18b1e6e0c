"""Ledgers of two jobs: complete, changed, or not those of a receipt."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.filter import Cost, Filter
from accounting.records.chain import Entry, link
from accounting.records.events import (
    JobEvent,
    Joined,
    LedgerEvent,
    Opened,
    Released,
    Started,
)
from accounting.records.signing import sign_json
from tests.support.chains import charge_of, ledger_of
from tests.support.receipts import GD, KEY, MODEL, make

RULE = Filter.open("gdp", Privacy(2.0, 1e-6))


def chain(*events: LedgerEvent, rule: Filter = RULE, dataset: str = "d1", records: int = 20_000) -> list[Entry]:
    return ledger_of(Opened(dataset, records, rule), *events)[1]


PAID = RULE.cost(calibrate(GD, Privacy(0.5, 1e-6)).plan)


def job(
    name: str, epsilon: float = 0.5, paid: Cost = PAID, dataset: str = "d1", method: str = "dp_gd"
) -> tuple[JobEvent, ...]:
    charge = charge_of(name, paid, Privacy(epsilon, 1e-6), dataset=dataset, method=method)
    return charge, Started(name, 1), Released(name, 1, MODEL)


LEDGER = chain(*job("j1"), *job("j2"))
RELEASE = LEDGER[3]


def signed(**change: Any) -> dict[str, Any]:
    built = make(**{"entry": RELEASE} | change)
    return {"receipt": built, "signature": sign_json(built, KEY)}


def relinked(entries: Sequence[Entry]) -> list[Entry]:
    """The same bodies in a chain that holds."""
    chained: list[Entry] = []
    for entry in entries:
        chained.append(link(len(chained) + 1, entry.kind, entry.body, chained[-1].hash if chained else "0" * 64))
    return chained


def rewritten() -> list[Entry]:
    """Return the ledger with a smaller charge and all hashes recomputed."""
    return chain(*job("j1", paid=(1,)), *job("j2"))


def overspent() -> list[Entry]:
    """More than the filter admits, each hash in order."""
    dear = {**LEDGER[4].body, "cost": [str(RULE.thresholds[0])]}
    return relinked([*LEDGER[:4], replace(LEDGER[4], body=dear), *LEDGER[5:]])


BROKEN: dict[str, tuple[Callable[[], list[Entry]], str]] = {
    "nothing": (list, "first entry"),
    "the start is missing": (lambda: LEDGER[1:], "first entry"),
    "the end is missing": (lambda: LEDGER[:5], r"ends at entry 5, before the head 7:[0-9a-f]{64}: entries are missing"),
    "an entry is missing": (lambda: [*LEDGER[:4], *LEDGER[5:]], "the chain breaks at entry 5"),
    "rewritten": (rewritten, r"does not contain the head 4:[0-9a-f]{64}"),
    "overspent": (overspent, "entry 5 does not follow"),
    "released twice": (lambda: relinked([*LEDGER, LEDGER[3]]), "entry 8"),
}


def unrecorded_receipt(ledger: list[Entry], why: str) -> dict[str, Any]:
    """A receipt that this ledger does not hold for this reason."""
    if "release" in why.replace("released", ""):
        return signed()
    changes: dict[str, Any] = {"share": LEDGER[1].body["share"] / 2} if "share" in why else {}
    if "profile" in why:
        changes = {"profile": {"job": "p1", "sha256": MODEL}}
    (entry,) = (entry for entry in ledger if entry.kind == "released" and entry.body["job"] == "j1")
    return signed(entry=entry, **changes)


NOT_HELD = {
    "ends before": (LEDGER[:3], "the ledger ends before this release"),
    "told anew": (rewritten(), "the ledger's entry is not this release"),
    "of another job": (chain(*job("j3"), *job("j1")), "the ledger's entry is not this release"),
    "another dataset's": (
        chain(*job("j1", dataset="d2"), dataset="d2"),
        "the ledger charged another analyst, dataset or method",
    ),
    "of fewer records": (
        chain(*job("j1"), records=19_999),
        "the ledger has no such dataset, or other records or neighbors",
    ),
    "another analyst's": (
        chain(charge_of("j1", PAID, Privacy(0.5, 1e-6), "bob"), *job("j1")[1:]),
        "the ledger charged another analyst, dataset or method",
    ),
    "charged for less": (chain(*job("j1", 0.25)), "the ledger charged less than the receipt states"),
    "of another share": (LEDGER, "the ledger charged another share of the budget"),
    "before its profile": (
        chain(*job("j1"), *job("p1", method="profile")),
        "the ledger released no such profile before this charge",
    ),
    "by another profile": (
        chain(*job("p1", method="profile")[:2], Released("p1", 1, "ef" * 32), *job("j1")),
        "the ledger released no such profile before this charge",
    ),
    "by what is no profile": (
        chain(*job("p1"), *job("j1")),
        "the ledger released no such profile before this charge",
    ),
    "by a profile of the family's other dataset": (
        chain(Joined("d2", 20_000, "steward"), *job("p1", dataset="d2", method="profile"), *job("j1")),
        "the ledger released no such profile before this charge",
    ),
    "charged less": (chain(*job("j1", 0.5, (PAID[0] * 9 // 10,))), "the ledger charged less than these queries cost"),
}
