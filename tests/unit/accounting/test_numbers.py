"""Checks of numbers that come in: their type, that they are finite, and their range."""

import math
from decimal import Decimal

import pytest

from accounting.errors import OutOfRange
from accounting.numbers import finite, whole, within

NO_NUMBERS = (math.nan, math.inf, -math.inf, True, "1", None, Decimal(1), 10**400, [1.0])


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_values_that_are_not_finite_numbers_are_refused(value: object) -> None:
    for check in (
        lambda: finite(value, "it"),
        lambda: within(value, "it", 0.0, 1e300),
        lambda: whole(value, "it", 0, 10),
    ):
        with pytest.raises(OutOfRange, match="it"):
            check()


def test_ranges_are_closed() -> None:
    assert [within(v, "it", 1, 2) for v in (1, 1.5, 2)] == [1.0, 1.5, 2.0]
    assert [whole(v, "it", 1, 2) for v in (1, 2)] == [1, 2]
    assert type(finite(3, "it")) is float
    for check, value in ((within, 0.99), (within, 2.01), (whole, 0), (whole, 3), (whole, 1.0)):
        with pytest.raises(OutOfRange):
            check(value, "it", 1, 2)
