"""Checks of numbers at the border: type, finiteness and range. NaN is outside every range."""

import sys

from accounting.errors import OutOfRange

LARGEST = sys.float_info.max
RATE_ROUNDING = 1e-9  # relative: more than rounding changes of a rate times a number
SMALLEST_RATE = 1e-9  # below it the numerics of small rates end


def finite(value: object, name: str) -> float:
    """Return `value` as a float. Raise `OutOfRange` unless it is a finite real number. A bool is not a number here."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OutOfRange(f"{name} must be a number")
    if not -LARGEST <= value <= LARGEST:
        raise OutOfRange(f"{name} must be finite")
    return float(value)


def within(value: object, name: str, minimum: float, maximum: float) -> float:
    """Return `value` as a float. Raise `OutOfRange` unless it is a finite number in [minimum, maximum]."""
    number = finite(value, name)
    if not minimum <= number <= maximum:
        raise OutOfRange(f"{name} must lie in [{minimum:g}, {maximum:g}]")
    return number


def whole(value: object, name: str, minimum: int, maximum: int) -> int:
    """Return `value`. Raise `OutOfRange` unless it is an integer (no bool, no float) in [minimum, maximum]."""
    if type(value) is not int or not minimum <= value <= maximum:
        raise OutOfRange(f"{name} must be an integer in [{minimum}, {maximum}]")
    return value
