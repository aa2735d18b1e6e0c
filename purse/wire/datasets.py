"""Datasets: the steward's public declarations, and their budgets."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from accounting.privacy import MOST_ROWS, REPLACE_ONE, Unit
from purse.wire.base import Identifier, Name, Protected, Timestamp, Title, Wire
from purse.wire.budgets import Budget, BudgetChange, BudgetStatus
from purse.wire.columns import BOUNDS, CategoryColumn, Column, NumberColumn, settled
from purse.wire.files import MAX_UNPARSED, MAX_UNPARSED_TARGET, PLAIN, Dialect, FileReport, Share
from purse.wire.neighbors import Neighbors

MAX_COLUMNS = 4096
DatasetState = Literal["open", "frozen", "deleted"]
MAX_NAME = 200


class PersonUnit(Wire):
    """Persons as the protected unit: neighbors differ in all rows of one person."""

    column: Annotated[
        Name, Field(description="The file's column that names each row's person; it groups rows and is not stored.")
    ]
    max_rows: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    """k: of each person the first k rows of the file are used."""
    persons: Annotated[int | None, Field(ge=1, le=10**10)] = None
    """n, public: people without a row count, more than these in the file refuse it. If null, how many are in the file:
    every one is then known to have a row."""

    @property
    def name(self) -> str:
        """The column's."""
        return self.column

    @property
    def of(self) -> str:
        """The same."""
        return self.column

    @property
    def date(self) -> None:
        """Names are what they are."""


class DatasetSpec(Wire):
    """The public declaration of an upload. No part of it is read from the data."""

    name: Title
    columns: Annotated[list[Column], Field(min_length=1, max_length=MAX_COLUMNS)]
    """The columns to keep; others are not stored."""
    budget: Budget
    """The budget, enforced from now on."""
    neighbors: Neighbors = REPLACE_ONE
    family: Title | None = None
    """Datasets about the same people, under one name: they share the budget and the ledger of the first of them, and
    each must state that budget and those neighbors."""

    unit: PersonUnit | None = None
    """What is protected: a person, all rows of one up to a cap; a single row, if null."""

    storage: Literal["home", "partitions"] = "home"
    """Where records are kept: in the server's home; or as partitions in the place that the operator has named, which no
    machine need hold together."""

    holdout: Annotated[float | None, Field(gt=0, le=0.5)] = None
    """The share of records (of persons, where one is the unit) that is kept out of all training: a dataset of its own,
    with the same promise, of which models are evaluated and nothing else is asked. Which ones says a public rule on
    positions."""

    dialect: Dialect = PLAIN
    """How the file is written; nothing of it is guessed."""
    max_unparsed: Share | dict[Name, Share] = MAX_UNPARSED
    """The largest part of a column's values, of those that are there, that may not parse: more refuses the file. A
    category that is not declared does not parse. One number for all columns, or one for each that is named, and 0.05
    for the others."""
    max_clamped: Share | dict[Name, Share] | None = None
    """The largest share of a number column's non-missing values that may be clamped to a bound: a larger share refuses
    the file. One number for all columns, or one for each named column and no limit for the others. If null, no limit.
    """
    targets: Annotated[list[Name], Field(max_length=MAX_COLUMNS)] = []
    """Columns that models are to predict: of each at most 0.01 may not parse, unless `max_unparsed` names it."""

    @property
    def protected(self) -> Unit:
        """What neighbors differ in."""
        return Unit() if self.unit is None else Unit("person", self.unit.max_rows)

    @model_validator(mode="before")
    @classmethod
    def _refuse_written_bounds(cls, document: Any) -> Any:
        """Raise a ValueError for a bound that is a number written as text: its digits can mean two numbers."""
        columns = document.get("columns") if isinstance(document, Mapping) else None
        for index, column in enumerate(columns if isinstance(columns, list) else ()):
            if isinstance(column, Mapping):
                for bound in BOUNDS:
                    _refuse_written(column.get(bound), f"columns.{index}.{bound}", document.get("dialect"))
        return document

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
            raise ValueError("what the dialect says is missing is no category")
        if self.unit is not None and self.unit.column in {c.of for c in self.columns}:
            raise ValueError("the unit's column must not be stored: leave it out of the columns")
        if self.unit is not None and self.storage == "partitions":
            raise ValueError("persons' rows are laid out on one machine: leave out storage, or the unit")
        if self.holdout is not None and self.storage == "partitions":
            raise ValueError("records are parted on one machine: leave out storage, or holdout")
        if self.holdout is not None and len(self.kept_out.name) > MAX_NAME:
            raise ValueError("the kept-out part is named after the dataset: take a shorter name")
        return self

    @property
    def kept_out(self) -> "DatasetSpec":
        """The declaration of the part that is kept out."""
        return self.model_copy(update={"name": f"{self.name} (holdout)", "holdout": None})

    def most_unparsed(self, name: str) -> float:
        """The largest part of a column's values that may not parse."""
        named = self.max_unparsed if isinstance(self.max_unparsed, dict) else {}
        usual = MAX_UNPARSED if isinstance(self.max_unparsed, dict) else self.max_unparsed
        return named.get(name, min(usual, MAX_UNPARSED_TARGET) if name in self.targets else usual)

    def most_clamped(self, name: str) -> float | None:
        """The largest share of a column's values that may be clamped; None for no limit."""
        return self.max_clamped.get(name) if isinstance(self.max_clamped, dict) else self.max_clamped

    def settled(self) -> "DatasetSpec":
        """As a new dataset has it: what a column's rule fills in is written down."""
        return self.model_copy(update={"columns": settled(self.columns)})


def _refuse_written(bound: object, field: str, dialect: object) -> None:
    """Raise a ValueError if a bound is text that is a number in the dialect of the file or in JSON."""
    if not isinstance(bound, str):
        return
    try:
        declared = Dialect.model_validate(dialect or {})
    except ValueError:  # reported with the field `dialect`
        return
    readings = {"in the declared dialect": declared.number(bound), "with a decimal point": PLAIN.number(bound)}
    readings = {how: number for how, number in readings.items() if math.isfinite(number)}
    if len(set(readings.values())) > 1:
        listed = " and ".join(f"{number:.15g} {how}" for how, number in readings.items())
        either = " or ".join(f"{number:.15g}" for number in readings.values())
        raise ValueError(f"{field} is ambiguous: {bound!r} is {listed}. Write {either} as a JSON number")
    for number in readings.values():
        raise ValueError(f"{field} must be a number, not text: write {number:.15g} as a JSON number")


class Amendment(Wire):
    """Changes to a dataset; null fields stay. To change a column, withdraw the dataset and register it again."""

    name: Title | None = None
    """Another name; while nothing has been charged."""
    budget: BudgetChange | None = None
    """Any other budget while nothing has been charged; a larger one, a new promise, after that."""
    frozen: bool | None = None
    """True stops all spending and all starts at once; false lifts that."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.name is None and self.budget is None and self.frozen is None:
            raise ValueError("name, budget or frozen must be given")
        return self


class Dataset(Wire):
    """Public metadata of a dataset."""

    id: Identifier
    name: Name
    family: Name | None = None
    """Whose budget and ledger it shares; an analyst is not told."""
    rows: int | None
    """n, public. Null where a person is the unit: how many rows there are is secret."""
    persons: int | None = None
    """n, public, where a person is the unit."""
    unit: Protected
    data: Literal["stored", "deleted", "withdrawn"] = "stored"
    """Whether its values are still there; withdrawn, it is a dataset no more, and its name free."""
    columns: list[Column]
    """The declared columns."""
    budget: BudgetStatus
    """The budget as it stands."""
    warnings: list[str] = []
    """What the steward should know about the declaration."""
    profile: Identifier | None = None
    """The job that released its latest profile, which all its jobs may use."""
    holdout: Identifier | None = None
    """Its kept-out part, a dataset of its own; `rows` and `persons` are without it."""
    holdout_of: Identifier | None = None
    """Of a kept-out part, the dataset that it is kept out of."""
    created_at: Timestamp

    def __repr__(self) -> str:
        size = f"{self.rows:,} rows" if self.persons is None else f"{self.persons:,} persons"
        return f"<dataset {self.name}, {self.id}: {size}, {len(self.columns)} columns>"


class Registered(Dataset):
    """The response to a registration, for the uploader."""

    report: FileReport
    """What became of the file's values. It is told here, once, and kept nowhere."""

    @staticmethod
    def of(dataset: Dataset, report: FileReport) -> "Registered":
        """A dataset, and the report of its file."""
        return Registered(**dict(dataset), report=report)
