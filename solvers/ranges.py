"""Ranges of settings, stated in the type of a dataclass's field.

A number has a range, as in `steps: Annotated[int, Whole(100)]`. A name has a choice of values, as in
`noise: Literal["gaussian", "laplace"] | None`.
"""

from dataclasses import dataclass, fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from solvers.errors import Unsuitable


@dataclass(frozen=True, slots=True)
class Whole:
    """The integers from 1 to `largest`, as the range of a setting."""

    largest: int

    def check(self, value: Any, name: str) -> None:
        """Raise `Unsuitable` unless the value is in the range."""
        if type(value) is not int or not 1 <= value <= self.largest:
            raise Unsuitable(f"{name} must be an integer in [1, {self.largest}]")

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Return the JSON schema of a setting, with this range."""
        return _limited(handler(core_schema), minimum=1, maximum=self.largest)


@dataclass(frozen=True, slots=True)
class Real:
    """The numbers from `lowest` to `highest`, as the range of a setting.

    Parameters
    ----------
    is_open : whether `lowest` itself is out of the range
    or_zero : whether 0 is in the range as well
    """

    lowest: float
    highest: float
    is_open: bool = False
    or_zero: bool = False

    def check(self, value: Any, name: str) -> None:
        """Raise `Unsuitable` unless the value is in the range."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_within = is_number and self.lowest <= value <= self.highest and not (self.is_open and value == self.lowest)
        if not is_within and not (is_number and self.or_zero and value == 0):
            also, bracket = "be 0 or " if self.or_zero else "", "(" if self.is_open else "["
            raise Unsuitable(f"{name} must {also}lie in {bracket}{self.lowest:g}, {self.highest:g}]")

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Return the JSON schema of a setting, with the limits of this range; one that also has 0 begins there."""
        lowest = {"exclusiveMinimum" if self.is_open else "minimum": 0 if self.or_zero else self.lowest}
        return _limited(handler(core_schema), maximum=self.highest, **lowest)


def _limited(schema: dict[str, Any], **limits: float) -> dict[str, Any]:
    """Add limits to the schema of a number, which may be one of several choices."""
    number = next(choice for choice in schema.get("anyOf", [schema]) if choice["type"] in ("integer", "number"))
    number.update(limits)
    return schema


Step = Annotated[float | None, Real(0, 1e15, is_open=True)]
Batch = Annotated[int | None, Whole(10**10)]
Ratio = Annotated[float | None, Real(1.1, 1000)]


def check_ranges(settings: Any) -> None:
    """Raise `Unsuitable` if a field of these settings has a value that its type does not allow."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        parts = get_args(field.type)
        for choice in (field.type, *parts):
            is_unset = value is None and NoneType in parts
            if get_origin(choice) is Literal and not is_unset and value not in get_args(choice):
                raise Unsuitable(f"{settings.name}: {field.name} must be one of: {', '.join(get_args(choice))}")
        for valid in getattr(field.type, "__metadata__", ()):
            if isinstance(valid, Whole | Real) and value is not None:
                valid.check(value, f"{settings.name}: {field.name}")
