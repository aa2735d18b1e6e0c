"""Published datasets from the folder BENCHMARK_DATA, read and encoded by the product.

It holds adult_train.parquet, adult_test.parquet, covtype.parquet, california_housing.parquet, protein_casp.parquet and
bank_full.parquet, with the publishers' column names and values, and w8a.libsvm.gz as published.

Bounds and categories come from the published descriptions of the sets (UCI), not from the rows; the categories of Adult
are listed by the published file itself, which stands for its description here.
"""

import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.sources.design import Design, load
from app.sources.ingest import Reading, store
from app.wire import JobPrivacy, JobRequest
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from solvers.columns import Columns
from solvers.data_access.data import Data
from solvers.data_access.unfolded import rows_of
from solvers.losses import Softmax, Squared
from solvers.problem import Problem

DATA = Path(os.environ.get("BENCHMARK_DATA", "data")).resolve()
_ADULT = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "hours_per_week": (1, 99),
}
_COVTYPE = {
    "Elevation": (1800, 3900),
    "Aspect": (0, 360),
    "Slope": (0, 70),
    "Horizontal_Distance_To_Hydrology": (0, 1400),
    "Vertical_Distance_To_Hydrology": (-200, 620),
    "Horizontal_Distance_To_Roadways": (0, 7200),
    "Hillshade_9am": (0, 255),
    "Hillshade_Noon": (0, 255),
    "Hillshade_3pm": (0, 255),
    "Horizontal_Distance_To_Fire_Points": (0, 7200),
}
_CALIFORNIA = {  # a block group of the 1990 census; the Census Bureau means them to have 600 to 3,000 people
    "longitude": (-124.5, -114.0),
    "latitude": (32.5, 42.0),
    "housing_median_age": (0, 52),
    "total_rooms": (0, 10_000),
    "total_bedrooms": (0, 2000),
    "population": (0, 5000),
    "households": (0, 2000),
    "median_income": (0, 15),
    "median_house_value": (0, 500_000),
}
_PROTEIN = {  # the published file stands for its description, which gives the range of RMSD alone
    "RMSD": (0, 21),
    "F1": (0, 40_000),
    "F2": (0, 15_000),
    "F3": (0, 0.6),
    "F4": (0, 400),
    "F5": (0, 5_500_000),
    "F6": (0, 600),
    "F7": (0, 100_000),
    "F8": (0, 350),
    "F9": (0, 60),
}
_BANK = {
    "age": (18, 95),
    "balance": (-10_000, 110_000),
    "day": (1, 31),
    "duration": (0, 5000),
    "campaign": (1, 63),
    "pdays": (-1, 900),
    "previous": (0, 300),
}
_HEALTH = {"whrswk": (0, 100), "experience": (-1, 60), "kidslt6": (0, 6), "kids618": (0, 10), "husby": (0, 200)}
_DIAMONDS = {
    "carat": (0, 6),
    "depth": (40, 80),
    "table": (40, 100),
    "price": (0, 20_000),
    "x": (0, 12),
    "y": (0, 60),
    "z": (0, 40),
}
_LISTED = Path(__file__).resolve().parents[1] / ".venv-peers/lib"  # pydataset, which `make peers` installs
_WORDS = 300
COVTYPE_ROWS = 200_000


@dataclass(frozen=True, eq=False)
class Split:
    """An encoded dataset, cut into rows to train on and rows kept out."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]
    row_norm: float
    columns: Columns | None = None


def adult() -> Split | None:
    """Return census income: 32,561 training rows, and 16,281 test rows of its publishers."""
    if not (DATA / "adult_train.parquet").exists():
        return None
    train, test = (pq.read_table(DATA / f"adult_{part}.parquet") for part in ("train", "test"))
    columns: list[Column] = []
    for name in train.column_names:
        if name in _ADULT:
            lower, upper = _ADULT[name]
            columns.append(NumberColumn(name=name, type="number", lower=float(lower), upper=float(upper)))
        else:
            values = sorted(set(train[name].to_pylist()))
            columns.append(CategoryColumn(name=name, type="category", categories=values))
    X, y, bound, layout = _encoded(pa.concat_tables([train, test]), columns, "income", ">50K")
    n = train.num_rows
    return Split("Adult", X[:n], y[:n], X[n:], y[n:], bound, layout)


def covertype(rows: int = COVTYPE_ROWS, *, settled: bool = False) -> Split | None:
    """Forest cover, class 2 against the rest: `rows` rows by a fixed permutation, as many of the others kept out.

    Its 44 indicators are coded -1 and 1, as when most tables of docs/benchmarks were printed; 0 and 1 if `settled`.
    """
    return _cover(rows, "2", settled=settled)


def cover_types(rows: int) -> Split | None:
    """Return forest cover with all seven classes, 0 to 6: the same rows, with indicators coded 0 and 1."""
    return _cover(rows, None, settled=True)


def _cover(rows: int, positive: str | None, *, settled: bool) -> Split | None:
    if not (DATA / "covtype.parquet").exists():
        return None
    table = pq.read_table(DATA / "covtype.parquet")
    kinds = [f"{k}" for k in range(1, 8)]
    columns: list[Column] = []
    for name in table.column_names:
        if name == "Cover_Type":
            columns.append(CategoryColumn(name=name, type="category", categories=kinds))
        else:
            lower, upper = _COVTYPE.get(name, (0, 1))
            columns.append(NumberColumn(name=name, type="number", lower=float(lower), upper=float(upper)))
    X, y, bound, layout = _encoded(table, columns, "Cover_Type", positive, settled=settled, apart=positive is None)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:rows], order[rows : 2 * rows]
    return Split("Covertype", X[train], y[train], X[test], y[test], bound, layout)


def california() -> Split | None:
    """Return median house values of California's block groups: four fifths train, by a fixed permutation."""
    return _numbers("California housing", "california_housing.parquet", _CALIFORNIA, "median_house_value")


def protein() -> Split | None:
    """Return errors of predicted protein structures (CASP, RMSD): four fifths train, by a fixed permutation."""
    return _numbers("Protein", "protein_casp.parquet", _PROTEIN, "RMSD")


def bank() -> Split | None:
    """Return responses to a bank's offers by telephone: four fifths train, by a fixed permutation."""
    if not (DATA / "bank_full.parquet").exists():
        return None
    return mixed("Bank", pq.read_table(DATA / "bank_full.parquet"), _BANK, "y", "yes")


def adult_part(chosen: list[str], target: str, positive: str | None) -> Split | None:
    """Return some columns of Adult; four fifths of all rows train, by a fixed permutation."""
    files = [DATA / f"adult_{part}.parquet" for part in ("train", "test")]
    if not all(file.exists() for file in files):
        return None
    table = pa.concat_tables([pq.read_table(file, columns=chosen) for file in files])
    bounds = {column: (float(lower), float(upper)) for column, (lower, upper) in _ADULT.items()}
    return mixed("Adult", table, bounds, target, positive)


def bank_part(chosen: list[str], target: str, positive: str | None) -> Split | None:
    """Return some columns of Bank; four fifths train, by a fixed permutation."""
    file = DATA / "bank_full.parquet"
    return mixed("Bank", pq.read_table(file, columns=chosen), _BANK, target, positive) if file.exists() else None


def w8a() -> Split | None:
    """Return web pages with indicators of 300 words: four fifths train, by a fixed permutation."""
    if not (DATA / "w8a.libsvm.gz").exists():
        return None
    with gzip.open(DATA / "w8a.libsvm.gz", "rt") as lines:
        records = [line.split() for line in lines if line.strip()]
    words = np.zeros((len(records), _WORDS))
    for row, record in zip(words, records, strict=True):
        row[[int(entry.partition(":")[0]) - 1 for entry in record[1:]]] = 1.0
    target = ["yes" if float(record[0]) > 0 else "no" for record in records]
    table = pa.table({f"word {j}": words[:, j] for j in range(_WORDS)} | {"topic": target})
    return mixed("w8a", table, {f"word {j}": (0, 1) for j in range(_WORDS)}, "topic", "yes")


def health() -> Split | None:
    """Return whether wives have health insurance by their own job (Ecdat's HI): four fifths train."""
    table = _listed("Ecdat/HI")
    if table is None:
        return None
    return mixed("Health insurance", table.drop_columns(["", "hhi2", "wght"]), _HEALTH, "whi", "yes")


def diamonds() -> Split | None:
    """Return prices of diamonds (ggplot2): four fifths train, by a fixed permutation."""
    table = _listed("ggplot2/diamonds")
    return None if table is None else mixed("Diamonds", table.drop_columns([""]), _DIAMONDS, "price", None)


def _listed(name: str) -> pa.Table | None:
    """A table of the package pydataset, read from its archive."""
    for archive in _LISTED.glob("python3*/site-packages/pydataset/resources.tar.gz"):
        with tarfile.open(archive) as files:
            file = files.extractfile(f"resources/rdata/csv/{name}.csv")
            assert file is not None
            return pyarrow.csv.read_csv(io.BytesIO(file.read()))
    return None


def mixed(
    name: str, table: pa.Table, bounds: Mapping[str, tuple[float, float]], target: str, positive: str | None
) -> Split:
    """Encode numbers by their published ranges, and other columns by the categories that the published file lists."""
    columns: list[Column] = []
    for column in table.column_names:
        if column in bounds:
            lower, upper = bounds[column]
            columns.append(NumberColumn(name=column, type="number", lower=float(lower), upper=float(upper)))
        else:
            values = sorted({str(value) for value in table[column].to_pylist()})
            columns.append(CategoryColumn(name=column, type="category", categories=values))
    X, y, bound, layout = _encoded(table, columns, target, positive)
    order = np.random.default_rng(0).permutation(len(y))
    train = order[: 4 * len(y) // 5]
    test = order[4 * len(y) // 5 :]
    return Split(name, X[train], y[train], X[test], y[test], bound, layout)


def _numbers(name: str, file: str, bounds: Mapping[str, tuple[float, float]], target: str) -> Split | None:
    """A table of numbers alone, the target coded in [-1, 1] like them."""
    if not (DATA / file).exists():
        return None
    return mixed(name, pq.read_table(DATA / file), bounds, target, None)


def _encoded(
    table: pa.Table,
    columns: list[Column],
    target: str,
    positive: str | None,
    *,
    settled: bool = True,
    apart: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, Columns]:
    spec = DatasetSpec(name="benchmark", columns=columns, budget=Budget(epsilon=1.0, delta=1e-6))
    spec = spec.settled() if settled else spec  # as a new dataset has it
    loss = Softmax() if apart else None
    privacy = JobPrivacy(epsilon=1.0)
    request = JobRequest(dataset="ds", target=target, positive=positive, loss=loss, privacy=privacy)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        stored = Path(folder) / "columns"
        pq.write_table(table, file, row_group_size=65_536)
        store(file, Reading(spec.columns, spec.dialect), stored)
        design = Design.of(spec, request)
        coded, y = load(design, stored, Path(folder))
        layout, n = design.columns, len(y)
        declared = Problem(Squared(), n=n, d=design.d, row_norm=layout.row_norm, columns=layout)
        X = rows_of(Data.coded(coded, y, declared))
    return X, y, design.row_norm, design.columns
