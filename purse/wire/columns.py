"""Declared columns: public bounds and categories, and how a value is encoded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, WithJsonSchema, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from purse.wire.base import Name, Wire, is_none
from purse.wire.files import DatePart

MAX_CATEGORIES = 2**17
OTHER_LEVEL = "(other)"
"""Name of the level of values that are not declared."""
_LARGEST = 1e150
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")
_SECONDS = {"days": 86400, "seconds": 1}
BOUNDS = ("lower", "upper", "default", "origin")

_BOUND_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": -_LARGEST, "maximum": _LARGEST},
        {
            "type": "string",
            "pattern": f"^{_ISO.pattern}$",
            "description": "An ISO date, if `date` is days or seconds.",
        },
    ]
}
Bound = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST), WithJsonSchema(_BOUND_SCHEMA, mode="validation")]


@dataclass(frozen=True, slots=True)
class RejectedBound:
    """A bound in a declaration that its column rejects, with the reason."""

    reason: str


Source = Annotated[
    Name | None,
    Field(description="Name of the column in the file, if it differs.", exclude_if=is_none),
]
DateOf = Annotated[
    DatePart | None,
    Field(
        description="Number stored for each date of the file: days or seconds since 1970-01-01, or a part of the date. "
        "Weekdays begin with 1 for Monday.",
        exclude_if=is_none,
    ),
]


class NumberColumn(Wire):
    """A numeric column. Values outside [lower, upper] are clamped to it. The bounds are public.

    If `date` is days or seconds, lower, upper, default and origin may be ISO dates: "2020-01-31", or for seconds
    "2020-01-31T12:30". They are converted to the number of that date.

    The code is ((x - lower) - (upper - x)) / (upper - lower), in [-1, 1], or with an origin (x - origin) / scale,
    clamped to [-1, 1].
    """

    name: Name
    type: Literal["number"]
    """A number."""
    lower: Bound
    """Public lower bound."""
    upper: Bound
    """Public upper bound, above lower."""
    default: Bound | None = None
    """Replaces missing and unparsable values. The default is the middle of the range."""
    origin: Bound | None = None
    """The value with code 0, between lower and upper, such as a natural zero. If null, the middle of the range has
    code 0, or in a new dataset with consecutive integers as bounds (a column of zeros and ones) the lower bound."""
    scale: Annotated[float | None, Field(ge=1e-150, le=2 * _LARGEST)] = None
    """Distance from the origin with code 1 or -1. Values beyond it are clamped. If null, the distance to the farther
    bound. Only with an origin."""
    source: Source = None
    date: DateOf = None

    @property
    def of(self) -> str:
        """The column's name in the file."""
        return self.source or self.name

    @property
    def code_count(self) -> int:
        """The number of coefficients: 1."""
        return 1

    @property
    def coding(self) -> tuple[float, float] | None:
        """The pair (origin, scale), with a default scale; None without an origin."""
        if self.origin is None:
            return None
        return self.origin, self.scale or max(self.upper - self.origin, self.origin - self.lower)

    @property
    def middle_and_half(self) -> tuple[float, float]:
        """The pair (middle, half) of the code: a value inside the range is middle + half * code."""
        return self.coding or ((self.lower + self.upper) / 2, (self.upper - self.lower) / 2)

    @property
    def code_range(self) -> tuple[float, float]:
        """The smallest and the largest code. Rounding cannot leave this range, because it is monotone."""
        if self.coding is None:
            return -1.0, 1.0
        origin, scale = self.coding
        return max(-1.0, (self.lower - origin) / scale), min(1.0, (self.upper - origin) / scale)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends to which numbers outside them are clamped."""
        if self.coding is None:
            return self.lower, self.upper
        origin, scale = self.coding
        return max(self.lower, origin - scale), min(self.upper, origin + scale)

    def settled(self) -> "NumberColumn":
        """Return the column of a new dataset: its origin is the lower bound if the bounds are consecutive integers."""
        if self.origin is not None or not self._is_step:
            return self
        return self.model_copy(update={"origin": self.lower, "scale": 1.0})

    @property
    def is_settled(self) -> bool:
        """Whether the coding may come from `settled`."""
        return self._is_step and self.coding == (self.lower, 1.0)

    @property
    def _is_step(self) -> bool:
        return self.lower == round(self.lower) and self.upper == self.lower + 1

    @model_validator(mode="before")
    @classmethod
    def _from_dates(cls, fields: Any) -> Any:
        """Return fields with numbers in place of ISO dates. Raise a ValidationError for rejected bounds."""
        if not isinstance(fields, Mapping):
            return fields
        rejected = {name: fields[name] for name in BOUNDS if isinstance(fields.get(name), RejectedBound)}
        if rejected:
            errors = [field_error((name,), bound.reason) for name, bound in rejected.items()]
            raise ValidationError.from_exception_data(cls.__name__, errors)
        dates = [name for name in BOUNDS if isinstance(fields.get(name), str)]
        return {**fields, **{name: _since_1970(name, fields[name], fields.get("date")) for name in dates}}

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError("lower must be below upper")
        if self.default is not None and not self.lower <= self.default <= self.upper:
            raise ValueError("default must lie between lower and upper")
        if self.origin is not None and not self.lower <= self.origin <= self.upper:
            raise ValueError("origin must lie between lower and upper")
        if self.scale is not None and self.origin is None:
            raise ValueError("scale is the distance from an origin. Add origin, or leave out scale")
        return self


def as_iso_date(text: str, date_format: str, date: object) -> str | None:
    """Return the ISO date of a bound that is written in the file's date format; None if it is another text.

    Parameters
    ----------
    date : what the column stores of a date; bounds can be dates only for days and seconds
    """
    if date not in _SECONDS or _ISO.fullmatch(text):
        return None
    try:
        moment = datetime.strptime(text, date_format)
    except ValueError:
        return None
    return moment.date().isoformat() if date == "days" else moment.isoformat()


def _since_1970(field: str, text: str, date: object) -> float:
    """Return the days or seconds of an ISO date."""
    seconds = _SECONDS.get(str(date))
    if seconds is None:
        raise ValueError(f"{field} must be a number. It may be a date only if `date` is days or seconds")
    try:
        if not _ISO.fullmatch(text):
            raise ValueError
        number = (datetime.fromisoformat(text) - datetime(1970, 1, 1)).total_seconds() / seconds
    except ValueError:
        raise ValueError(f"{field} must be a number or an ISO date such as 2020-01-31") from None
    if number != round(number):
        raise ValueError(f"{field} must be a date without a time, because days are stored")
    return number


class CategoryColumn(Wire):
    """A category column. Undeclared values are replaced by the default, or by "other" without one."""

    name: Name
    type: Literal["category"]
    """A category."""
    categories: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=500)]],
        Field(min_length=1, max_length=MAX_CATEGORIES),
    ]
    """The public list of distinct values."""
    default: str | None = None
    """Replaces missing and undeclared values. "other" if null."""
    source: Source = None
    date: DateOf = None

    @property
    def of(self) -> str:
        """The column's name in the file."""
        return self.source or self.name

    @property
    def code_count(self) -> int:
        """The number of codes, and so of coefficients: one for each category, and one for "other"."""
        return len(self.categories) + 1

    @property
    def default_code(self) -> int:
        """The code of missing and undeclared values."""
        return len(self.categories) if self.default is None else self.categories.index(self.default)

    @property
    def levels(self) -> list[str]:
        """The categories, and last the level of values that are not declared."""
        return [*self.categories, OTHER_LEVEL]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("categories must be distinct")
        if self.default is not None and self.default not in self.categories:
            raise ValueError("default must be one of the categories")
        return self


Column = Annotated[NumberColumn | CategoryColumn, Field(discriminator="type")]


def field_error(where: tuple[str | int, ...], reason: str) -> InitErrorDetails:
    """Return the error of a field, for a ValidationError."""
    return {"type": PydanticCustomError("value_error", "{reason}", {"reason": reason}), "loc": where, "input": None}
