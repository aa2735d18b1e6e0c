"""Datasets: the steward's public declarations, and their budgets."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from accounting.privacy import MOST_ROWS, REPLACE_ONE, Unit
from purse.wire.base import Identifier, Name, Protected, Timestamp, Title, Wire
from purse.wire.budgets import Budget, BudgetChange, BudgetStatus
from purse.wire.columns import (
    BOUNDS,
    CategoryColumn,
    Column,
    NumberColumn,
    RejectedBound,
    as_iso_date,
    field_error,
)
from purse.wire.files import MAX_UNPARSED, MAX_UNPARSED_TARGET, PLAIN, Dialect, FileReport, Share
from purse.wire.neighbors import Neighbors

MAX_COLUMNS = 4096
DatasetState = Literal["open", "frozen", "deleted"]
MAX_NAME = 200
_OF_A_FILE = ("storage", "holdout", "dialect", "max_unparsed", "max_clamped", "targets")  # fields of a spec
SessionPolicy = Literal["refund", "no_refund", "refused"]
Sessions = Annotated[
    SessionPolicy,
    Field(
        description="Whether analysts may reserve budget for answers that their programs compute elsewhere (sessions). "
        "`refund`: yes, and closing a session returns its unused part. `no_refund`: yes, but a reservation stays "
        "charged. `refused`: no new sessions."
    ),
]

SESSION_RULES: dict[SessionPolicy, str] = {
    "refund": "accepted, and the unused part is refunded",
    "no_refund": "accepted, and nothing is refunded",
    "refused": "refused",
}
"""The rules for sessions, in words."""


class PersonUnit(Wire):
    """Persons as the protected unit. Neighbors differ in all rows of one person."""

    column: Annotated[
        Name | None,
        Field(
            description="The file's column that names each row's person. The column groups rows and is not stored. "
            "Optional only for a dataset without a file."
        ),
    ] = None
    max_rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    """Largest number of a person's rows that are used, the first ones of the file."""
    persons: Annotated[int | None, Field(ge=1, le=10**10)] = None
    """Public number of persons, including persons without a row. A file with more persons is refused. The default is
    the number in the file, which then becomes public. Required for a dataset without a file."""

    @property
    def name(self) -> str:
        """The name of the column, as `NumberColumn.name`; empty only for a dataset without a file."""
        return self.column or ""

    @property
    def of(self) -> str:
        """The column's name in the file, as `NumberColumn.of`."""
        return self.name

    @property
    def date(self) -> None:
        """None, because names of persons are not dates."""


class DatasetSpec(Wire):
    """The public declaration of a dataset. No part of it is read from the data."""

    name: Title
    data: Literal["stored", "elsewhere"] = "stored"
    """`stored`: the records are uploaded as a file. `elsewhere`: the records never reach this server, which only
    accounts for the answers that other programs compute from them. Then no file is sent."""
    rows: Annotated[int | None, Field(ge=1, le=10**10)] = None
    """Public number of rows. Required if `data` is elsewhere and rows are protected. Otherwise leave it out: rows of a
    file are counted, and if persons are protected the number of rows is secret."""
    columns: Annotated[list[Column], Field(max_length=MAX_COLUMNS)] = []
    """The columns to keep, at least one. Other columns are not stored. May be empty if `data` is elsewhere."""
    budget: Budget
    """The budget, enforced from now on."""
    sessions: Sessions = "refund"
    neighbors: Neighbors = REPLACE_ONE
    family: Title | None = None
    """Name that datasets about the same people have in common. They share the budget and the ledger of the first one.
    Each of them must state the same budget and neighbors."""

    unit: PersonUnit | None = None
    """The protected unit. A person is protected with all rows up to a cap. If null, single rows are protected."""

    storage: Literal["home", "partitions"] = "home"
    """Storage of the records, in the server's home or as partitions at the operator's location. No machine needs to
    hold all partitions."""

    holdout: Annotated[float | None, Field(gt=0, le=0.5)] = None
    """The share of records, or of persons if they are protected, in the holdout set. The holdout set is a dataset with
    the same budget that only evaluates models. A public rule on positions selects its records."""

    dialect: Dialect = PLAIN
    """Format of the file. The server guesses none of it."""
    max_unparsed: Share | dict[Name, Share] = MAX_UNPARSED
    """The largest share of a column's non-missing values that may fail to parse. A larger share refuses the file.
    Undeclared categories count as unparsed. Give a number for all columns, or a number for each named column. The other
    columns then have 0.05."""
    max_clamped: Share | dict[Name, Share] | None = None
    """The largest share of a number column's non-missing values that may be clamped to a bound. A larger share refuses
    the file. Give a number for all columns, or a number for each named column. By default any share is allowed."""
    targets: Annotated[list[Name], Field(max_length=MAX_COLUMNS)] = []
    """Columns that models will predict. At most 0.01 of their values may fail to parse, unless `max_unparsed` names the
    column."""

    @property
    def protected(self) -> Unit:
        """The unit of privacy: a row, or all rows of a person."""
        return Unit() if self.unit is None else Unit("person", self.unit.max_rows)

    @model_validator(mode="before")
    @classmethod
    def _refuse_written_bounds(cls, document: Any) -> Any:
        """Mark bounds that are numbers written as text, because their digits can mean two numbers.

        Their column rejects them, so that the error lists all other wrong fields too.
        """
        columns = document.get("columns") if isinstance(document, Mapping) else None
        if not isinstance(columns, list):
            return document
        return {**document, "columns": [_with_marked_bounds(column, document.get("dialect")) for column in columns]}

    @model_validator(mode="after")
    def _check_data(self) -> Self:
        """Raise a ValidationError for fields that are missing or do not apply, by the place of the records."""
        wrong = self._wrong_elsewhere() if self.data == "elsewhere" else self._wrong_stored()
        if wrong:
            errors = [field_error(tuple(field.split(".")), reason) for field, reason in wrong.items()]
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self

    def _wrong_stored(self) -> dict[str, str]:
        """Return the fields that a dataset with a file lacks or may not have, with reasons."""
        wrong = {}
        if not self.columns:
            wrong["columns"] = "must declare at least one column of the file"
        if self.unit is not None and self.unit.column is None:
            wrong["unit.column"] = "must name the column of the file that names each row's person"
        if self.rows is not None:
            wrong["rows"] = "must be left out, because the rows of the file are counted"
        return wrong

    def _wrong_elsewhere(self) -> dict[str, str]:
        """Return the fields that a dataset without a file lacks or may not have, with reasons."""
        fields = type(self).model_fields
        of_a_file = [name for name in _OF_A_FILE if getattr(self, name) != fields[name].get_default()]
        wrong = dict.fromkeys(of_a_file, "must be left out, because a dataset whose records are elsewhere has no file")
        if self.unit is None and self.rows is None:
            wrong["rows"] = "must state the public number of rows, because there is no file to count"
        if self.unit is not None and self.unit.persons is None:
            wrong["unit.persons"] = "must state the public number of persons, because there is no file to count"
        if self.unit is not None and self.rows is not None:
            wrong["rows"] = "must be left out, because the number of rows is secret if persons are protected"
        return wrong

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names, nulls = [c.name for c in self.columns], self.dialect.nulls
        if len(set(names)) < len(names):
            raise ValueError("column names must be distinct")
        limits = self.max_unparsed if isinstance(self.max_unparsed, dict) else {}
        if not {*limits, *self.targets} <= set(names):
            raise ValueError("max_unparsed and targets must name declared columns")
        numbers = {c.name for c in self.columns if isinstance(c, NumberColumn)}
        if isinstance(self.max_clamped, dict) and not set(self.max_clamped) <= numbers:
            raise ValueError("max_clamped must name declared number columns, because no other values are clamped")
        if any(marker in c.categories for c in self.columns if isinstance(c, CategoryColumn) for marker in nulls):
            raise ValueError("a category must not be one of the dialect's `nulls`. Remove it from either list")
        if self.unit is not None and self.unit.name in {c.of for c in self.columns}:
            raise ValueError("the unit's column must not be stored. Leave it out of the columns")
        if self.unit is not None and self.storage == "partitions":
            raise ValueError("persons cannot be protected in partitions. Leave out storage, or unit")
        if self.holdout is not None and self.storage == "partitions":
            raise ValueError("partitions cannot have a holdout set. Leave out storage, or holdout")
        if self.holdout is not None and len(self.holdout_spec.name) > MAX_NAME:
            raise ValueError("the holdout set is named after the dataset. Choose a shorter name")
        return self

    @property
    def holdout_spec(self) -> "DatasetSpec":
        """The declaration of the holdout set."""
        return self.model_copy(update={"name": f"{self.name} (holdout)", "holdout": None})

    def most_unparsed(self, name: str) -> float:
        """Return the largest share of a column's values that may not parse."""
        named = self.max_unparsed if isinstance(self.max_unparsed, dict) else {}
        usual = MAX_UNPARSED if isinstance(self.max_unparsed, dict) else self.max_unparsed
        return named.get(name, min(usual, MAX_UNPARSED_TARGET) if name in self.targets else usual)

    def most_clamped(self, name: str) -> float | None:
        """Return the largest share of a column's values that may be clamped, or None for no limit."""
        return self.max_clamped.get(name) if isinstance(self.max_clamped, dict) else self.max_clamped

    def settled(self) -> "DatasetSpec":
        """Return the declaration of a new dataset, with the defaults of its columns filled in."""
        columns = [column.settled() if isinstance(column, NumberColumn) else column for column in self.columns]
        return self.model_copy(update={"columns": columns})


def listed_order(holdouts: Sequence[tuple[str, str | None]]) -> list[int]:
    """Return the indices of datasets in an order in which each holdout set follows its dataset.

    Parameters
    ----------
    holdouts : the id of each dataset, and for a holdout set the id of the dataset to which it belongs
    """
    positions = {dataset: position for position, (dataset, _) in enumerate(holdouts)}
    return sorted(
        range(len(holdouts)), key=lambda at: (positions.get(holdouts[at][1] or "", at), bool(holdouts[at][1]))
    )


def _with_marked_bounds(column: Any, dialect: object) -> Any:
    """Return a number column in which each bound that is rejected for its text is a `RejectedBound`."""
    if not isinstance(column, Mapping) or column.get("type") != "number":
        return column
    reasons = {name: _rejection_of_text(column.get(name), column.get("date"), dialect) for name in BOUNDS}
    return {**column, **{name: RejectedBound(reason) for name, reason in reasons.items() if reason is not None}}


def _rejection_of_text(bound: object, date: object, dialect: object) -> str | None:
    """Return why a bound is rejected that is text and a number or a date in the file's format; None if it is not.

    Parameters
    ----------
    date : what the column stores of a date
    dialect : the declared format of the file
    """
    if not isinstance(bound, str):
        return None
    try:
        declared = Dialect.model_validate(dialect or {})
    except ValueError:  # reported with the field `dialect`
        return None
    iso_date = as_iso_date(bound, declared.date_format, date)
    if iso_date is not None:
        return f"must be a number or an ISO date. Write {iso_date}"
    readings = {"in the declared dialect": declared.number(bound), "with a decimal point": PLAIN.number(bound)}
    readings = {how: number for how, number in readings.items() if math.isfinite(number)}
    if len(set(readings.values())) > 1:
        listed = " and ".join(f"{number:.15g} {how}" for how, number in readings.items())
        either = " or ".join(f"{number:.15g}" for number in readings.values())
        return f"is ambiguous: {bound!r} is {listed}. Write {either} as a number"
    for number in readings.values():
        return f"must be a number, not text. Write {number:.15g} as a number"
    return None


class Amendment(Wire):
    """Changes to a dataset. Null fields do not change. To change a column, withdraw the dataset and register it."""

    name: Title | None = None
    """Another name, allowed while nothing has been charged."""
    budget: BudgetChange | None = None
    """Another budget. After the first charge it must be larger, and is recorded as a new guarantee."""
    frozen: bool | None = None
    """If true, no job is charged or started until it is set to false again."""
    sessions: SessionPolicy | None = None
    """Another rule for sessions, allowed at any time. Open sessions keep the rule under which they were opened."""

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("the request changes nothing. Set name, budget, frozen or sessions")
        return self


class Dataset(Wire):
    """Public metadata of a dataset."""

    id: Identifier
    name: Name
    family: Name | None = None
    """The dataset whose budget and ledger it shares. Analysts do not see it."""
    rows: int | None
    """Public number of rows. Null if persons are protected, because it is then secret."""
    persons: int | None = None
    """Public number of persons, if they are protected."""
    unit: Protected
    data: Literal["stored", "elsewhere", "deleted", "withdrawn"] = "stored"
    """Whether its values are stored here, were never sent here, or are deleted. The name of a withdrawn dataset is free
    again."""
    columns: list[Column]
    """The declared columns. Empty if the records are elsewhere, and in a list requested with `columns=false`."""
    sessions: Sessions = "refund"
    budget: BudgetStatus
    """The budget as it stands."""
    warnings: list[str] = []
    """Warnings to the steward about the declaration."""
    profile: Identifier | None = None
    """The job that released its latest profile, which all its jobs may use."""
    holdout: Identifier | None = None
    """Its holdout set, which is a dataset of its own. `rows` and `persons` do not count it."""
    holdout_of: Identifier | None = None
    """For a holdout set, the dataset that it was split from."""
    created_at: Timestamp

    def __repr__(self) -> str:
        size = f"{self.rows:,} rows" if self.persons is None else f"{self.persons:,} persons"
        columns = f", {len(self.columns)} columns" if self.columns else ""
        return f"<dataset {self.name}, {self.id}: {size}{columns}>"


class Registered(Dataset):
    """The response to a registration, for the uploader."""

    report: FileReport
    """Outcomes of the file's values. Only this response states them. Empty for a dataset without a file."""

    @staticmethod
    def of(dataset: Dataset, report: FileReport) -> "Registered":
        """Return the response for a dataset and the report of its file."""
        return Registered(**dict(dataset), report=report)
