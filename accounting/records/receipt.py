"""A receipt: what one release cost, so stated that anyone can recompute it from the receipt alone.

    document = {"receipt": {...}, "signature": compact JWS over RFC8785(receipt)}

`build` and `sign` make one, `verify` checks one against keys that the verifier already trusts, `recompute` finds
epsilon again from the queries. Importing this module loads no numerical library; recomputing does.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from accounting.errors import AccountingError, CodecError, ReceiptInvalid
from accounting.privacy import REPLACE_ONE, Unit, sensitivity_factor
from accounting.records.chain import Entry, Head, from_lines, to_lines, verify_whole
from accounting.records.documents import canonical, fields, parse
from accounting.records.signing import (
    LONGEST,
    Jwks,
    SigningKey,
    check_json,
    generate_key,
    jwks,
    load_key,
    read_key,
    rotate_key,
    sign_json,
)
from accounting.records.statement import Receipt, check

if TYPE_CHECKING:
    from accounting.accountants import Accountant
    from accounting.plan import Plan, ReleasePlan

_ROOM = 12_000  # bytes of all but method, queries and event: eight texts of 256 characters, digests, numbers
_LAST_DIGITS = 1e-9  # relative: what another processor's elementary functions change of epsilon, and of an event tree


@dataclass(frozen=True, slots=True)
class Recomputation:
    """An epsilon that holds for the queries at the stated delta, and whose arithmetic says so."""

    epsilon: float
    accountant: str
    accountant_version: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verifier found.

    Parameters
    ----------
    holds : everything that was checked is so
    signature : a trusted key signed exactly this receipt
    epsilon : the recomputed epsilon does not exceed the stated one; False if it was not recomputed
    chain : the given ledger entry is the release that the receipt names; None if none was given
    stated_epsilon : as the receipt states it
    recomputed_epsilon, accountant : from the queries; None when unsigned (nobody answers for those)
    reason : the first thing that does not hold
    """

    holds: bool
    signature: bool
    epsilon: bool
    chain: bool | None
    stated_epsilon: float
    recomputed_epsilon: float | None
    accountant: str | None
    reason: str | None


def build(
    *,
    id: str,
    dataset: str,
    dataset_name: str,
    records: int,
    unit: Unit,
    analyst: str,
    job: str,
    method: dict[str, Any],
    release_plan: "ReleasePlan",
    transcript: "Plan",
    model_sha256: str,
    entry: Entry,
    issued_at: str,
    profile: dict[str, str] | None = None,
    share: float | None = None,
) -> Receipt:
    """The receipt of one release; everything in it is public or already private.

    Parameters
    ----------
    id, dataset, job : str, identifiers
    dataset_name, analyst : str
    records, unit : n, of what
    method : the resolved method as JSON, with its name
    release_plan : what was charged: epsilon, delta, accountant
    transcript : what was really answered; the plan must cover it
    model_sha256 : str, of the model as published
    profile : whose release rows were standardised by, if one's
    share : the part of the budget that the job took; None where it would tell of others' charges
    entry : the ledger's "released" entry
    issued_at : str, UTC time

    Raises
    ------
    ReceiptInvalid
        if the plan does not cover the transcript, or a value cannot stand in a receipt.
    """
    from accounting.records.codec import plan_to_json

    if not release_plan.plan.covers(transcript):
        raise ReceiptInvalid("more was answered than was planned")
    try:
        queries = plan_to_json(transcript)["queries"]
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
    receipt = {
        "id": id,
        "dataset": dataset,
        "dataset_name": dataset_name,
        **unit.counted(records),
        "unit": asdict(unit),
        "analyst": analyst,
        "job": job,
        "neighbors": transcript.relation,
        "epsilon": release_plan.epsilon,
        "delta": release_plan.delta,
        "accountant": release_plan.accountant,
        "accountant_version": release_plan.accountant_version,
        "numerics": "exactly rounded",
        "method": method,
        "event": transcript.event(),
        "queries": queries,
        "model_sha256": model_sha256,
        "sequence": entry.sequence,
        "previous_hash": entry.previous_hash,
        "hash": entry.hash,
        "issued_at": issued_at,
    }
    more = {"profile": profile, "share": share}
    return check(receipt | {name: value for name, value in more.items() if value is not None})


def is_signable(method: dict[str, Any], plan: "Plan") -> bool:
    """Whether the receipt of this method and plan, or of a part of the plan, is short enough to be signed, whoever's.

    To be asked before a charge: what is too long is never released.
    """
    from accounting.records.codec import plan_to_json

    longest = {"method": method, "event": plan.event(), "queries": plan_to_json(plan)["queries"]}
    return len(canonical(longest)) + _ROOM <= LONGEST


def sign(receipt: Receipt, key: SigningKey) -> str:
    """The signature: a compact JWS whose payload is RFC8785(receipt)."""
    return sign_json(receipt, key)


def read(raw: bytes | str) -> dict[str, Any]:
    """The document in a file; a repeated key or a number that is none is refused.

    Raises
    ------
    ReceiptInvalid
        if it is not a JSON object with a receipt and its signature.
    """
    try:
        return fields(parse(raw), ("receipt", "signature"), "the document")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error


def is_signed(document: Any, trusted: Jwks) -> bool:
    """Whether a trusted key signed the receipt; `ReceiptInvalid` if the document is malformed."""
    node = _document(document)
    return check_json(check(node["receipt"]), node["signature"], trusted) is None


def verify(
    document: Any, trusted: Jwks, entry: Entry | None = None, found: Recomputation | None = None
) -> Verification:
    """Whether a trusted key signed the receipt, its queries cost no more than it states, and the ledger holds it.

    Parameters
    ----------
    document : `{"receipt": {...}, "signature": "..."}`
    trusted : JWK Set, from a source other than the document
    entry : the ledger's entry of the same sequence number, if at hand
    found : what `recompute` makes of the receipt, if that was done elsewhere

    Raises
    ------
    ReceiptInvalid
        if the document is malformed, and never anything else.
    """
    node = _document(document)
    receipt = check(node["receipt"])
    reason = check_json(receipt, node["signature"], trusted)
    stated = float(receipt["epsilon"])
    chain = None if entry is None else _is_release(receipt, entry)
    if reason is not None:
        return Verification(False, False, False, chain, stated, None, None, reason)
    found = found or recompute(receipt)
    within = _within(found, stated)
    if not within:
        reason = "the events cost more than the stated epsilon"
    elif chain is False:
        reason = "the ledger's entry is not this release"
    return Verification(reason is None, True, within, chain, stated, found.epsilon, found.accountant, reason)


def recompute(receipt: Receipt) -> Recomputation:
    """Return an epsilon that the queries cost at the stated delta, from the queries alone.

    Each accountant bounds epsilon from above, so the first bound within the stated epsilon is returned, or the least
    bound if none is within it. Call this only for receipts whose signature holds: forged queries can be made costly to
    account for.

    Raises
    ------
    ReceiptInvalid
        if the receipt is malformed, its event tree is not that of its queries, the queries cannot have run on the
        records that it states, or no accountant covers them.
    """
    from accounting.accountants import ACCOUNTANTS, PldAccountant
    from accounting.accountants.tight import VERIFIED

    plan = plan_of(check(receipt))
    _check_records(receipt, plan)
    for run in _runs(receipt["method"], plan):
        _check_records(receipt, run)
    if not _same(receipt["event"], plan.event()):
        raise ReceiptInvalid("the queries and the event tree differ")
    verifying = (replace(each, granted=VERIFIED) for each in ACCOUNTANTS if isinstance(each, PldAccountant))
    best: Recomputation | None = None
    for accountant in (*ACCOUNTANTS, *verifying):
        epsilon = _certified(accountant, plan, receipt["delta"])
        if epsilon is not None and (best is None or epsilon < best.epsilon):
            best = Recomputation(epsilon, accountant.name, accountant.version)
        if best is not None and _within(best, receipt["epsilon"]):
            break
    if best is None:
        raise ReceiptInvalid("no accountant covers these queries at this delta")
    return best


def plan_of(receipt: Receipt) -> "Plan":
    """The plan that its queries are, under its relation; `ReceiptInvalid` if they are none."""
    from accounting.records.codec import plan_from_json

    try:
        own = {"neighbors": receipt["neighbors"]} if receipt["neighbors"] != REPLACE_ONE else {}
        return plan_from_json({"queries": receipt["queries"]} | own)
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error


def _check_records(receipt: Receipt, plan: "Plan") -> None:
    """Raise `ReceiptInvalid` unless every mechanism fits the records that the receipt states."""
    n, unit = receipt.get("rows") or receipt.get("persons") or 0, Unit(**receipt.get("unit", {}))
    wrong = [query.name for query in plan.queries if not query.mechanism.fits(n, unit)]
    if wrong:
        raise ReceiptInvalid(
            f"the query {wrong[0]!r} is accounted for as of other records than the receipt states: of another number, "
            "of batches or parts of less than one, or of single rows"
        )


def _runs(method: dict[str, Any], plan: "Plan") -> "list[Plan]":
    """The runs that a choice was made among, none where none was; `ReceiptInvalid` unless they are those of the method,
    each (sum mu^2)-GDP within what the choice says of one: its price speaks of no others.
    """
    from accounting.mechanisms import Selection
    from accounting.records.codec import plan_from_json

    chosen = [query for query in plan.queries if isinstance(query.mechanism, Selection)]
    if not chosen and "trials" not in method:
        return []
    try:
        (choice,), repeats = chosen, method["repeats"]
        trials = [plan_from_json(trial["plan"]) for trial in method["trials"]]
        spent = [trial.gdp() for trial in trials if trial.relation == plan.relation]
        is_all = type(repeats) is int and choice.mechanism.answers == repeats * len(spent)
        most = sensitivity_factor(plan.relation) / choice.noise_multiplier * (1 + _LAST_DIGITS)
    except (AccountingError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise ReceiptInvalid("the runs that were chosen among are not all stated") from error
    if not is_all or any(mu is None or not mu <= most for mu in spent):
        raise ReceiptInvalid("a run costs more than the choice allows, or they are not as many")
    return trials


def _within(found: Recomputation, stated: float) -> bool:
    return found.epsilon <= stated * (1 + _LAST_DIGITS)


def _same(found: Any, derived: Any) -> bool:
    """Whether they are one JSON value, but for another platform's last digits of a number that was computed."""
    if isinstance(derived, dict):
        return (
            isinstance(found, dict)
            and found.keys() == derived.keys()
            and all(_same(found[key], value) for key, value in derived.items())
        )
    if isinstance(derived, list):
        return isinstance(found, list) and len(found) == len(derived) and all(map(_same, found, derived))
    if isinstance(derived, float):
        return type(found) in (int, float) and math.isclose(found, derived, rel_tol=_LAST_DIGITS)
    return type(found) is type(derived) and bool(found == derived)


def _certified(accountant: "Accountant", plan: "Plan", delta: float) -> float | None:
    """What the accountant certifies, or None where it does not reach."""
    try:
        epsilon = accountant.epsilon(plan, delta) if accountant.supports(plan, delta) else math.inf
    except (AccountingError, ArithmeticError, ValueError):  # multipliers far from those of any plan
        return None
    return epsilon if math.isfinite(epsilon) else None


def _is_release(receipt: Receipt, entry: Entry) -> bool:
    """Whether the entry hashes to its hash, stands where the receipt says, and releases this model of this job then."""
    try:
        sound = entry.kind == "released" and entry.digest() == entry.hash
    except CodecError:
        return False
    place = (entry.sequence, entry.previous_hash, entry.hash)
    return (
        sound
        and place == (receipt["sequence"], receipt["previous_hash"], receipt["hash"])
        and entry.body.get("job") == receipt["job"]
        and entry.body.get("model_sha256") == receipt["model_sha256"]
        and entry.body.get("at") == receipt["issued_at"]
    )


def _document(document: Any) -> dict[str, Any]:
    try:
        return fields(document, ("receipt", "signature"), "the document")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error


__all__ = [
    "Entry",
    "Head",
    "Jwks",
    "Receipt",
    "Recomputation",
    "SigningKey",
    "Verification",
    "build",
    "from_lines",
    "generate_key",
    "is_signable",
    "is_signed",
    "jwks",
    "load_key",
    "plan_of",
    "read",
    "read_key",
    "recompute",
    "rotate_key",
    "sign",
    "to_lines",
    "verify",
    "verify_whole",
]
