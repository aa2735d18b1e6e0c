"""Coupled pairs of containers: two that differ in one record, of which every other record's code must be the same."""

import datetime as dt
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import scipy.sparse as sp

from purse.estimators import declared
from purse.estimators.classifiers import class_indices
from purse.estimators.values import column, columns, matrix
from purse.wire.columns import CategoryColumn, NumberColumn
from solvers.data_access import inputs
from solvers.errors import Unsuitable
from solvers.losses import Squared
from solvers.problem import Problem

Make = Callable[[Sequence[Any]], Any]


class Hostile:
    """A value that raises an error at every operation."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")


class HostileFloat(float):
    """A number that raises when it is converted."""

    def __float__(self) -> float:
        raise RuntimeError("no number")


class HostileText(str):
    """A text that raises when it is read."""

    def strip(self, *_: Any) -> str:
        raise RuntimeError("no text")


class HostileList(list[Any]):
    """A list that raises when its length is asked."""

    def __len__(self) -> int:
        raise RuntimeError("no length")


_SMALL: Final[list[Any]] = [0, 1, 2, 3]
INTEGERS: Final[list[Any]] = [*_SMALL, -1, 2**53, 2**53 + 1, 2**63 - 1]
FLOATS: Final[list[Any]] = [0.0, 1.0, -0.0, 0.1, 2.0**53, 5e-324, 1e300, np.nan, np.inf, -np.inf]
FLAGS: Final[list[Any]] = [True, False]
TEXTS: Final[list[Any]] = ["0", "1", "a", "", " 1 ", "nan", "é"]
MOMENTS: Final[list[Any]] = [0, 86_400, 10**9, -(10**15), 10**17]
ODD: Final[list[Any]] = [
    *(2**63, 2**64 + 1, 10**30, 10**400, 10**5000, -(10**5000), 1 + 2j, b"1", "\ud800", "1" * 5000),
    *(Decimal("1.0"), Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity"), Decimal("1e400"), Fraction(1, 3)),
    *(
        np.complex128(1 + 1j),
        np.complex64(2),
        np.longdouble("1e4000"),
        np.longdouble(1),
        np.float32(0.1),
        np.float16(1),
    ),
    *(np.int64(1), np.uint8(2), np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.void(b"a")),
    *(
        np.timedelta64(5),
        np.timedelta64(5, "s"),
        np.timedelta64("NaT"),
        np.datetime64("2020-01-01"),
        np.datetime64("NaT"),
    ),
    *(pd.NaT, pd.NA, pd.Timestamp("2020-01-01"), pd.Timedelta(1), pd.Timestamp(np.datetime64(10**14, "s"))),
    *(dt.date(2020, 1, 1), dt.datetime(1, 1, 1), dt.time(), dt.timedelta(1), dt.date(9999, 12, 31)),
    *([], [1], [2, 3], [[1]], (), (1,), {}, {"a": 1}, set(), object(), object, Hostile(), HostileFloat(1.0)),
    *(HostileText("1"), HostileList([1])),
    *(np.array([1]), np.array([]), np.array(3), np.array([1, 2]), np.ma.masked, np.array([Hostile()], dtype=object)),
]
ANY: Final[list[Any]] = [None, *INTEGERS, *FLOATS, *FLAGS, *TEXTS, *ODD]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of container: the values that it can hold, and how it is made of some."""

    pool: list[Any]
    make: Make


def objects(values: Sequence[Any]) -> Any:
    """Return an array of these objects, which NumPy does not convert."""
    return np.fromiter(values, dtype=object, count=len(values))


def _null(pool: list[Any]) -> list[Any]:
    return [*pool, None, None]


def _typed(dtype: str, pool: list[Any]) -> Kind:
    return Kind(pool, lambda values: np.array(list(values), dtype=dtype))


def _masked(dtype: Any, pool: list[Any], blank: Any) -> Kind:
    def make(values: Sequence[Any]) -> Any:
        filled = [blank if value is None else value for value in values]
        data = objects(filled) if dtype is object else np.array(filled, dtype)
        return np.ma.MaskedArray(data, [value is None for value in values])

    return Kind(_null(pool), make)


def _of_numpy() -> dict[str, Kind]:
    unsigned, wide = [0, 1, 2, 200], [*_SMALL, 2**53 + 1, 2**63, 2**64 - 1]
    kinds = {f"numpy {code}": _typed(code, _SMALL) for code in "bhilqBHILQ"}
    kinds |= {
        "numpy uint8": _typed("u1", unsigned),
        "numpy uint64": _typed("u8", wide),
        "numpy bool": _typed("?", FLAGS),
    }
    kinds |= {"numpy int64": _typed("i8", INTEGERS), "numpy float16": _typed("f2", [0.0, 1.0, 0.5, np.nan, np.inf])}
    kinds |= {"numpy float64": _typed("f8", FLOATS), "numpy float32": _typed("f4", [0.0, 1.0, 0.1, np.nan, np.inf])}
    kinds |= {"numpy longdouble": _typed("g", [*FLOATS, np.longdouble("1e4000"), np.longdouble(2) ** 63 + 1])}
    kinds |= {f"numpy {code}": _typed(code, [0, 1, 1 + 2j, complex(np.nan, 1), 1e30j]) for code in "FDG"}
    kinds |= {f"numpy {code}": _typed(code, [*MOMENTS, "NaT"]) for code in ("M8[s]", "M8[D]", "m8[s]")}
    kinds |= {f"numpy {code}": _typed(code, [0, 1, 10**18, "NaT"]) for code in ("M8[ns]", "m8[ns]", "m8")}
    kinds |= {"numpy text": _typed("U5", TEXTS), "numpy bytes": _typed("S5", [b"0", b"1", b"a", b"", b"\xff"])}
    structure: Any = [("a", int), ("b", float)]
    kinds["numpy structure"] = Kind([(0, 0.0), (1, np.nan)], lambda values: np.array(list(values), structure))
    kinds["numpy object"] = Kind(ANY, objects)
    kinds["numpy object (n, 1)"] = Kind(ANY, lambda values: objects(values).reshape(-1, 1))
    kinds["masked float"] = _masked("f8", FLOATS, 0.0)
    kinds["masked int"] = _masked("i8", INTEGERS, 0)
    kinds["masked bool"] = _masked("?", FLAGS, False)
    kinds["masked moment"] = _masked("M8[s]", MOMENTS, 0)
    kinds["masked object"] = _masked(object, ANY, 0)
    kinds["masked text"] = _masked("U5", TEXTS, "")
    return kinds


def _of_pandas() -> dict[str, Kind]:
    pools = {
        "int64": INTEGERS,
        **dict.fromkeys(("float64", "Sparse[float64]"), FLOATS),
        "bool": FLAGS,
        **dict.fromkeys(("boolean", "bool[pyarrow]"), _null(FLAGS)),
        **dict.fromkeys(("Int64", "int64[pyarrow]"), _null(INTEGERS)),
        **dict.fromkeys(("UInt64", "uint64[pyarrow]"), _null([0, 1, 2**53 + 1, 2**64 - 1])),
        **dict.fromkeys(("Int8", "category", "Float32"), _null(_SMALL)),
        **dict.fromkeys(("Float64", "double[pyarrow]"), _null([0.0, 1.0, 0.1, 1e300])),
        **dict.fromkeys(("string", "str", "string[pyarrow]"), _null(TEXTS)),
        "complex128": [0, 1j],
        **dict.fromkeys(("datetime64[s]", "timedelta64[s]"), _null([0, 10**9, 10**12])),
        "timestamp[s][pyarrow]": _null([0, 10**9, 10**15]),
    }

    def make(dtype: str) -> Make:
        if dtype == "timestamp[s][pyarrow]":
            return lambda values: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(list(values), pa.timestamp("s"))))
        return lambda values: pd.Series(list(values), dtype=dtype)

    kinds = {f"pandas {dtype}": Kind(pool, make(dtype)) for dtype, pool in pools.items()}
    kinds["pandas object"] = Kind(ANY, lambda values: pd.Series(objects(values), dtype=object))
    kinds["pandas index"] = Kind(_null(INTEGERS), lambda values: pd.Index(objects(values), dtype=object))
    kinds["pandas array"] = Kind(_null(INTEGERS), lambda values: pd.array(list(values), dtype="Int64"))
    labels = pd.Index(["0", "1", "a"])
    kinds["pandas text category"] = Kind(
        _null(list(labels)), lambda values: pd.Series(pd.Categorical(list(values), labels))
    )
    intervals = pd.interval_range(0, 3)
    kinds["pandas interval category"] = Kind(
        _null(list(intervals)), lambda values: pd.Series(pd.Categorical(list(values), intervals))
    )
    kinds["pandas zoned"] = Kind(
        _null([0, 10**9]), lambda values: pd.Series(list(values), dtype="datetime64[s]").dt.tz_localize("Asia/Tokyo")
    )
    return kinds


def _of_polars() -> dict[str, Kind]:
    pools: dict[str, tuple[Any, list[Any]]] = {
        "Int64": (pl.Int64, INTEGERS),
        "Int8": (pl.Int8, _SMALL),
        "UInt64": (pl.UInt64, [0, 1, 2**53 + 1, 2**64 - 1]),
        "Int128": (pl.Int128, [*INTEGERS, 2**100]),
        "Float64": (pl.Float64, FLOATS),
        "Float32": (pl.Float32, [0.0, 1.0, 0.1, np.nan, np.inf]),
        "Boolean": (pl.Boolean, FLAGS),
        "String": (pl.String, TEXTS),
        "Categorical": (pl.Categorical, TEXTS),
        "Enum": (pl.Enum(["0", "1", "a"]), ["0", "1", "a"]),
        "Binary": (pl.Binary, [b"", b"1"]),
        "Decimal": (pl.Decimal(20, 2), [Decimal("1.00"), Decimal("0.50")]),
        "Time": (pl.Time, [dt.time(), dt.time(23, 59, 59)]),
        "List": (pl.List(pl.Int64), [[], [1], [2, 3]]),
        "Struct": (pl.Struct({"a": pl.Int64}), [{"a": 1}, {"a": None}]),
        "Null": (pl.Null, [None]),
        "Object": (pl.Object, [1, "a", 10**5000, [1], object()]),
    }

    def make(dtype: Any) -> Make:
        return lambda values: pl.Series("y", list(values), dtype=dtype)

    def cast(dtype: Any) -> Make:
        whole = pl.Int32 if dtype == pl.Date else pl.Int64
        return lambda values: pl.Series("y", list(values), dtype=whole).cast(dtype)

    units: tuple[Any, ...] = ("ms", "us", "ns")
    moments: dict[str, Any] = {"Duration": pl.Duration("ms")}
    moments |= {f"Datetime {unit} {zone}": pl.Datetime(unit, zone) for unit in units for zone in (None, "Asia/Tokyo")}
    kinds = {f"polars {name}": Kind(_null(pool), make(dtype)) for name, (dtype, pool) in pools.items()}
    kinds |= {f"polars {name}": Kind(_null([*MOMENTS, 10**18]), cast(dtype)) for name, dtype in moments.items()}
    kinds["polars Date"] = Kind(_null([0, 20_000, 10**8, -(10**8)]), cast(pl.Date))
    return kinds


def _of_arrow() -> dict[str, Kind]:
    pools: list[tuple[Any, list[Any]]] = [
        (pa.int64(), INTEGERS),
        (pa.int8(), _SMALL),
        (pa.uint64(), [0, 1, 2**53 + 1, 2**64 - 1]),
        (pa.float16(), [np.float16(0), np.float16(1), np.float16(np.nan)]),
        (pa.float32(), [0.0, 1.0, 0.1, np.nan, np.inf]),
        (pa.float64(), FLOATS),
        (pa.bool_(), FLAGS),
        (pa.string(), TEXTS),
        (pa.large_string(), TEXTS),
        (pa.binary(), [b"", b"1", b"\xff"]),
        (pa.decimal128(20, 2), [Decimal("1.00"), Decimal("0.50")]),
        (pa.time64("us"), [0, 86_399_000_000]),
        (pa.list_(pa.int64()), [[], [1], [2, 3]]),
        (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": None}]),
        (pa.null(), [None]),
        (pa.dictionary(pa.int8(), pa.int64()), INTEGERS),
        (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    ]
    pools += [(pa.timestamp(unit, zone), MOMENTS) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")]
    pools += [(pa.duration("s"), MOMENTS), (pa.date32(), [0, 20_000, 10**8]), (pa.date64(), [0, 86_400_000 * 10**8])]

    def whole(kind: Any) -> Make:
        return lambda values: pa.array(list(values), type=kind)

    def in_chunks(kind: Any) -> Make:
        return lambda values: pa.chunked_array([list(values)[:1], [], list(values)[1:]], type=kind)

    def broken(values: Sequence[Any]) -> Any:
        binary = pa.array([None if value is None else value.encode() for value in values], pa.binary())
        return binary.cast(pa.string(), safe=False)

    kinds = {f"arrow {kind}": Kind(_null(pool), whole(kind)) for kind, pool in pools}
    kinds |= {f"arrow chunks {kind}": Kind(_null(pool), in_chunks(kind)) for kind, pool in pools}
    kinds["arrow text"] = Kind(_null(TEXTS), broken)
    return kinds


COLUMNS: Final[dict[str, Kind]] = {
    "list": Kind(ANY, list),
    "tuple": Kind(ANY, tuple),
    "list of lists": Kind([*([value] for value in [*_SMALL, None, "1", 10**400] * 12), *ANY], list),
    "list of arrays": Kind([*(np.array([value]) for value in _SMALL * 20), *ANY], list),
    **_of_numpy(),
    **_of_pandas(),
    **_of_polars(),
    **_of_arrow(),
}
TABLES: Final[dict[str, Callable[[Any], Any]]] = {
    "pandas": lambda own: pd.DataFrame(own),
    "polars": lambda own: pl.DataFrame(own),
    "table": lambda own: pa.table(own),
    "batch": lambda own: pa.record_batch(own),
    "mapping": lambda own: own,
}
OBJECTS: Final = {"lists", "tuples", "object", "masked", "list", "tuple", "list of lists", "numpy object"}
SPARSE: Final = [sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.csr_matrix, sp.dok_array, sp.dia_array]
_NUMBER = NumberColumn(name="x", type="number", lower=-1, upper=3).settled()
_LABELS = ["0", "1", "2", "a", "0.1", "9007199254740993", "(0, 1]"]
_CATEGORY = CategoryColumn(name="x", type="category", categories=_LABELS)
_CLASSES: Final = (np.array([0, 1, 2**53, 2**53 + 1]), np.array(["0", "1", "a"]), np.array([0.1, 1.0]))


def outcome(read: Callable[[], Any]) -> Any:
    """Return a reader's result, or the class and text of its exception. Warnings count as exceptions."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "A column-vector y was passed")  # for its shape
        try:
            return read()
        except (ValueError, TypeError, Unsuitable) as error:
            return type(error), str(error)


def codes_of_column(values: Any) -> list[Any]:
    """A column's codes, as each reader has them: labels, categories, numbers, targets of `solve`."""
    n = len(values) if hasattr(values, "__len__") else values.shape[0]
    problem = Problem(Squared(), n=n, d=1, row_norm=1.0)

    def of_estimators() -> list[Any]:
        y = column(values)
        own = [class_indices(y, classes) for classes in _CLASSES]
        return [*own, declared.codes(_NUMBER, y), declared.codes(_CATEGORY, y)]

    return [outcome(of_estimators), outcome(lambda: [inputs.targets(values, problem)])]


def codes_of_rows(X: Any, n: int, width: int) -> list[Any]:
    """Return a matrix's codes, as each reader computes them."""
    problem = Problem(Squared(), n=n, d=width, row_norm=1e6)

    def of_estimators() -> list[Any]:
        all_columns = list(columns(matrix(X), width))
        return [declared.codes(kind, part) for part in all_columns for kind in (_NUMBER, _CATEGORY)]

    def of_solve() -> list[Any]:
        stored: Any = inputs.records(X, problem)
        if not hasattr(stored, "ends"):
            return [stored.numbers]
        parts: Any = np.split(np.column_stack((stored.coordinates, stored.values)), stored.ends[1:-1])
        return [objects([part.tobytes() for part in parts])]

    return [outcome(of_solve)] if isinstance(X, dict) else [outcome(of_estimators), outcome(of_solve)]


def differ(first: Any, second: Any, place: int) -> bool:
    """Return whether any record except the one at this position is read differently."""
    if isinstance(first, tuple) or isinstance(second, tuple):
        return bool(first != second)

    def without_record(values: Any) -> Any:
        return np.delete(np.asarray(values), place, axis=0)

    return any(
        (len(a) != len(b))
        or not np.array_equal(without_record(a), without_record(b), equal_nan=without_record(a).dtype != object)
        for a, b in zip(first, second, strict=True)
    )


def pair_of_columns(rng: np.random.Generator, kind: Kind) -> tuple[Any, Any, int]:
    """Return two columns of a kind that differ in one value, and its position."""
    n = int(rng.integers(2, 6))
    values = [kind.pool[i] for i in rng.integers(0, len(kind.pool), n)]
    place = int(rng.integers(n))
    changed = [*values]
    changed[place] = kind.pool[rng.integers(len(kind.pool))]
    return kind.make(values), kind.make(changed), place


def _pair_of_rows(rng: np.random.Generator) -> tuple[str, Any, Any, int, int, int]:
    n, width = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    place = int(rng.integers(n))
    if rng.random() < 0.2:
        kind = SPARSE[rng.integers(len(SPARSE))]
        dense = rng.choice([0.0, 0.0, 1.0, np.nan, 1e300], (n, width))
        changed_rows = dense.copy()
        changed_rows[place] = rng.choice([0.0, np.inf, 2.0], width)
        return kind.__name__, kind(dense), kind(changed_rows), place, n, width
    form = ["lists", "tuples", "object", "masked", *TABLES][rng.integers(4 + len(TABLES))]
    if form not in TABLES:
        cells = [[ANY[i] for i in rng.integers(0, len(ANY), width)] for _ in range(n)]
        changed = [*cells]
        changed[place] = [ANY[i] for i in rng.integers(0, len(ANY), width)]
        if form in ("lists", "tuples"):
            own = list if form == "lists" else tuple
            return form, own(map(own, cells)), own(map(own, changed)), place, n, width
        flat = [objects([cell for row in rows for cell in row]).reshape(n, width) for rows in (cells, changed)]
        if form == "masked":
            hidden = rng.random((2, n, width)) < 0.3
            hidden[1, np.arange(n) != place] = hidden[0, np.arange(n) != place]
            flat = [np.ma.MaskedArray(data, mask) for data, mask in zip(flat, hidden, strict=True)]
        return form, flat[0], flat[1], place, n, width
    library = {"table": "arrow ", "batch": "arrow ", "mapping": ""}.get(form, f"{form} ")
    names = [name for name, kind in COLUMNS.items() if name.startswith(library) and "(n, 1)" not in name]
    if form == "batch":
        names = [name for name in names if "chunks" not in name]
    if form == "pandas":
        names = [name for name in names if name not in ("pandas index", "pandas array")]
    chosen = [str(name) for name in rng.choice(names, width)]
    first, second = {}, {}
    for j, name in enumerate(chosen):
        pool = COLUMNS[name].pool
        values = [pool[i] for i in rng.integers(0, len(pool), n)]
        changed_values = [*values]
        changed_values[place] = pool[rng.integers(len(pool))]
        first[f"c{j}"], second[f"c{j}"] = COLUMNS[name].make(values), COLUMNS[name].make(changed_values)
    return f"{form} of {', '.join(chosen)}", TABLES[form](first), TABLES[form](second), place, n, width


def complaints(seed: int, pairs: int, names: Sequence[str] = tuple(COLUMNS)) -> list[str]:
    """Return the faults of so many coupled pairs. Three of four are columns of each kind in turn, the others matrices.

    A reader may refuse a kind of column, always or never; matrices of objects it takes whatever they hold.
    """
    rng, faults = np.random.default_rng(seed), []
    refusals: dict[str, list[bool]] = {}
    for i in range(pairs):
        if i % 4 < 3:
            name = names[(i - i // 4) % len(names)]
            first_input, second_input, place = pair_of_columns(rng, COLUMNS[name])
            read = [codes_of_column(first_input), codes_of_column(second_input)]
        else:
            name, first_input, second_input, place, n, width = _pair_of_rows(rng)
            read = [codes_of_rows(first_input, n, width), codes_of_rows(second_input, n, width)]
        refused = [[isinstance(answer, tuple) for answer in answers] for answers in read]
        first = refusals.setdefault(name, [False] * 2 if name in OBJECTS else refused[0])
        if any(own != first for own in refused) or any(differ(a, b, place) for a, b in zip(*read, strict=True)):
            faults.append(
                f"pair {i}, {name}: {first_input!r} and {second_input!r} in place {place}: {read[0]} and {read[1]}"
            )
    return faults
