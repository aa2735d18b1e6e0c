"""What a receipt says, field by field; nothing else is read as one. Light: no NumPy."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from accounting.errors import CodecError, ReceiptInvalid
from accounting.privacy import DELTA_RANGE, EPSILON_RANGE, Relation, Unit
from accounting.records.chain import MOST_ENTRIES
from accounting.records.documents import canonical, text, typed

Receipt = dict[str, Any]


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
    """A profile that was released before: the job that did so, and the digest of what it published."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    job: _Text
    sha256: _Sha256


@dataclass(frozen=True, slots=True)
class Statement:
    """Every field of a receipt, and no others: the whole privacy statement of one release.

    Parameters
    ----------
    id, dataset, dataset_name, analyst, job : what, and whose, the release is
    neighbors : the relation
    epsilon, delta, accountant, accountant_version : what is promised, and who certifies it
    numerics : how the noise was drawn
    method : the resolved method, with its name
    queries, event : what was answered, as a plan; and the event tree that follows from it, with dp-accounting's names
    model_sha256 : of the model, or the profile, as published
    sequence, previous_hash, hash : the ledger's entry of the release
    issued_at : UTC time, ISO 8601
    share : the part of the dataset's budget that the job took, as it was read right after its charge; absent before
        shares were told
    profile : the release whose moments rows were standardised by, paid for by a receipt of its own; absent for none
    unit : what neighbors differ in; absent in a receipt of a time when it was always a row
    rows, persons : n, that of the unit
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
        if (self.rows is None) != self.unit.is_person or (self.persons is None) == self.unit.is_person:
            raise CodecError("one of rows and persons says n, the one that the unit names")


_STATEMENT = TypeAdapter(Statement)


def check(receipt: Any) -> Receipt:
    """`receipt`, if it has every field, each of its kind, and no others; else `ReceiptInvalid`."""
    try:
        canonical(receipt)
        typed(_STATEMENT, receipt, "the receipt")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
    return dict(receipt)
