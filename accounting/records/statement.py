"""The fields of a receipt, of a release or of a session. Documents with other fields are refused. Light: no NumPy."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from accounting.errors import CodecError, ReceiptInvalid
from accounting.privacy import DELTA_RANGE, EPSILON_RANGE, Relation, Unit
from accounting.records.chain import MOST_ENTRIES
from accounting.records.documents import Sha256, Text, canonical, fields, parse, text, typed

Receipt = dict[str, Any]
_Asserted = Literal["asserted by the analyst's program, not observed by this service"]
ASSERTED: _Asserted = "asserted by the analyst's program, not observed by this service"
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_MOST_PLANNED, _LARGEST_EPSILON = 64, 1e9  # of a session's plan


def _named(method: dict[str, Any]) -> dict[str, Any]:
    text(method.get("name"), "the method's name", 64)
    return method


_Count = Annotated[int | None, Field(ge=1, le=2**53 - 1)]
_Time = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$")
]


@dataclass(frozen=True, slots=True)
class UsedProfile:
    """A profile that was released before, by its job and the digest of the published document."""

    __pydantic_config__: ClassVar = _STRICT

    job: Text
    sha256: Sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    """The fields that receipts of releases and of sessions share.

    Parameters
    ----------
    id, dataset, dataset_name, analyst : identify the receipt
    neighbors : the relation
    delta, accountant, accountant_version : the guarantee's delta, and the accountant that certifies its epsilon
    sequence, previous_hash, hash : the ledger's entry of the release, or of the session's end
    issued_at : UTC time, ISO 8601
    share : the part of the dataset's budget that is used; absent if it would reveal other charges
    unit : the record in which neighbors differ; absent in older receipts, where it is a row
    rows, persons : n, named by the unit
    """

    __pydantic_config__: ClassVar = _STRICT

    id: Text
    dataset: Text
    dataset_name: Text
    analyst: Text
    neighbors: Relation
    delta: Annotated[float, Field(ge=0, le=DELTA_RANGE[1])]
    accountant: Text
    accountant_version: Text
    sequence: Annotated[int, Field(ge=1, le=MOST_ENTRIES)]
    previous_hash: Sha256
    hash: Sha256
    issued_at: _Time
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    unit: Unit = field(default_factory=Unit)
    rows: _Count = None
    persons: _Count = None

    def __post_init__(self) -> None:
        if (self.rows is None) != self.unit.is_person or (self.persons is None) == self.unit.is_person:
            raise CodecError("rows or persons must be stated: the one that the unit names, and not the other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(_Common):
    """The complete fields of a release's receipt: the privacy statement of one release.

    Parameters
    ----------
    job : the job that released
    epsilon : the guarantee
    numerics : of the noise
    method : the resolved method, with its name
    queries, event : the answers as a plan, and the event tree that follows from it, with dp-accounting's names
    model_sha256 : of the model, or the profile, as published
    profile : the release whose moments rows were standardized by, which has its own receipt; absent if there is none

    The other fields are those of `_Common`. `share` is read right after the job's charge, and absent in older receipts.
    """

    job: Text
    epsilon: Annotated[float, Field(ge=0, le=EPSILON_RANGE[1])]
    numerics: Literal["exactly rounded"]
    method: Annotated[dict[str, Any], AfterValidator(_named)]
    event: dict[str, Any]
    queries: Annotated[list[Any], Field(min_length=1)]
    model_sha256: Sha256
    profile: UsedProfile | None = None


@dataclass(frozen=True, slots=True)
class PlannedUses:
    """An event of a session's plan, the number of its uses, and the number that the program recorded."""

    __pydantic_config__: ClassVar = _STRICT

    event: dict[str, Any]
    count: Annotated[int, Field(ge=1, le=2**53 - 1)]
    recorded: Annotated[int, Field(ge=0, le=2**53 - 1)]

    def __post_init__(self) -> None:
        if self.recorded > self.count:
            raise CodecError("recorded must be at most count: no more uses than planned can be recorded")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatement(_Common):
    """The complete fields of a session's receipt.

    Parameters
    ----------
    session, title : the session, and the analyst's title for it
    state : whether the program closed the session, or it expired
    plan : the reserved events; `recorded` is what the program reported
    asserted : who states what was recorded
    epsilon : the guarantee of the whole plan alone, whenever its program stopped
    charged : "plan" if the whole reservation stays charged, "recorded" if the unused part was returned
    charged_epsilon : of the charged part alone, if the number of its uses had been fixed in advance

    The other fields are those of `_Common`. `share` is the part that stays charged, read right after the reservation,
    or after a refund.
    """

    kind: Literal["session"]
    session: Text
    title: Text | None = None
    state: Literal["closed", "expired"]
    plan: Annotated[list[PlannedUses], Field(min_length=1, max_length=_MOST_PLANNED)]
    asserted: _Asserted
    epsilon: Annotated[float, Field(ge=0, le=_LARGEST_EPSILON)]
    charged: Literal["plan", "recorded"]
    charged_epsilon: Annotated[float, Field(ge=0, le=_LARGEST_EPSILON)]

    def __post_init__(self) -> None:
        _Common.__post_init__(self)  # dataclasses with slots have no super()
        if self.state == "expired" and self.charged == "recorded":
            raise CodecError("charged must be plan: an expired session stays charged as it was reserved")


_STATEMENT = TypeAdapter(Statement)
_SESSION_STATEMENT = TypeAdapter(SessionStatement)


def is_session(receipt: Receipt) -> bool:
    """Return whether the receipt is that of a session, and not of a release."""
    return receipt.get("kind") == "session"


def check(receipt: Any) -> Receipt:
    """Return `receipt`; `ReceiptInvalid` unless it has every field of its kind, with a valid value, and no others."""
    try:
        canonical(receipt)
        if isinstance(receipt, dict) and is_session(receipt):
            typed(_SESSION_STATEMENT, receipt, "the receipt")
        else:
            typed(_STATEMENT, receipt, "the receipt")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
    return dict(receipt)


def read(raw: bytes | str) -> dict[str, Any]:
    """Return the document in a file.

    Raises
    ------
    ReceiptInvalid
        if it is not a JSON object with a receipt and its signature, repeats a key or holds NaN or an infinity.
    """
    try:
        return fields(parse(raw), ("receipt", "signature"), "the document")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
