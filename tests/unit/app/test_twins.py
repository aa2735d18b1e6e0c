"""Twins: drawn by what is public, the same everywhere, and read back as they were drawn."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.sources import ingest, twins
from app.sources.ingest import Reading
from app.sources.persons import People
from app.sources.twins import ColumnLaw, Sample, Twin, uniform
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.datasets import DatasetSpec, PersonUnit

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 17, "upper": 90},
    {"name": "flag", "type": "number", "lower": 0, "upper": 1},
    {"name": "sex", "type": "category", "categories": ["f", "m; or both"]},
    {"name": "year", "type": "number", "lower": 2010, "upper": 2020, "source": "seen", "date": "year"},
    {"name": "weekday", "type": "category", "categories": list("1234567"), "source": "seen", "date": "weekday"},
    {"name": "since", "type": "number", "lower": 0, "upper": 20000, "date": "days"},
    {"name": "at", "type": "number", "lower": 0, "upper": 86400 * 20000, "date": "seconds"},  # without a time in text
    {"name": "is_f", "type": "category", "categories": ["f"], "source": "sex"},
]
UNIFORM = [0.5716872956720823, 0.07312059306572827]
DIALECTS: list[dict[str, Any]] = [
    {},
    {"delimiter": ";", "decimal": ",", "date_format": "%d.%m.%Y", "encoding": "latin-1", "quote": "'"},
    {"delimiter": "\t", "quote": "", "encoding": "utf-16", "thousands": ","},
]


def _twin(dialect: dict[str, Any]) -> tuple[Twin, DatasetSpec]:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    declaration = {"name": "x", "columns": COLUMNS, "budget": budget, "dialect": dialect, "max_unparsed": {"is_f": 1.0}}
    spec = DatasetSpec.model_validate(declaration).settled()
    return Twin(twins.declared(spec.columns), spec.dialect), spec


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_of_a_twin_is_read_back_unchanged(dialect: dict[str, Any], tmp_path: Path) -> None:
    twin, spec = _twin(dialect)
    file = tmp_path / "twin.csv"
    file.write_bytes(b"".join(twins.csv_file(twin, 3, 2100)))
    reading, tally = Reading.of(spec)
    read = np.concatenate(list(ingest.encoded(file, reading)))
    np.testing.assert_array_equal(read, twin.codes(3, range(2100)))
    lost = {column.name: column.unparsed for column in tally.report.columns if column.name != "is_f"}
    assert set(lost.values()) == {0.0}, "every value is as declared"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_samples_rows_are_written_as_they_were_read(dialect: dict[str, Any], tmp_path: Path) -> None:
    """To a few roundings of a double: what was coded is decoded, written with 12 digits and coded again."""
    twin, spec = _twin(dialect)
    rows = twin.codes(3, range(500))
    drawn = Twin(twin.laws, twin.dialect, Sample.of(rows))
    file = tmp_path / "twin.csv"
    file.write_bytes(b"".join(twins.csv_file(drawn, 8, 2100)))
    read = np.concatenate(list(ingest.encoded(file, Reading.of(spec)[0])))
    np.testing.assert_allclose(read, drawn.codes(8, range(2100)), atol=1e-12)
    assert {*map(tuple, np.round(read, 9))} <= {*map(tuple, np.round(rows, 9))}
    assert {*map(tuple, drawn.parted[1].codes(1, range(900)))} == {*map(tuple, rows[4::5])}


def test_persons_are_drawn_for_the_requested_rows_only() -> None:
    """At 4,096 rows each, all rows of the persons would need 2,000 times the memory."""
    np.testing.assert_array_equal(twins.owners(5, 2000, 7, 2000), twins.owners(5, 2000, 7)[:2000])
    tracemalloc.start()
    try:
        assert len(twins.owners(5, 20_000, 4096, 20_000)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 100 * 20_000
    finally:
        tracemalloc.stop()


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    twin, _ = _twin({})
    whole = twin.codes(1, range(50))
    np.testing.assert_array_equal(whole[20:], twin.codes(1, range(20, 50)))
    assert not np.array_equal(whole, twin.codes(2, range(50)))
    assert uniform(7, "age", range(2)).tolist() == UNIFORM, "on every machine"


@pytest.mark.slow
def test_columns_follow_their_laws_and_are_independent() -> None:
    """Bounds are five stds, or Kolmogorov's 2.6 / sqrt(n). Random numbers exceed them a few times in a million."""
    twin, _ = _twin({})
    n = 20_000
    drawn = twin.codes(11, range(n))
    assert np.abs(np.sort(drawn[:, 0]) - np.linspace(-1, 1, n)).max() < 2 * 2.6 / np.sqrt(n) + 1e-3
    assert set(drawn[:, 1]) == {0.0, 1.0}
    assert abs(drawn[:, 1].mean() - 0.5) < 5 * 0.5 / np.sqrt(n)
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 5 / np.sqrt(n)
    assert set(drawn[:, 4]) == set(range(7))


def test_a_number_lies_in_its_bins_as_often_as_their_weights_state() -> None:
    column = NumberColumn(name="x", type="number", lower=0, upper=10)
    drawn = ColumnLaw(column, (0.25, 0.0, 0.75), (0.0, 1.0, 4.0, 10.0)).drawn(uniform(1, "x", range(4000)))
    assert not ((drawn > 1) & (drawn < 4)).any()
    assert abs((drawn <= 1).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


@pytest.mark.parametrize(("default", "code"), [(None, 1.0), ("a", 0.0)])
def test_an_undeclared_value_becomes_other_or_the_default(default: str | None, code: float) -> None:
    column = CategoryColumn(name="x", type="category", categories=["a"], default=default)
    assert set(ColumnLaw(column, (0.0, 1.0)).drawn(uniform(1, "x", range(9)))) == {code}


def test_persons_have_rows_up_to_their_cap(tmp_path: Path) -> None:
    twin, spec = _twin({})
    unit, file = PersonUnit(column="who", max_rows=3), tmp_path / "twin.csv"
    file.write_bytes(b"".join(twins.csv_file(twin, 1, 600, unit)))
    people = People(unit)
    rows = sum(len(block) for block in ingest.encoded(file, Reading(spec.columns), people))
    sizes = np.bincount(people.owners)
    assert rows == 600
    assert set(sizes.tolist()) == {1, 2, 3}
