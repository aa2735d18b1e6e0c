"""Functions of one number column: powers and B-splines, with the range that follows from the declared bounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from purse.coding import nearest
from purse.errors import DesignError
from purse.wire.columns import NumberColumn
from purse.wire.terms import Factor

Floats = NDArray[np.float64]
Codes = Mapping[str, Floats]
"""The codes of each declared column, (n,)."""

_SMALLEST_BASE = 2.0**-150  # powers and products of larger numbers are not subnormal


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a number column: its name, its range, and its value for codes of the column."""

    name: str
    ends: tuple[float, float]
    values: Callable[[Codes], Floats]


def functions_of(field: str, column: NumberColumn, factor: Factor) -> list[Function]:
    """Return the functions of a number column that a factor stands for."""
    if factor.has_category_settings:
        raise DesignError(field, f"must have no merge and no reference, because {column.name} is a number")
    if factor.knots is not None:
        return _splines(field, column, factor.knots, factor.degree)
    center, scale, power = factor.center, factor.scale, factor.power

    def values(codes: Codes) -> Floats:
        base = (_decoded(column, codes) - center) / scale
        base = np.where(np.abs(base) < _SMALLEST_BASE, 0.0 * base, base)
        return nearest(reduce(np.multiply, [base] * power))

    ends = _power_ends(column, factor)
    check_finite(field, *ends)
    return [Function(_power_name(factor), ends, values)]


def _power_name(factor: Factor) -> str:
    name = factor.column
    if factor.center:
        name = f"({name} {'-' if factor.center > 0 else '+'} {abs(factor.center):.12g})"
    if factor.scale != 1.0:
        name = f"({name} / {factor.scale:.12g})"
    return name if factor.power == 1 else f"{name}^{factor.power}"


def _power_ends(column: NumberColumn, factor: Factor) -> tuple[float, float]:
    """Return the range of ((x - center) / scale)^power."""
    low, high = ((end - factor.center) / factor.scale for end in column.ends)
    ends = sorted(math.prod([end] * factor.power) for end in (low, high))
    return (0.0 if low <= 0.0 <= high and factor.power % 2 == 0 else ends[0]), ends[1]


def _splines(field: str, column: NumberColumn, knots: Sequence[float], degree: int) -> list[Function]:
    """Return all B-splines of a column's range but the first, whose sum with the others is 1."""
    low, high = column.ends
    if any(a >= b for a, b in zip([low, *knots], [*knots, high], strict=True)):
        raise DesignError(f"{field}.knots", f"must increase, and lie between the bounds {low:g} and {high:g}")
    places = np.array([*[low] * (degree + 1), *knots, *[high] * (degree + 1)])

    def values(index: int) -> Callable[[Codes], Floats]:
        return lambda codes: nearest(_basis(_decoded(column, codes), places, degree)[index])

    count = len(knots) + degree
    return [Function(f"bs({column.name})[{index}]", (0.0, 1.0), values(index)) for index in range(1, count + 1)]


def _basis(x: Floats, places: Floats, degree: int) -> list[Floats]:
    """Return the B-splines of a degree at x, by the recursion of de Boor; all are NaN where x is NaN."""
    inner = places[degree + 1 : -degree - 1]
    piece = degree + (x[:, None] >= inner).sum(axis=1)
    splines = [np.where(piece == index, 1.0, 0.0) for index in range(len(places) - 1)]
    for order in range(1, degree + 1):
        splines = [
            _ramp(x, places[index], places[index + order]) * splines[index]
            + (1.0 - _ramp(x, places[index + 1], places[index + order + 1])) * splines[index + 1]
            for index in range(len(splines) - 1)
        ]
    return splines


def _ramp(x: Floats, start: float, end: float) -> Floats:
    """Return (x - start) / (end - start); NaN where x is NaN, and otherwise 0 if both ends are equal."""
    return (x - start) / (end - start) if end > start else 0.0 * x


def check_finite(field: str, *ends: float) -> None:
    """Raise a DesignError if the range of a term is not finite, because its values could then be no numbers."""
    if not all(map(math.isfinite, ends)):
        raise DesignError(field, "must have finite bounds. Center and scale the column")


def _decoded(column: NumberColumn, codes: Codes) -> Floats:
    """Return the numbers of a column, clamped to its declared ends; NaN stays NaN."""
    middle, half = column.middle_and_half
    return np.clip(middle + half * codes[column.name], *column.ends)
