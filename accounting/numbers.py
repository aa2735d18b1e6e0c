"""The checks that every number passes on its way in: finite, of its kind, in its range. NaN is in no range."""

import math

from accounting.errors import OutOfRange

LAST_DIGITS = 1e-9  # relative: what rounding changes of a rate times a number
LEAST_RATE = 1e-9  # below it sampling is not worth its name, and the numerics of small rates end


def finite(value: object, name: str) -> float:
    """`value` as a float, if it is a finite real number (a bool is not a number here).

    Raises
    ------
    OutOfRange
        for NaN, infinities, bools, strings and everything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OutOfRange(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        raise OutOfRange(f"{name} must be finite") from None
    if not math.isfinite(number):
        raise OutOfRange(f"{name} must be finite")
    return number


def within(value: object, name: str, least: float, most: float) -> float:
    """`value` as a float, if it is a finite number in [least, most]; else `OutOfRange`."""
    number = finite(value, name)
    if not least <= number <= most:
        raise OutOfRange(f"{name} must lie in [{least:g}, {most:g}]")
    return number


def whole(value: object, name: str, least: int, most: int) -> int:
    """`value`, if it is an integer (no bool, no float) in [least, most]; else `OutOfRange`."""
    if type(value) is not int or not least <= value <= most:
        raise OutOfRange(f"{name} must be an integer in [{least}, {most}]")
    return value


def rate(value: object, name: str) -> float:
    """`value`, if it is the probability with which a record takes part: in [1e-9, 1]; else `OutOfRange`."""
    return within(value, name, LEAST_RATE, 1.0)
