"""Receipts: the cost of one release or session, stated so that anyone can recompute it from the receipt alone.

    document = {"receipt": {...}, "signature": compact JWS over RFC8785(receipt)}

`build` makes a receipt, and `verify` checks a signed one against keys that the verifier already trusts. `recompute`
derives epsilon from the queries again. `accounting.records.session_receipt` builds those of sessions.
"""

from dataclasses import asdict, dataclass
from typing import Any

from accounting.errors import CodecError, ReceiptInvalid
from accounting.plan import Plan, ReleasePlan
from accounting.privacy import Unit
from accounting.records.chain import Entry
from accounting.records.codec import plan_to_json
from accounting.records.documents import canonical, fields
from accounting.records.recomputation import Recomputation as Recomputation
from accounting.records.recomputation import plan_of as plan_of
from accounting.records.recomputation import recompute as recompute
from accounting.records.signing import MOST_PAYLOAD_BYTES, Jwks, check_json
from accounting.records.statement import Receipt as Receipt
from accounting.records.statement import check, is_session
from accounting.records.statement import read as read

# Reserved for all but method, queries and event: eight texts of 256 characters, digests and numbers.
_OTHER_FIELDS_BYTES = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that the receipts of releases and of sessions state. Each is public, or was released privately.

    Parameters
    ----------
    id, dataset : identifiers
    records, unit : n, and the unit of these records
    entry : the ledger's entry of the release, or of the session's end
    share : the part of the budget that is used; None if it would reveal other analysts' charges
    """

    id: str
    dataset: str
    dataset_name: str
    records: int
    unit: Unit
    analyst: str
    entry: Entry
    share: float | None = None

    def common_fields(self) -> Receipt:
        """Return the fields of the receipt that state these facts, except for the share."""
        return {
            "id": self.id,
            "dataset": self.dataset,
            "dataset_name": self.dataset_name,
            **self.unit.counted(self.records),
            "unit": asdict(self.unit),
            "analyst": self.analyst,
            "sequence": self.entry.sequence,
            "previous_hash": self.entry.previous_hash,
            "hash": self.entry.hash,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts(Facts):
    """The facts of one release that its receipt states.

    Parameters
    ----------
    job : identifier
    method : the resolved method as JSON, with its name
    release_plan : the plan that was charged, with epsilon, delta and accountant
    transcript : the answers that were given; the plan must cover it
    model_sha256 : of the model as published
    issued_at : UTC time, ISO 8601
    profile : job and digest of the profile whose moments rows were standardized by, or None

    The other fields are those of `Facts`.
    """

    job: str
    method: dict[str, Any]
    release_plan: ReleasePlan
    transcript: Plan
    model_sha256: str
    issued_at: str
    profile: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a receipt.

    Parameters
    ----------
    holds : every check passed
    signature : a trusted key signed exactly this receipt
    epsilon : the recomputed epsilon does not exceed the stated one; False if it was not recomputed
    chain : the given ledger entry is the release, or the session's end, that the receipt names; None without an entry
    stated_epsilon : as the receipt states it
    recomputed_epsilon, accountant : from the queries; None if the signature does not hold
    reason : the first check that failed
    """

    holds: bool
    signature: bool
    epsilon: bool
    chain: bool | None
    stated_epsilon: float
    recomputed_epsilon: float | None
    accountant: str | None
    reason: str | None


def build(release: ReleaseFacts) -> Receipt:
    """Return the receipt of one release.

    Raises
    ------
    ReceiptInvalid
        if the plan does not cover the transcript, or a value cannot be stated in a receipt.
    """
    plan, transcript = release.release_plan, release.transcript
    if not plan.plan.covers(transcript):
        raise ReceiptInvalid("transcript: the run has more answers than its plan")
    try:
        queries = _queries(transcript)
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
    receipt = release.common_fields() | {
        "job": release.job,
        "neighbors": transcript.relation,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "accountant": plan.accountant,
        "accountant_version": plan.accountant_version,
        "numerics": "exactly rounded",
        "method": release.method,
        "event": transcript.event(),
        "queries": queries,
        "model_sha256": release.model_sha256,
        "issued_at": release.issued_at,
    }
    optional = {"profile": release.profile, "share": release.share}
    return check(receipt | {name: value for name, value in optional.items() if value is not None})


def is_signable(method: dict[str, Any], plan: Plan) -> bool:
    """Return whether the receipt of this method and plan, or of a part of the plan, is short enough to be signed.

    Call this before a charge, since a receipt that is too long can never be released.
    """
    longest = {"method": method, "event": plan.event(), "queries": _queries(plan)}
    return len(canonical(longest)) + _OTHER_FIELDS_BYTES <= MOST_PAYLOAD_BYTES


def _queries(plan: Plan) -> list[dict[str, Any]]:
    """Return the queries of a plan as JSON."""
    queries: list[dict[str, Any]] = plan_to_json(plan)["queries"]
    return queries


def is_signed(document: Any, trusted: Jwks) -> bool:
    """Return whether a trusted key signed the receipt. Raise `ReceiptInvalid` if the document is malformed."""
    node = _document(document)
    return check_json(check(node["receipt"]), node["signature"], trusted) is None


def verify(
    document: Any, trusted: Jwks, entry: Entry | None = None, recomputed: Recomputation | None = None
) -> Verification:
    """Return whether a trusted key signed the receipt, its epsilon covers its queries, and the ledger contains it.

    Parameters
    ----------
    document : `{"receipt": {...}, "signature": "..."}`
    trusted : JWK Set, from a source other than the document
    entry : the ledger's entry of the same sequence number, if available
    recomputed : the result of `recompute`, if it was computed elsewhere

    Raises
    ------
    ReceiptInvalid
        if the document is malformed. No other error is raised.
    """
    node = _document(document)
    receipt = check(node["receipt"])
    reason = check_json(receipt, node["signature"], trusted)
    stated = float(receipt["epsilon"])
    chain = None if entry is None else _is_release(receipt, entry)
    if reason is not None:
        return Verification(False, False, False, chain, stated, None, None, reason)
    recomputed = recomputed or recompute(receipt)
    is_within = recomputed.is_within(stated)
    if not is_within:
        reason = "the events cost more than the stated epsilon"
    elif is_session(receipt) and not recomputed.is_charge_within(receipt["charged_epsilon"]):
        is_within, reason = False, "the charged events cost more than the stated charged_epsilon"
    elif chain is False:
        reason = f"the ledger's entry is not this {'session' if is_session(receipt) else 'release'}"
    epsilon, accountant = recomputed.epsilon, recomputed.accountant
    return Verification(reason is None, True, is_within, chain, stated, epsilon, accountant, reason)


def _is_release(receipt: Receipt, entry: Entry) -> bool:
    """Return whether the entry hashes to its hash, has the stated position, and is the event that the receipt states.

    The event is the release of this model of this job, or the end of this session with these recorded uses, at the
    stated time.
    """
    kind, stated = "released", {name: receipt.get(name) for name in ("job", "model_sha256")}
    if is_session(receipt):
        recorded = [planned["recorded"] for planned in receipt["plan"]]
        kind, stated = "settled", {"session": receipt["session"], "recorded": recorded, "reason": receipt["state"]}
    try:
        is_sound = entry.kind == kind and entry.digest() == entry.hash
    except CodecError:
        return False
    position = (entry.sequence, entry.previous_hash, entry.hash)
    is_here = is_sound and position == (receipt["sequence"], receipt["previous_hash"], receipt["hash"])
    stated |= {"at": receipt["issued_at"]}
    return is_here and all(entry.body.get(name) == value for name, value in stated.items())


def _document(document: Any) -> dict[str, Any]:
    try:
        return fields(document, ("receipt", "signature"), "the document")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
