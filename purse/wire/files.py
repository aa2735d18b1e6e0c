"""How a file is written, as the steward declares it, and what became of its values, as its uploader is told."""

import re
from typing import Annotated, Literal, Self

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
_DIRECTIVE = re.compile("%(.)")


class Dialect(Wire):
    """How the file is written. Nothing of it is guessed: what is written otherwise does not parse."""

    delimiter: Annotated[
        str,
        Field(
            pattern=r"^[\t !#$%&*,/:;<=>?@\\^_`|~]$",
            description="What stands between two fields of a CSV file: one of `,` `;` `|`, a tab (`\\t`), a space, ...",
        ),
    ] = ","
    quote: Annotated[
        str,  # no enumeration: generators of clients cannot name its members
        Field(
            pattern="^[\"']?$",
            description="Around fields that hold a delimiter or a line end: a double or single quote; empty for none.",
        ),
    ] = '"'
    encoding: Annotated[Encoding, Field(description="How a CSV file's characters are coded.")] = "utf-8"
    decimal: Annotated[Literal[".", ","], Field(description="The decimal mark of numbers in text.")] = "."
    thousands: Annotated[
        Literal[",", ".", " ", "'", "_"] | None,
        Field(description="What may stand between groups of three digits; a space stands for those that do not break."),
    ] = None
    nulls: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]],
        Field(max_length=100, description="What a missing value is written as, beside nothing at all: NA, say."),
    ] = []
    date_format: Annotated[
        str,
        Field(
            pattern=r"^(%[YmdHMS]|[^%\x00-\x1f\x7f])+$",
            max_length=60,
            description="How dates are written in text, in strftime's %Y, %m, %d, %H, %M and %S; each once at most.",
        ),
    ] = "%Y-%m-%d"

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written with a point and nothing else."""
        return self.decimal == "." and self.thousands is None

    @model_validator(mode="after")
    def _tellable(self) -> Self:
        if self.decimal == self.thousands:
            raise ValueError("decimal and thousands must differ")
        parts = _DIRECTIVE.findall(self.date_format)
        if len(set(parts)) < len(parts) or "Y" not in parts or ("d" in parts and "m" not in parts):
            raise ValueError("date_format must hold %Y, %m if it holds %d, and nothing twice")
        return self


PLAIN = Dialect()


class Outcome(Wire):
    """Values of a column that were not stored as they are, of one kind."""

    what: Annotated[
        OutcomeKind,
        Field(description="Beyond the bounds, and stored as the nearer one; or why the default is stored."),
    ]
    count: Annotated[int, Field(description="How many values.")]
    line: Annotated[int, Field(description="The file's line of the first one; of Parquet, its row.")]
    examples: Annotated[list[str], Field(description="Some of them as the file has them, shortened.")]
    cure: Annotated[str | None, Field(description="What probably helps.")] = None


class ColumnReport(Wire):
    """What became of one column's values."""

    name: Name
    parsed: Annotated[int, Field(description="Values that were stored as they are.")]
    outcomes: Annotated[list[Outcome], Field(description="All the others.")]
    max_unparsed: Annotated[
        Share, Field(description="Of the values that are there, the largest part that may not parse.")
    ]

    @property
    def unparsed(self) -> float:
        """The part of the values that are there that did not parse."""
        counts = {outcome.what: outcome.count for outcome in self.outcomes}
        read = self.parsed + counts.pop("clamped", 0)
        counts.pop("missing", 0)
        wrong = sum(counts.values())
        return wrong / (wrong + read) if wrong else 0.0

    @property
    def is_refused(self) -> bool:
        """Whether that is more than may be."""
        return self.unparsed > self.max_unparsed


class FileReport(Wire):
    """What became of a file's values: for whoever holds the file, and told nowhere else."""

    records: Annotated[int, Field(description="Records of the file.")]
    columns: Annotated[list[ColumnReport], Field(description="In the order declared.")]

    @property
    def refused(self) -> list[ColumnReport]:
        """Columns of which more than may be did not parse."""
        return [column for column in self.columns if column.is_refused]
