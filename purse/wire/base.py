"""The common rules of messages: strict types, finite numbers, no unknown fields, immutable."""

import json
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from accounting.errors import OutOfRange
from accounting.privacy import DELTA_RANGE, EPSILON_RANGE, Unit


class Wire(BaseModel):
    """A message. Text, booleans, NaN and infinity are not accepted as numbers."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    def __str__(self) -> str:
        return repr(self)


def _zero_or_not_tiny(delta: float) -> float:
    if 0.0 < delta < DELTA_RANGE[0]:
        raise OutOfRange(f"delta must be 0 or at least {DELTA_RANGE[0]:g}")
    return delta


def _printable(name: str) -> str:
    """Return a name. Raise a ValueError if a reader of a receipt could not see all of it."""
    if not name.isprintable():
        raise ValueError("must contain printable characters only, because receipts show the name")
    return name


Epsilon = Annotated[
    float,
    Field(ge=EPSILON_RANGE[0], le=EPSILON_RANGE[1], description="Privacy loss epsilon, from 0.001 to 100."),
]
Delta = Annotated[
    float,
    Field(ge=0.0, le=DELTA_RANGE[1], description="Privacy loss delta: 0, or from 1e-12 to 0.01."),
    AfterValidator(_zero_or_not_tiny),
]
_UNIT = TypeAdapter(Unit)


def _unit(value: object) -> object:
    """Return the unit that a mapping describes, read by the rules for JSON. Return any other value unchanged."""
    return _UNIT.validate_json(json.dumps(value)) if isinstance(value, dict) else value


Protected = Annotated[
    Unit,
    BeforeValidator(_unit),
    Field(description="The protected unit, one row or one person with up to `max_rows` rows."),
]

Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="A name of 1 to 200 characters without control characters.",
    ),
]
Title = Annotated[Name, AfterValidator(_printable)]
Identifier = Annotated[
    str, Field(pattern=r"^[a-z0-9_]{1,64}$", description="An identifier that the server has issued.")
]
DatasetReference = Annotated[Name, Field(description="A dataset's id or its name.")]
Timestamp = Annotated[str, Field(description="UTC time, ISO 8601.")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256, lower-case hexadecimal.")]

Order = Literal["asc", "desc"]


T = TypeVar("T")


def is_none(value: object) -> bool:
    """Return whether a value is None."""
    return value is None


Omitted = Annotated[T | None, Field(exclude_if=is_none)]
"""A field that a document leaves out if it is None, so that digests of earlier documents stay the same."""


class Page(Wire, Generic[T]):
    """One page of a list."""

    # For each type of entry Pydantic would look for the docstrings of this class in every calling frame. That is a
    # tenth of the CPU time of importing the server.
    model_config = ConfigDict(use_attribute_docstrings=False)

    items: Annotated[list[T], Field(description="The entries of this page.")]
    next: Annotated[str | None, Field(description="Pass it as `cursor` for the next page. Null on the last page.")] = (
        None
    )
