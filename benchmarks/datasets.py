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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.sources.design import Design
from app.sources.ingest import Reading, store
from app.sources.matrix import open_coded, widths
from app.wire import JobPrivacy, JobRequest
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from solvers.columns import Columns
from solvers.data_access.data import Data
from solvers.data_access.unfolded import rows_of
from solvers.losses import Squared
from solvers.problem import Problem

DATA = Path(os.environ.get("BENCHMARK_DATA", "data")).resolve()
ADULT = {
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
_VISITS = {"age": (25, 64), "educ": (7, 18), "hhninc": (0, 20)} | dict.fromkeys(
    ("outwork", "female", "married", "kids", "self"), (0, 1)
)
_MOVIES = {"year": (1893, 2005), "length": (0, 300), "votes": (0, 200_000), "rating": (1, 10)} | dict.fromkeys(
    ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"), (0, 1)
)
_LISTED = Path(__file__).resolve().parents[1] / ".venv-peers/lib"  # pydataset, which `make peers` installs
_WORDS = 300
_MISSING = "not measured: the folder BENCHMARK_DATA does not have {}"
COVTYPE_ROWS = 200_000

T = TypeVar("T")
Bounds = Mapping[str, tuple[float, float]]
"""Published ranges of numbers, by column."""


@dataclass(frozen=True, eq=False)
class Split:
    """An encoded dataset: training rows and test rows."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.float64]
    row_norm: float
    columns: Columns | None = None


class MissingDataset(Exception):
    """A dataset whose file is not on this machine."""


def available(*loaders: Callable[[], T]) -> Iterator[T]:
    """Yield the datasets in order; print a line in place of one that is missing."""
    for load in loaders:
        try:
            yield load()
        except MissingDataset as error:
            print(error)


def adult() -> Split:
    """Return census income: 32,561 training rows, and 16,281 test rows of its publishers."""
    train = stored("adult_train.parquet")
    table = pa.concat_tables([train, stored("adult_test.parquet")])
    X, y, columns = _encoded(table, declared(table, ADULT), "income", ">50K")
    n = train.num_rows
    return Split("Adult", X[:n], y[:n], X[n:], y[n:], columns.row_norm, columns)


def covertype(rows: int = COVTYPE_ROWS, *, settled: bool = False) -> Split:
    """Return forest cover, class 2 against the other classes, with as many test rows as training rows.

    Its 44 indicators are coded 0 and 1 if `settled`. Otherwise they are coded -1 and 1, as in the tables of
    docs/benchmarks that were printed before new datasets were settled.
    """
    table = stored("covtype.parquet")
    bounds = {name: _COVTYPE.get(name, (0, 1)) for name in table.column_names if name != "Cover_Type"}
    X, y, columns = _encoded(table, declared(table, bounds), "Cover_Type", "2", settled=settled)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:rows], order[rows : 2 * rows]
    return Split("Covertype", X[train], y[train], X[test], y[test], columns.row_norm, columns)


def covertype_50k() -> Split:
    """Return forest cover with 50,000 training rows and indicators coded 0 and 1."""
    return covertype(50_000, settled=True)


def california() -> Split:
    """Return median house values of California's block groups."""
    return mixed("California housing", stored("california_housing.parquet"), _CALIFORNIA, "median_house_value")


def protein() -> Split:
    """Return errors of predicted protein structures (CASP, RMSD)."""
    return mixed("Protein", stored("protein_casp.parquet"), _PROTEIN, "RMSD")


def bank(names: Sequence[str] | None = None) -> Split:
    """Return responses to a bank's offers by telephone, with the named columns or all of them."""
    return mixed("Bank", stored("bank_full.parquet", names), _BANK, "y", "yes")


def adult_part(names: Sequence[str], target: str, positive: str | None = None) -> Split:
    """Return some columns of all rows of Adult."""
    table = pa.concat_tables([stored(f"adult_{part}.parquet", names) for part in ("train", "test")])
    return mixed("Adult", table, ADULT, target, positive)


def w8a() -> Split:
    """Return web pages with indicators of 300 words."""
    words, is_topic = w8a_words()
    indicators = {f"word {j}": column for j, column in enumerate(words.T)}
    table = pa.table(indicators | {"topic": np.where(is_topic, "yes", "no")})
    return mixed("w8a", table, dict.fromkeys(indicators, (0, 1)), "topic", "yes")


def w8a_words() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the word indicators of all web pages, (n, 300), and whether each page is on the topic."""
    if not (DATA / "w8a.libsvm.gz").exists():
        raise MissingDataset(_MISSING.format("w8a.libsvm.gz"))
    with gzip.open(DATA / "w8a.libsvm.gz", "rt") as lines:
        records = [line.split() for line in lines if line.strip()]
    words = np.zeros((len(records), _WORDS))
    for row, record in zip(words, records, strict=True):
        row[[int(entry.partition(":")[0]) - 1 for entry in record[1:]]] = 1.0
    return words, np.array([float(record[0]) > 0 for record in records])


def health() -> Split:
    """Return whether wives have health insurance by their own job (Ecdat's HI)."""
    table = listed("Ecdat/HI").drop_columns(["", "hhi2", "wght"])
    return mixed("Health insurance", table, _HEALTH, "whi", "yes")


def diamonds() -> Split:
    """Return prices of diamonds (ggplot2)."""
    return mixed("Diamonds", listed("ggplot2/diamonds").drop_columns([""]), _DIAMONDS, "price")


def visits() -> Split:
    """Return whether Germans saw a doctor in the last three months (COUNT's rwm5yr)."""
    table = listed("COUNT/rwm5yr")
    has_visited = np.where(np.asarray(table["docvis"]) > 0, "yes", "no")
    names = ["year", "age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"]
    table = table.select(names).append_column("visited", pa.array(has_visited))
    return mixed("Doctor visits", table, _VISITS, "visited", "yes")


def movies() -> Split:
    """Return mean ratings of films at IMDB (ggplot2)."""
    table = listed("ggplot2/movies")
    return mixed("Movies", table.select(list(_MOVIES)), _MOVIES, "rating")


def stored(file: str, names: Sequence[str] | None = None) -> pa.Table:
    """Return the named columns of a Parquet file of DATA, or all of them.

    Raises
    ------
    MissingDataset
        if the file does not exist.
    """
    if not (DATA / file).exists():
        raise MissingDataset(_MISSING.format(file))
    return pq.read_table(DATA / file, columns=names and list(names))


def listed(name: str) -> pa.Table:
    """Return a table of the package pydataset, read from its archive."""
    for archive in _LISTED.glob("python3*/site-packages/pydataset/resources.tar.gz"):
        with tarfile.open(archive) as files:
            file = files.extractfile(f"resources/rdata/csv/{name}.csv")
            assert file is not None
            return pyarrow.csv.read_csv(io.BytesIO(file.read()))
    raise MissingDataset(f"{name} is not measured: run `make peers`, which installs pydataset")


def declared(table: pa.Table, bounds: Bounds) -> list[Column]:
    """Return the declaration of the columns: numbers with these bounds, and other columns with their categories."""
    columns: list[Column] = []
    for name in table.column_names:
        if name in bounds:
            lower, upper = bounds[name]
            columns.append(NumberColumn(name=name, type="number", lower=float(lower), upper=float(upper)))
        else:
            categories = sorted({str(value) for value in table[name].to_pylist()})
            columns.append(CategoryColumn(name=name, type="category", categories=categories))
    return columns


def mixed(name: str, table: pa.Table, bounds: Bounds, target: str, positive: str | None = None) -> Split:
    """Return a table, encoded by its declaration; four fifths of the rows train, by a fixed permutation."""
    X, y, columns = _encoded(table, declared(table, bounds), target, positive)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.split(order, [4 * len(y) // 5])
    return Split(name, X[train], y[train], X[test], y[test], columns.row_norm, columns)


def _encoded(
    table: pa.Table, columns: list[Column], target: str, positive: str | None, *, settled: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64], Columns]:
    """Return rows, targets and layout."""
    spec = DatasetSpec(name="benchmark", columns=columns, budget=Budget(epsilon=1.0, delta=1e-6))
    spec = spec.settled() if settled else spec  # as a new dataset has it
    request = JobRequest(dataset="ds", target=target, positive=positive, privacy=JobPrivacy(epsilon=1.0))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        coded_rows = Path(folder) / "columns"
        pq.write_table(table, file, row_group_size=65_536)
        store(file, Reading(spec.columns, spec.dialect), coded_rows)
        design = Design.of(spec, request)
        coded, y = design.read(open_coded(coded_rows), widths(coded_rows), Path(folder))
        layout, n = design.columns, len(y)
        problem = Problem(Squared(), n=n, d=design.d, row_norm=layout.row_norm, columns=layout)
        X = rows_of(Data.coded(coded, y, problem))
    return X, y, layout
