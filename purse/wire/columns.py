"""Columns as they are declared: public bounds and categories, and how a value is coded."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from purse.wire.base import Name, Wire
from purse.wire.files import DatePart

MAX_CATEGORIES = 2**17
_LARGEST = 1e150
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")
_SECONDS = {"days": 86400, "seconds": 1}
BOUNDS = ("lower", "upper", "default", "origin")

_SAID = {
    "anyOf": [
        {"type": "number", "minimum": -_LARGEST, "maximum": _LARGEST},
        {
            "type": "string",
            "pattern": f"^{_ISO.pattern}$",
            "description": "An ISO date, where `date` is days or seconds.",
        },
    ]
}
Bound = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST), WithJsonSchema(_SAID, mode="validation")]


def _is_none(said: object) -> bool:
    return said is None  # what columns could not say at first they leave out: digests of earlier ones stand


Source = Annotated[
    Name | None,
    Field(description="The file's column that it is read from, if that has another name.", exclude_if=_is_none),
]
DateOf = Annotated[
    DatePart | None,
    Field(
        description="Where the file has dates, what is stored of each: days or seconds since 1970-01-01, or a part; a "
        "weekday from 1, Monday.",
        exclude_if=_is_none,
    ),
]


class NumberColumn(Wire):
    """A numeric column. Values outside [lower, upper] are clamped to it; the bounds are public.

    Where `date` is days or seconds, lower, upper, default and origin may be said as ISO dates: "2020-01-31", or for
    seconds "2020-01-31T12:30". Each is the number of that date from then on.

    Its code is ((x - lower) - (upper - x)) / (upper - lower), in [-1, 1]; with an origin (x - origin) / scale, clamped
    to [-1, 1].
    """

    name: Name
    type: Annotated[Literal["number"], Field(description="A number.")]
    lower: Annotated[Bound, Field(description="Public lower bound.")]
    upper: Annotated[Bound, Field(description="Public upper bound, above lower.")]
    default: Annotated[
        Bound | None, Field(description="For missing or unparsable values; the middle of the range if null.")
    ] = None
    origin: Annotated[
        Bound | None,
        Field(
            description="The value coded 0, between lower and upper: a natural zero, say. The middle if null; in a new "
            "dataset the lower end, where the ends are consecutive whole numbers (a column of zeros and ones)."
        ),
    ] = None
    scale: Annotated[
        float | None,
        Field(
            ge=1e-150,
            le=2 * _LARGEST,
            description="How far from the origin a code is 1 or -1; values beyond count as there. If null, the farther "
            "end. Only with an origin.",
        ),
    ] = None
    source: Source = None
    date: DateOf = None

    @property
    def of(self) -> str:
        """The file's column."""
        return self.source or self.name

    @property
    def coding(self) -> tuple[float, float] | None:
        """(origin, scale), the scale filled in; None without an origin."""
        if self.origin is None:
            return None
        return self.origin, self.scale or max(self.upper - self.origin, self.origin - self.lower)

    @property
    def middle_and_half(self) -> tuple[float, float]:
        """The pair (middle, half) of the code: a value inside the range is middle + half * code."""
        return self.coding or ((self.lower + self.upper) / 2, (self.upper - self.lower) / 2)

    @property
    def code_range(self) -> tuple[float, float]:
        """Where codes lie, rounding included: it is monotone."""
        if self.coding is None:
            return -1.0, 1.0
        origin, scale = self.coding
        return max(-1.0, (self.lower - origin) / scale), min(1.0, (self.upper - origin) / scale)

    @property
    def ends(self) -> tuple[float, float]:
        """Beyond which a number counts as the nearer one."""
        if self.coding is None:
            return self.lower, self.upper
        origin, scale = self.coding
        return max(self.lower, origin - scale), min(self.upper, origin + scale)

    def settled(self) -> "NumberColumn":
        """As a new dataset has it: from its lower end where its ends are consecutive whole numbers."""
        if self.origin is not None or not self._is_step:
            return self
        return self.model_copy(update={"origin": self.lower, "scale": 1.0})

    @property
    def is_settled(self) -> bool:
        """Whether `settled` may have filled in the coding."""
        return self._is_step and self.coding == (self.lower, 1.0)

    @property
    def _is_step(self) -> bool:
        return self.lower == round(self.lower) and self.upper == self.lower + 1

    @model_validator(mode="before")
    @classmethod
    def _from_dates(cls, said: Any) -> Any:
        """Numbers in the place of ISO dates."""
        if not isinstance(said, Mapping) or not any(isinstance(said.get(end), str) for end in BOUNDS):
            return said
        return {
            **said,
            **{k: _since_1970(k, said[k], said.get("date")) for k in BOUNDS if isinstance(said.get(k), str)},
        }

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")
        if self.default is not None and not self.lower <= self.default <= self.upper:
            raise ValueError("default must lie between lower and upper")
        if self.origin is not None and not self.lower <= self.origin <= self.upper:
            raise ValueError("origin must lie between lower and upper")
        if self.scale is not None and self.origin is None:
            raise ValueError("scale goes with an origin")
        return self


def _since_1970(end: str, text: str, date: object) -> float:
    """The days or seconds of an ISO date."""
    seconds = _SECONDS.get(str(date))
    if seconds is None:
        raise ValueError(f"{end} must be a number; a date goes with a `date` of days or seconds")
    try:
        if not _ISO.fullmatch(text):
            raise ValueError
        found = (datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds() / seconds
    except ValueError:
        raise ValueError(f"{end} must be a number or an ISO date such as 2020-01-31") from None
    if found != round(found):
        raise ValueError(f"{end} must be a date without a time, where days are stored")
    return found


class CategoryColumn(Wire):
    """A categorical column. Values that are not declared become the default, else "other"."""

    name: Name
    type: Annotated[Literal["category"], Field(description="A category.")]
    categories: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500)]],
        Field(min_length=1, max_length=MAX_CATEGORIES, description="The public list of values, distinct."),
    ]
    default: Annotated[str | None, Field(description="A category for missing or undeclared values; other if null.")] = (
        None
    )
    source: Source = None
    date: DateOf = None

    @property
    def of(self) -> str:
        """The file's column."""
        return self.source or self.name

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("categories must be distinct")
        if self.default is not None and self.default not in self.categories:
            raise ValueError("default must be one of the categories")
        return self


Column = Annotated[NumberColumn | CategoryColumn, Field(discriminator="type")]


def settled(columns: Sequence[Column]) -> list[Column]:
    """As a new dataset has them: what a column's rule fills in is written down."""
    return [column.settled() if isinstance(column, NumberColumn) else column for column in columns]
