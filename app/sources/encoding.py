"""enc(record) = (enc_1(value_1), ..., enc_p(value_p)): every stored number is a function of one value and of the public
declaration, of nothing else in the file. Proof that this keeps neighbors neighbors: docs/proofs/encoding.md.

    number     x -> ((x - l) - (u - x)) / (u - l), x clamped to [l, u]; in [-1, 1] exactly, after rounding too; or
               (x - origin) / scale, clamped to [-1, 1]
    category   the position of the value among the declared categories, 0..k-1; k for "other"

What is missing or does not parse becomes the column's default. Nothing counts how often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.sources.errors import Mismatch
from purse.wire.datasets import CategoryColumn, Column, NumberColumn

Floats = NDArray[np.float64]

# All that is read as a number in text: what an Arrow cast takes, less nan and inf, which it also takes.
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class NumberEncoder:
    """Clamp to [lower, upper], then map affinely into [-1, 1].

    Without an origin both differences lie in [0, u - l] and rounding is monotone, so the quotient never leaves [-1, 1];
    with one the quotient is clamped to [-1, 1], and lies between those of the two ends. Bounds up to 1e150 and scales
    from 1e-150 cannot overflow.

    Parameters
    ----------
    column : whose declaration it is
    """

    column: NumberColumn

    def code(self, x: Floats) -> Floats:
        """The code of each finite number."""
        lower, upper, coding = self.column.lower, self.column.upper, self.column.coding
        inside = np.clip(x, lower, upper)
        if coding is None:
            found: Floats = ((inside - lower) - (upper - inside)) / (upper - lower)
            return found
        return np.clip((inside - coding[0]) / coding[1], -1.0, 1.0)

    @property
    def missing(self) -> float:
        """The code of the column's default, the middle of the range if there is none."""
        column = self.column
        if column.default is None and column.coding is None:
            return 0.0
        default = column.lower / 2 + column.upper / 2 if column.default is None else column.default
        return float(self.code(np.array([default]))[0])

    def scale(self, x: Floats) -> Floats:
        """The code of each number; `missing` where it is not finite."""
        return np.where(np.isfinite(x), self.code(x), self.missing)

    def encode(self, values: pa.Array) -> Floats:
        """The code of each value, shape (len(values),)."""
        if pa.types.is_dictionary(values.type):
            return _each(self, values)
        return self.scale(_numbers(values))


@dataclass(frozen=True, slots=True)
class CategoryEncoder:
    """The position of a value among the categories: of the value as it stands, else without its outer white space.

    Parameters
    ----------
    categories : pa.Array of strings, distinct
    missing : float, the code of the column's default; len(categories) is "other"
    """

    categories: pa.Array
    missing: float

    @staticmethod
    def of(column: CategoryColumn) -> "CategoryEncoder":
        """The encoder that a declaration implies."""
        default = len(column.categories) if column.default is None else column.categories.index(column.default)
        return CategoryEncoder(pa.array(column.categories, pa.string()), float(default))

    def encode(self, values: pa.Array) -> Floats:
        """The code of each value, shape (len(values),)."""
        if pa.types.is_dictionary(values.type):
            return _each(self, values)
        found = texts(values)
        codes = pc.index_in(found, self.categories)
        if codes.null_count:
            codes = pc.coalesce(codes, pc.index_in(pc.ascii_trim_whitespace(found), self.categories))
        return _plain(codes.cast(pa.float64()), self.missing)


Encoder = NumberEncoder | CategoryEncoder


def encoder(column: Column) -> Encoder:
    """The encoder of a declared column."""
    return NumberEncoder(column) if isinstance(column, NumberColumn) else CategoryEncoder.of(column)


class Named(Protocol):
    """A column of the file."""

    @property
    def name(self) -> str:
        """As the file's header has it."""


def locate(names: Sequence[str], columns: Sequence[Named]) -> list[int]:
    """Where each declared column stands in a file with these column names: an exact match, else one of trimmed names.

    Raises
    ------
    Mismatch
        if a declared column is not there, is there twice, or is one that another declaration has taken.
    """
    exact, trimmed = _positions(names), _positions([name.strip(" \t") for name in names])
    found = []
    for index, column in enumerate(columns):
        at = exact.get(column.name) or trimmed.get(column.name, [])
        if len(at) != 1:
            raise Mismatch(index, column.name, "is in the file more than once" if at else "is not in the file")
        if at[0] in found:
            raise Mismatch(index, column.name, "is the same column of the file as another one")
        found.append(at[0])
    return found


def _positions(names: Sequence[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, []).append(position)
    return positions


def _each(encoder: Encoder, values: pa.DictionaryArray) -> Floats:
    """Encodes each distinct value once, which comes to the same, since a code depends on its value alone."""
    codes = np.append(encoder.encode(values.dictionary), encoder.missing)
    found: Floats = codes[
        values.indices.cast(pa.int64()).fill_null(len(values.dictionary)).to_numpy(zero_copy_only=False)
    ]
    return found


def _numbers(values: pa.Array) -> Floats:
    """Doubles, rounded to nearest; NaN for what is null or is not a number."""
    if _is_text(values.type):
        values = _parsed(pc.ascii_trim_whitespace(values))
    return _plain(values.cast(pa.float64(), safe=False), np.nan)


def _parsed(text: pa.Array) -> pa.Array:
    """Doubles; null or not finite for what is no number.

    The cast takes all of the array or nothing. What it takes and the grammar does not is never finite, so a value comes
    out the same in any company, which a test holds.
    """
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        known = pc.if_else(pc.match_substring_regex(text, _NUMBER), text, pa.scalar(None, text.type))
        return known.cast(pa.float64())


def texts(values: pa.Array) -> pa.Array:
    """Strings: true and false, integers and decimals as they are written, floats in their shortest form (1 for 1.0)."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    return values.cast(pa.string())


def _plain(values: pa.Array, missing: float) -> Floats:
    plain: Floats = values.fill_null(missing).to_numpy(zero_copy_only=False)
    return plain


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
