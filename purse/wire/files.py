"""The format of an uploaded file, and the report on its values for the uploader."""

import math
import re
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from purse.wire.base import Name, Wire

Encoding = Literal[
    "utf-8",
    "utf-16",
    "latin-1",
    "iso-8859-2",
    "iso-8859-15",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "shift_jis",
    "gb18030",
]
DatePart = Literal["days", "seconds", "year", "month", "day", "weekday", "hour", "minute"]
Share = Annotated[float, Field(ge=0, le=1)]
MAX_UNPARSED, MAX_UNPARSED_TARGET = 0.05, 0.01
OutcomeKind = Literal["clamped", "missing", "not_a_number", "not_a_date", "not_declared"]
SPACE: Final = " \t\n\v\f\r"
_DIRECTIVE = re.compile("%(.)")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPACES = "[ \u00a0\u202f]"


class Dialect(Wire):
    """Format of the file. The server guesses none of it. Values in another format are not parsed."""

    delimiter: Annotated[str, Field(pattern=r"^[\t !#$%&*,/:;<=>?@\\^_`|~]$")] = ","
    r"""Delimiter of the fields of a CSV file, such as `,`, `;`, `|`, a tab (`\t`) or a space."""
    # no enumeration: generators of clients cannot name its members
    quote: Annotated[str, Field(pattern="^[\"']?$")] = '"'
    """A double or single quote, around fields that contain a delimiter or a line end. If empty, no field is quoted."""
    encoding: Encoding = "utf-8"
    """Character encoding of a CSV file."""
    decimal: Literal[".", ","] = "."
    """The decimal mark of numbers in text."""
    thousands: Literal[",", ".", " ", "'", "_"] | None = None
    """Separator of groups of three digits. A space also stands for spaces that do not break."""
    nulls: Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)] = []
    """Texts that mean a missing value, such as NA. An empty field is always missing."""
    date_format: Annotated[str, Field(pattern=r"^(%[YmdHMS]|[^%\x00-\x1f\x7f])+$", max_length=60)] = "%Y-%m-%d"
    """Format of dates in text, with strftime's %Y, %m, %d, %H, %M and %S, each at most once."""

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written with a point and nothing else."""
        return self.decimal == "." and self.thousands is None

    @property
    def grouped(self) -> tuple[str, str]:
        """Regular expressions of a number whose digits stand in groups, and of the mark between the groups."""
        mark = _SPACES if self.thousands == " " else f"[{self.thousands}]"
        return rf"^[+-]?[0-9]{{1,3}}({mark}[0-9]{{3}})+([{self.decimal}][0-9]*)?([eE][+-]?[0-9]+)?$", mark

    def number(self, text: str) -> float:
        """Return the number of a text in this dialect, or NaN. Python's nan, inf and 1_000 are not numbers here."""
        text = text.strip(SPACE)
        if self.thousands is not None:
            form, mark = self.grouped
            text = re.sub(mark, "", text) if re.fullmatch(form, text) else text
        if self.decimal == ",":
            text = text.replace(".", "!").replace(",", ".")  # a point is not part of a number in this dialect
        return float(text) if _NUMBER.fullmatch(text) else math.nan

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if self.decimal == self.thousands:
            raise ValueError("decimal and thousands must differ")
        parts = _DIRECTIVE.findall(self.date_format)
        if len(set(parts)) < len(parts) or "Y" not in parts or ("d" in parts and "m" not in parts):
            raise ValueError(
                "date_format must contain %Y, must contain %m if it contains %d, and must not repeat a code"
            )
        return self


PLAIN = Dialect()


class Outcome(Wire):
    """Values of a column that were not stored as they are, of one kind."""

    what: OutcomeKind
    """Why another value is stored: the value is beyond a bound, or the default replaces it."""
    count: int
    """Number of such values."""
    line: int
    """Line of the first such value in the file, or its row in Parquet."""
    examples: list[str]
    """Some of these values as they stand in the file, shortened."""
    cure: str | None = None
    """A change of the declaration or the file that probably helps."""


class ColumnReport(Wire):
    """The outcomes of one column's values."""

    name: Name
    parsed: int
    """Values that were stored as they are."""
    outcomes: list[Outcome]
    """Values that were stored in another form, by kind."""
    max_unparsed: Share
    """The largest share of the non-missing values that may not parse."""
    max_clamped: Share | None = None
    """The largest share of the non-missing values that may be clamped. Null allows any share."""

    @property
    def unparsed(self) -> float:
        """The share of the non-missing values that did not parse."""
        return self._share(sum(self._counts.values()) - self._counts["clamped"] - self._counts["missing"])

    @property
    def clamped(self) -> float:
        """The share of the non-missing values that were clamped to a bound."""
        return self._share(self._counts["clamped"])

    @property
    def is_refused(self) -> bool:
        """Whether a share is above its limit."""
        return self.unparsed > self.max_unparsed or (self.max_clamped is not None and self.clamped > self.max_clamped)

    @property
    def _counts(self) -> dict[OutcomeKind, int]:
        counts: dict[OutcomeKind, int] = {"clamped": 0, "missing": 0}
        return counts | {outcome.what: outcome.count for outcome in self.outcomes}

    def _share(self, count: int) -> float:
        present = self.parsed + sum(self._counts.values()) - self._counts["missing"]
        return count / present if count else 0.0


class FileReport(Wire):
    """The outcomes of a file's values. Only the sender of the file receives it."""

    records: int
    """Records of the file."""
    columns: list[ColumnReport]
    """The reports, in the order of the declaration."""
    warnings: list[str] = []
    """Warnings about the names in the file's header, declared or not."""

    @property
    def refused(self) -> list[ColumnReport]:
        """The columns that refuse the file: more values did not parse, or were clamped, than their limits allow."""
        return [column for column in self.columns if column.is_refused]
