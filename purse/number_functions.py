"""Functions of one number column: powers and B-splines, with the range that follows from the declared bounds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

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
_LEAST_KNOT_DISTANCE = 1e-6  # of the range, so that no slope between two knots overflows


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a number column: its name, its range, and its value for codes of the column.

    Parameters
    ----------
    column, factor : the column, and the factor that describes the function
    index : position of a B-spline among those of its factor; None for a power
    """

    name: str
    ends: tuple[float, float]
    values: Callable[[Codes], Floats]
    column: NumberColumn
    factor: Factor
    index: int | None = None


def functions_of(field: str, column: NumberColumn, factor: Factor) -> list[Function]:
    """Return the functions of a number column that a factor stands for."""
    if factor.has_category_settings:
        raise DesignError(field, f"must have no merge and no reference, because {column.name} is a number")
    if factor.knots is not None:
        return _splines(field, column, factor)
    ends = _power_ends(column, factor)
    check_finite(field, *ends)
    name = _power_name(factor)
    return [Function(name, ends, lambda codes: _power(_decoded(column, codes), factor), column, factor)]


def _power(x: Floats, factor: Factor) -> Floats:
    """Return ((x - center) / scale)^power, with 0 for results that are nearly subnormal."""
    base = _without_tiny((x - factor.center) / factor.scale)
    return nearest(reduce(np.multiply, [base] * factor.power))


def _without_tiny(base: Floats) -> Floats:
    """Return numbers with 0 in place of those whose powers can be subnormal."""
    return np.where(np.abs(base) < _SMALLEST_BASE, 0.0 * base, base)


def _power_name(factor: Factor) -> str:
    name = factor.column
    if factor.center:
        name = f"({name} {'-' if factor.center > 0 else '+'} {abs(factor.center):.12g})"
    if factor.scale != 1.0:
        name = f"({name} / {factor.scale:.12g})"
    return name if factor.power == 1 else f"{name}^{factor.power}"


def _power_ends(column: NumberColumn, factor: Factor) -> tuple[float, float]:
    """Return the range of the power of a column's numbers; its ends can be infinite."""
    lower, upper = column.ends
    with np.errstate(all="ignore"):
        low, high = sorted(_power(np.array([lower, upper]), factor).tolist())
    return (0.0 if lower <= factor.center <= upper and factor.power % 2 == 0 else low), high


def _splines(field: str, column: NumberColumn, factor: Factor) -> list[Function]:
    """Return all B-splines of a column's range but the first, whose sum with the others is 1."""
    low, high = column.ends
    knots = spline_knots(column, factor)
    inner = knots[factor.degree : -factor.degree]
    if any(b - a <= _LEAST_KNOT_DISTANCE for a, b in pairwise(inner.tolist())):
        raise DesignError(
            f"{field}.knots",
            f"must increase, and lie between the bounds {low:g} and {high:g}, more than a millionth of their distance "
            "apart",
        )

    def values(index: int) -> Callable[[Codes], Floats]:
        return lambda codes: nearest(_spline(_decoded(column, codes), column.ends, knots, factor.degree, index))

    count = len(factor.knots or ()) + factor.degree
    names = [f"bs({column.name})[{index}]" for index in range(1, count + 1)]
    return [Function(name, (0.0, 1.0), values(i), column, factor, i) for i, name in enumerate(names, start=1)]


def spline_knots(column: NumberColumn, factor: Factor) -> Floats:
    """Return the knots of B-splines as shares of the column's range, with the ends repeated `degree` + 1 times."""
    low, high = column.ends
    inner = [(knot - low) / (high - low) for knot in factor.knots or ()]
    return np.array([*[0.0] * (factor.degree + 1), *inner, *[1.0] * (factor.degree + 1)])


def _spline(x: Floats, ends: tuple[float, float], knots: Floats, degree: int, index: int) -> Floats:
    """Return one B-spline of a degree at x, by the recursion of de Boor over its own support; NaN where x is NaN.

    Parameters
    ----------
    ends : of the range of x, which are 0 and 1 in `knots`
    """
    low, high = ends
    share = _without_tiny((x - low) / (high - low))
    piece = degree + (share[:, None] >= knots[degree + 1 : -degree - 1]).sum(axis=1)
    splines = [np.where(piece == own, 1.0, 0.0) for own in range(index, index + degree + 1)]
    for order in range(1, degree + 1):
        splines = [
            _ramp(share, knots[own], knots[own + order]) * left
            + (1.0 - _ramp(share, knots[own + 1], knots[own + order + 1])) * right
            for own, (left, right) in enumerate(pairwise(splines), start=index)
        ]
    return splines[0]


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
