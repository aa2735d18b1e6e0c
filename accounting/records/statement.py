"""The fields of a receipt, of a release or of a session. Documents with other fields are refused. Light: no NumPy."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from accounting.errors import CodecError, ReceiptInvalid
from accounting.privacy import DELTA_RANGE, EPSILON_RANGE, Relation, Unit
from accounting.records.chain import MOST_ENTRIES
from accounting.records.documents import canonical, text, typed

Receipt = dict[str, Any]
ASSERTED: Literal["asserted by the analyst's program, not observed by this service"] = (
    "asserted by the analyst's program, not observed by this service"
)
_MOST_PLANNED, _LARGEST_EPSILON = 64, 1e9  # of a session's plan


def _named(method: dict[str, Any]) -> dict[str, Any]:
    text(method.get("name"), "the method's name", 64)
    return method


_Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,256}$")]
_Count = Annotated[int | None, Field(ge=1, le=2**53 - 1)]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Time = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$")
]


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile that was released before, by its job and the digest of the published document."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    job: _Text
    sha256: _Sha256


@dataclass(frozen=True, slots=True)
class Statement:
    """The complete fields of a release's receipt: the privacy statement of one release.

    Parameters
    ----------
    id, dataset, dataset_name, analyst, job : identify the release
    neighbors : the relation
    epsilon, delta, accountant, accountant_version : the guarantee, and the accountant that certifies it
    numerics : of the noise
    method : the resolved method, with its name
    queries, event : the answers as a plan, and the event tree that follows from it, with dp-accounting's names
    model_sha256 : of the model, or the profile, as published
    sequence, previous_hash, hash : the ledger's entry of the release
    issued_at : UTC time, ISO 8601
    share : the part of the dataset's budget that the job used, read right after its charge; absent in older receipts
        and if it would reveal other charges
    profile : the release whose moments rows were standardized by, which has its own receipt; absent if there is none
    unit : the record in which neighbors differ; absent in older receipts, where it is a row
    rows, persons : n, named by the unit
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    id: _Text
    dataset: _Text
    dataset_name: _Text
    analyst: _Text
    job: _Text
    neighbors: Relation
    epsilon: Annotated[float, Field(ge=0, le=EPSILON_RANGE[1])]
    delta: Annotated[float, Field(ge=0, le=DELTA_RANGE[1])]
    accountant: _Text
    accountant_version: _Text
    numerics: Literal["exactly rounded"]
    method: Annotated[dict[str, Any], AfterValidator(_named)]
    event: dict[str, Any]
    queries: Annotated[list[Any], Field(min_length=1)]
    model_sha256: _Sha256
    sequence: Annotated[int, Field(ge=1, le=MOST_ENTRIES)]
    previous_hash: _Sha256
    hash: _Sha256
    issued_at: _Time
    profile: Profile | None = None
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    unit: Unit = field(default_factory=Unit)
    rows: _Count = None
    persons: _Count = None

    def __post_init__(self) -> None:
        _check_counted(self.unit, self.rows, self.persons)


@dataclass(frozen=True, slots=True)
class PlannedUses:
    """An event of a session's plan, the number of its uses, and the number that the program recorded."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    event: dict[str, Any]
    count: Annotated[int, Field(ge=1, le=2**53 - 1)]
    recorded: Annotated[int, Field(ge=0, le=2**53 - 1)]

    def __post_init__(self) -> None:
        if self.recorded > self.count:
            raise CodecError("recorded must be at most count: no more uses than planned can be recorded")


@dataclass(frozen=True, slots=True)
class SessionStatement:
    """The complete fields of a session's receipt.

    Parameters
    ----------
    state : whether the program closed the session, or it expired
    plan : the reserved events; `recorded` is what the program reported
    asserted : who states what was recorded
    epsilon, delta, accountant, accountant_version : the guarantee of the whole plan alone, whenever its program stopped
    charged : "plan" if the whole reservation stays charged, "recorded" if the unused part was returned
    charged_epsilon : of the charged part alone, if the number of its uses had been fixed in advance
    sequence, previous_hash, hash : the ledger's entry of the session's end
    share : the part of the dataset's budget that stays charged, read right after the reservation, or after a refund;
        absent if it would reveal other charges

    The other fields are those of `Statement`.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    kind: Literal["session"]
    id: _Text
    dataset: _Text
    dataset_name: _Text
    analyst: _Text
    session: _Text
    neighbors: Relation
    state: Literal["closed", "expired"]
    plan: Annotated[list[PlannedUses], Field(min_length=1, max_length=_MOST_PLANNED)]
    asserted: Literal["asserted by the analyst's program, not observed by this service"]
    epsilon: Annotated[float, Field(ge=0, le=_LARGEST_EPSILON)]
    delta: Annotated[float, Field(ge=0, le=DELTA_RANGE[1])]
    accountant: _Text
    accountant_version: _Text
    charged: Literal["plan", "recorded"]
    charged_epsilon: Annotated[float, Field(ge=0, le=_LARGEST_EPSILON)]
    sequence: Annotated[int, Field(ge=1, le=MOST_ENTRIES)]
    previous_hash: _Sha256
    hash: _Sha256
    issued_at: _Time
    title: _Text | None = None
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    unit: Unit = field(default_factory=Unit)
    rows: _Count = None
    persons: _Count = None

    def __post_init__(self) -> None:
        _check_counted(self.unit, self.rows, self.persons)
        if self.state == "expired" and self.charged == "recorded":
            raise CodecError("charged must be plan: an expired session stays charged as it was reserved")


def _check_counted(unit: Unit, rows: int | None, persons: int | None) -> None:
    """Raise `CodecError` unless n is stated once, by the name of the unit."""
    if (rows is None) != unit.is_person or (persons is None) == unit.is_person:
        raise CodecError("rows or persons must be stated: the one that the unit names, and not the other")


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
