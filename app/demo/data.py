"""The dataset of the demonstration and its declaration; see PROVENANCE.md.

Each row describes one person in one year of the RAND Health Insurance Experiment. A row is protected.
"""

import csv
import gzip
import warnings
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from purse import Model
from purse.prediction import UnsupportedCategory
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec

TARGET: Final = "repeat_visits"
POSITIVE: Final = "yes"
TEST_EVERY: Final = 5  # every fifth row is a test row, chosen by position

Row = Mapping[str, str]


def _number(name: str, lower: float, upper: float) -> Column:
    return NumberColumn(name=name, type="number", lower=lower, upper=upper)


def _category(name: str, *categories: str) -> Column:
    return CategoryColumn(name=name, type="category", categories=list(categories))


# The bounds come from the meaning of the variables and the rules of the experiment, not from the rows. The experiment
# had families with a head under 62 and an income up to 25,000 dollars of 1973, at six sites, for at most five years.
COLUMNS: Final[Sequence[Column]] = (
    _category(TARGET, "no", POSITIVE),
    _category("coinsurance", "0", "25", "50", "95", "100"),
    _category("individual_deductible", "no", "yes"),
    _category("site", "1", "2", "3", "4", "5", "6"),
    _category("year", "1", "2", "3", "4", "5"),
    _number("age", 0, 67),
    _category("child", "no", "yes"),
    _category("sex", "female", "male"),
    _number("education", 0, 20),
    _number("family_size", 1, 12),
    _number("income", 0, 25_000),
    _number("physical_limitation", 0, 1),
    _number("chronic_diseases", 0, 50),
    _number("mental_health", 0, 100),
    _category("health", "excellent", "good", "fair", "poor"),
)


def spec(budget: Budget) -> DatasetSpec:
    """Return the public declaration for the upload."""
    return DatasetSpec(name="randhie", columns=list(COLUMNS), budget=budget)


def rows() -> list[Row]:
    """Return every row, in the file's order."""
    packed = files("app.demo").joinpath("randhie.csv.gz").read_bytes()
    return list(csv.DictReader(gzip.decompress(packed).decode().splitlines()))


def split(everything: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows to upload and the test rows, chosen by position."""
    uploaded = [row for position, row in enumerate(everything, 1) if position % TEST_EVERY]
    return uploaded, list(everything[TEST_EVERY - 1 :: TEST_EVERY])


def accuracy(model: Model, rows: Sequence[Row]) -> float:
    """Return the share of the rows whose class the model predicts."""
    with warnings.catch_warnings():  # a few rows of rare categories hardly change the accuracy
        warnings.simplefilter("ignore", UnsupportedCategory)
        yes = model.predict(rows) > 0.5
    return sum(bool(y) == (row[TARGET] == POSITIVE) for y, row in zip(yes, rows, strict=True)) / len(rows)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
