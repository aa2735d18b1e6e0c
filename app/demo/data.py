"""The demonstration's dataset and its declaration; see PROVENANCE.md.

One row is one person in one year of the RAND Health Insurance Experiment, and a row is what is protected.
"""

import csv
import gzip
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import Budget, DatasetSpec

TARGET: Final = "repeat_visits"
POSITIVE: Final = "yes"
KEPT_OUT: Final = 5  # every fifth row stays out of the upload, whatever is in it

Row = Mapping[str, str]


def _number(name: str, lower: float, upper: float) -> Column:
    return NumberColumn(name=name, type="number", lower=lower, upper=upper)


def _category(name: str, *categories: str) -> Column:
    return CategoryColumn(name=name, type="category", categories=list(categories))


# From the variables' meaning and the experiment's rules, never from the rows: families with a head under 62 and an
# income up to 25,000 dollars of 1973 were enrolled, at six sites, for at most five years. What lies outside is clamped.
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
    """The public declaration that goes with the upload."""
    return DatasetSpec(name="randhie", columns=list(COLUMNS), budget=budget)


def rows() -> list[Row]:
    """Every row, in the file's order."""
    packed = files("app.demo").joinpath("randhie.csv.gz").read_bytes()
    return list(csv.DictReader(gzip.decompress(packed).decode().splitlines()))


def split(everything: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """(uploaded, kept out) by position alone."""
    uploaded = [row for position, row in enumerate(everything, 1) if position % KEPT_OUT]
    return uploaded, list(everything[KEPT_OUT - 1 :: KEPT_OUT])


def write(path: Path, some: Sequence[Row]) -> None:
    """The rows as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(some[0]))
        writer.writeheader()
        writer.writerows(some)
