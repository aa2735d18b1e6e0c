"""The encoding of records: enc(record) = (enc_1(value_1), ..., enc_p(value_p)).

Every stored number depends on one value and the public declaration, and on nothing else in the file. Therefore
neighboring files are stored as neighboring datasets. Proof: docs/proofs/encoding.md.

    number     x -> ((x - l) - (u - x)) / (u - l), x clamped to [l, u]; in [-1, 1] exactly, after rounding too; or
               (x - origin) / scale, clamped to [-1, 1]; 0 if it is nearer to 0 than 2^-300
    category   the position of the value among the declared categories, 0..k-1; k for "other"

A date is stored as the number that the column requests. Values that are missing or do not parse become the column's
default. The fate of each value is returned beside its code, for the uploader alone (`app.sources.tally`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.sources import dates
from purse.coding import codes_of, default_code
from purse.dates import part
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.files import PLAIN, DatePart, Dialect

Floats = NDArray[np.float64]
Fates = NDArray[np.uint8]

_PIECE_BYTES = 2**20  # of text that is copied at a time

# The text that is read as a number: all that an Arrow cast accepts, except nan and inf.
NUMBER_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class Fate(IntEnum):
    """The outcome of a value."""

    PARSED = 0
    CLAMPED = 1
    MISSING = 2
    UNPARSED = 3


@dataclass(frozen=True, slots=True)
class NumberEncoder:
    """Clamp to [lower, upper], then map affinely into [-1, 1].

    Without an origin both differences lie in [0, u - l], and rounding is monotone, so that the quotient lies in
    [-1, 1]. With an origin the quotient is clamped to [-1, 1]. Bounds up to 1e150 and scales from 1e-150 cannot
    overflow.
    """

    column: NumberColumn
    dialect: Dialect = PLAIN

    @property
    def missing(self) -> float:
        """The code of the column's default, or of the middle of the range."""
        return default_code(self.column)

    def read(self, values: pa.Array) -> tuple[Floats, Fates]:
        """Return the code and the fate of each value, shape (len(values),)."""
        if pa.types.is_dictionary(values.type):
            return _each(self, values)
        present = _without_nulls(values, self.dialect)
        date = self.column.date
        x = _numbers(present, self.dialect) if date is None else _dates(present, date, self.dialect)
        lower, upper = self.column.ends
        if len(x) and lower <= x.min() and x.max() <= upper:  # none of them is NaN
            return codes_of(self.column, x), np.zeros(len(x), np.uint8)
        fates: Fates = ((x < lower) | (x > upper)).view(np.uint8)
        is_finite = np.isfinite(x)
        codes = np.where(is_finite, codes_of(self.column, x), self.missing)
        return codes, _with_lost(fates, ~is_finite, present)


@dataclass(frozen=True, slots=True)
class CategoryEncoder:
    """The position of a value among the categories: of its exact text, otherwise without surrounding white space.

    Parameters
    ----------
    categories : pa.Array of strings, distinct
    missing : float, the code of the column's default; len(categories) is "other"
    date : the part of a date that is the category
    """

    categories: pa.Array
    missing: float
    dialect: Dialect = PLAIN
    date: DatePart | None = None

    @staticmethod
    def of(column: CategoryColumn, dialect: Dialect = PLAIN) -> "CategoryEncoder":
        """Return the encoder of a declared column."""
        missing = float(column.default_code)
        return CategoryEncoder(pa.array(column.categories, pa.string()), missing, dialect, column.date)

    def read(self, values: pa.Array) -> tuple[Floats, Fates]:
        """Return the code and the fate of each value, shape (len(values),)."""
        if pa.types.is_dictionary(values.type):
            return _each(self, values)
        present = _without_nulls(values, self.dialect)
        words = texts(present if self.date is None else pa.array(_dates(present, self.date, self.dialect)))
        codes = pc.index_in(words, self.categories)
        if codes.null_count:
            codes = pc.coalesce(codes, pc.index_in(pc.ascii_trim_whitespace(words), self.categories))
        fates: Fates = np.zeros(len(values), np.uint8)
        if codes.null_count:
            fates = _with_lost(fates, codes.is_null().to_numpy(zero_copy_only=False), present)
        return _plain(codes.cast(pa.float64()), self.missing), fates


Encoder = NumberEncoder | CategoryEncoder


def encoder(column: Column, dialect: Dialect = PLAIN) -> Encoder:
    """Return the encoder of a declared column."""
    return NumberEncoder(column, dialect) if isinstance(column, NumberColumn) else CategoryEncoder.of(column, dialect)


def _each(encoder: Encoder, values: pa.DictionaryArray) -> tuple[Floats, Fates]:
    """Encode each distinct value once, a piece of the dictionary at a time; a code depends on its value alone."""
    encoded = [encoder.read(piece) for piece in pieces(values.dictionary)]
    codes = np.concatenate([*(part for part, _ in encoded), [encoder.missing]])
    fates = np.concatenate([*(part for _, part in encoded), [np.uint8(Fate.MISSING)]])
    at = values.indices.cast(pa.int64()).fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
    return codes[at], fates[at]


def pieces(values: pa.Array) -> Iterator[pa.Array]:
    """Yield values in slices of at most 1 MiB of text or a single value, so that a copy of a slice is small.

    Values of other types, which are short, are one slice.
    """
    if not is_text(values.type):
        yield values
        return
    ends = np.cumsum(text_lengths(values))
    start = 0
    while start < len(values):
        offset = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, offset + _PIECE_BYTES, side="right")))
        yield values.slice(start, stop - start)
        start = stop


def text_lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Return the length of each text in bytes, 0 for null; shape (len(texts),)."""
    plain = texts.cast(pa.string()) if pa.types.is_string_view(texts.type) else texts
    lengths: NDArray[np.int64] = pc.binary_length(plain).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths


def _without_nulls(values: pa.Array, dialect: Dialect) -> pa.Array:
    """Return the values, null where the dialect lists the text as missing."""
    if not dialect.nulls or pa.types.is_null(values.type):
        return values
    is_null = pc.is_in(pc.ascii_trim_whitespace(texts(values)), pa.array(dialect.nulls, pa.string()))
    return pc.if_else(is_null, pa.scalar(None, values.type), values)


def _with_lost(fates: Fates, lost: NDArray[np.bool_], values: pa.Array) -> Fates:
    """Return the fates, filled in where a default is stored: the value is missing or does not parse."""
    if lost.any():
        some = values.filter(pa.array(lost))
        is_missing = some.is_null(nan_is_null=True)
        if is_text(some.type):
            is_missing = pc.or_(
                is_missing, pc.equal(pc.binary_length(pc.ascii_trim_whitespace(some)), 0).fill_null(True)
            )
        fates[lost] = np.where(is_missing.to_numpy(zero_copy_only=False), Fate.MISSING, Fate.UNPARSED)
    return fates


def _dates(values: pa.Array, requested: DatePart, dialect: Dialect) -> Floats:
    """Return the requested part of each date; NaN for other values."""
    if is_text(values.type):
        return part(dates.parsed(pc.ascii_trim_whitespace(values), dialect.date_format), requested)
    if dates.is_date(values.type):
        return part(values.to_numpy(zero_copy_only=False), requested)
    return np.full(len(values), np.nan)


def _numbers(values: pa.Array, dialect: Dialect) -> Floats:
    """Return doubles, rounded to nearest; NaN for null and for text that is not a number."""
    if is_text(values.type):
        text = pc.ascii_trim_whitespace(values)
        values = _parsed(text if dialect.is_plain else _plainly_written(text, dialect))
    return _plain(values.cast(pa.float64(), safe=False), np.nan)


def _plainly_written(text: pa.Array, dialect: Dialect) -> pa.Array:
    """Rewrite the numbers of a dialect with a decimal point alone. Text that is a number only elsewhere is not one."""
    if dialect.thousands is not None:
        form, mark = dialect.grouped
        is_grouped = pc.match_substring_regex(text, form)
        text = pc.if_else(is_grouped, pc.replace_substring_regex(text, mark, ""), text)
    if dialect.decimal == ",":
        text = pc.replace_substring(pc.replace_substring(text, ".", "!"), ",", ".")
    return text


def _parsed(text: pa.Array) -> pa.Array:
    """Return doubles; null or not finite for text that is not a number.

    The cast accepts the whole array or nothing. Text that only the cast accepts is never finite, so that a value has
    the same result in every batch, which a test verifies.
    """
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        numbers = pc.if_else(pc.match_substring_regex(text, NUMBER_PATTERN), text, pa.scalar(None, text.type))
        return numbers.cast(pa.float64())


def texts(values: pa.Array) -> pa.Array:
    """Return strings: true and false, integers and decimals as written, floats in their shortest form (1 for 1.0)."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
    return values.cast(pa.string())


def _plain(values: pa.Array, missing: float) -> Floats:
    plain: Floats = values.fill_null(missing).to_numpy(zero_copy_only=False)
    return plain


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
