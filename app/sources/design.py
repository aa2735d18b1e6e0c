"""From a dataset's declaration and a job's request to the job's matrix: its shape is public, its content is not.

    row i of X = (code of each number feature, one-hot of each category feature with "other" last, ..., 1)
    y_i        = +1 or -1 for a category target, its position 0..K-1 if the loss is softmax; the code in [-1, 1] for a
                 number target

The constant 1 of the intercept is the last column. Every number code lies in [-1, 1] and a one-hot block has norm 1, so
||row||_2 <= sqrt(#features + 1) for every record there could be; `row_norm` is that, or less if the request says so.
Rows come out unclipped: the solvers clip to `row_norm`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from app.sources.matrix import Floats, code_count, codes, open_coded, widths
from purse.wire.columns import CategoryColumn, Column
from purse.wire.datasets import DatasetSpec
from solvers.columns import Columns
from solvers.data_access.rows import Coded
from solvers.losses import Softmax

if TYPE_CHECKING:
    from app.wire import JobRequest, TuningRequest

MOST_DIMENSIONS = 2**18
_MOST_NAMED = 20


class DesignError(ValueError):
    """The request does not fit the declaration; a function of these two alone.

    Parameters
    ----------
    field : the request's field that is wrong
    what : what it must be
    """

    def __init__(self, field: str, what: str) -> None:
        self.field = field
        self.what = what
        super().__init__(f"{field} {what}")


@dataclass(frozen=True, slots=True)
class Design:
    """The public facts of a job's matrix. Make one with `Design.of`.

    Parameters
    ----------
    features, target : the declared columns
    positions, target_position : where they stand in the stored matrix
    stored : int, how many columns are stored
    positive : int or None, the code of the class that becomes +1; None for a number target, and where all classes are
        told apart
    row_norm : float, bound on each row of X, the intercept's 1 included
    """

    features: tuple[Column, ...]
    positions: tuple[int, ...]
    target: Column
    target_position: int
    stored: int
    positive: int | None
    row_norm: float

    @staticmethod
    def of(spec: DatasetSpec, request: "JobRequest | TuningRequest") -> "Design":
        """The design that a request means on a dataset.

        Raises
        ------
        DesignError
            if target, features or positive do not fit the declaration, or the matrix would be too wide.
        """
        columns = {column.name: position for position, column in enumerate(spec.columns)}
        if request.target not in columns:
            raise DesignError("target", f"must be a declared column: {_some(columns)}")
        position = columns[request.target]
        positions = _features(columns, request.features, position)
        target, features = spec.columns[position], tuple(spec.columns[p] for p in positions)
        positive = _positive(target, request)
        implied = math.sqrt(len(features) + 1)
        bound = implied if request.row_norm is None else min(request.row_norm, implied)
        design = Design(features, positions, target, position, len(spec.columns), positive, bound)
        if design.size > MOST_DIMENSIONS:
            most = f"at most {MOST_DIMENSIONS // design.outputs} columns, categories counted one by one"
            several = "" if design.outputs == 1 else f", for {design.outputs} classes"
            raise DesignError("features", f"must make {most}{several}")
        return design

    @property
    def widths(self) -> tuple[int, ...]:
        """How many columns of X each feature makes."""
        return self.columns.widths

    @property
    def d(self) -> int:
        """The number of columns of X, the intercept's included."""
        return self.columns.d

    @property
    def columns(self) -> Columns:
        """How a row of X is laid out."""
        return _layout(self.features)

    @property
    def outputs(self) -> int:
        """The margins of a record: one for each class where all are told apart, else 1."""
        if isinstance(self.target, CategoryColumn) and self.positive is None:
            return len(self.target.categories)
        return 1

    @property
    def size(self) -> int:
        """The number of coordinates of a solution."""
        return self.d * self.outputs

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Those of a category target: (negative, positive), or all in the order declared where all are told apart.

        With more than two categories, negative is "not positive".
        """
        if not isinstance(self.target, CategoryColumn):
            return None
        if self.positive is None:
            return tuple(self.target.categories)
        positive = self.target.categories[self.positive]
        rest = [c for c in self.target.categories if c != positive]
        return (rest[0] if len(rest) == 1 else f"not {positive}", positive)

    def split(self, w: Floats) -> tuple[list[float], float] | tuple[list[list[float]], list[float]]:
        """A solution of shape (size,) as (coefficients of the encoded values in order, intercept); several by class."""
        if w.shape != (self.size,):
            raise ValueError("a solution has one number for each column of X and each class")
        if self.outputs == 1:
            return w[:-1].tolist(), float(w[-1])
        by_class = w.reshape(self.outputs, self.d)
        return by_class[:, :-1].tolist(), by_class[:, -1].tolist()

    def load(self, folder: Path) -> tuple[Coded, Floats]:
        """The features of n records, as they are stored, and y (n,), from a dataset's folder. For the worker, after
        "started".

        Raises
        ------
        ValueError
            if what is stored is not what is declared.
        """
        return self.read(open_coded(folder), widths(folder))

    def read(self, stored: Coded, declared: Sequence[int]) -> tuple[Coded, Floats]:
        """The same of records of these widths; `ValueError` as `load`."""
        used = tuple(declared[p] for p in (*self.positions, self.target_position) if p < len(declared))
        if len(declared) != self.stored or used != (*self.widths, code_count(self.target)):
            raise ValueError("the stored matrix is not of the declared width")
        features = Coded(stored.numbers, stored.codes, tuple(stored.offsets[p] for p in self.positions))
        return features, self._labels(stored, declared[self.target_position])

    def _labels(self, stored: Coded, width: int) -> Floats:
        place = stored.offsets[self.target_position]
        if not isinstance(self.target, CategoryColumn):
            return stored.numbers[:, place].astype(np.float64)
        return self.labels(codes(stored, place, width))

    def labels(self, known: NDArray[Any]) -> Floats:
        """y of a category target's codes."""
        assert isinstance(self.target, CategoryColumn)
        known = np.where(known >= len(self.target.categories), 0, known)  # a missing target is its first category
        if self.positive is None:
            return known.astype(float)
        return np.where(known == self.positive, 1.0, -1.0)


@dataclass(frozen=True, slots=True)
class Table:
    """Declared columns, none of them a target: what a statistic is of. Rows are coded as a `Design`'s are.

    Parameters
    ----------
    features : the columns
    positions : where they stand among those that are stored; None if they are all of them, in order
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    outputs: ClassVar[int] = 1

    features: tuple[Column, ...]
    positions: tuple[int, ...] | None = None

    @staticmethod
    def of(spec: DatasetSpec, asked: Sequence[str] | None = None) -> "Table":
        """A dataset's, of the columns asked for, all if None.

        Raises
        ------
        DesignError
            if one is not declared or named twice, or the matrix would be too wide.
        """
        known = {column.name: position for position, column in enumerate(spec.columns)}
        if asked is None:
            table = Table(tuple(spec.columns))
        else:
            positions = _named("columns", known, asked)
            table = Table(tuple(spec.columns[p] for p in positions), positions)
        if table.d > MOST_DIMENSIONS:
            raise DesignError("columns", f"must make at most {MOST_DIMENSIONS} columns, categories counted one by one")
        return table

    @property
    def columns(self) -> Columns:
        """How a row is laid out."""
        return _layout(self.features)

    @property
    def d(self) -> int:
        """The number of columns, a constant's included."""
        return self.columns.d

    @property
    def row_norm(self) -> float:
        """What the declaration implies."""
        return self.columns.row_norm

    def load(self, folder: Path) -> tuple[Coded, Floats]:
        """The n records, and zeros for targets. For the worker, after "started"; `ValueError` as `Design.load`."""
        return self.read(open_coded(folder), widths(folder))

    def read(self, stored: Coded, declared: Sequence[int]) -> tuple[Coded, Floats]:
        """The same of records of these widths."""
        places = range(len(declared)) if self.positions is None else self.positions
        if tuple(declared[p] for p in places if p < len(declared)) != self.columns.widths:
            raise ValueError("the stored matrix is not of the declared width")
        used = Coded(stored.numbers, stored.codes, tuple(stored.offsets[p] for p in places))
        return used, np.zeros(len(stored.numbers))


def _layout(features: tuple[Column, ...]) -> Columns:
    ranges = tuple(f.code_range for f in features if not isinstance(f, CategoryColumn))
    every = all(ends == (-1.0, 1.0) for ends in ranges)
    return Columns(tuple(code_count(feature) for feature in features), () if every else ranges)


def _features(columns: dict[str, int], asked: list[str] | None, target: int) -> tuple[int, ...]:
    if asked is None:
        return tuple(position for position in columns.values() if position != target)
    positions = _named("features", columns, asked)
    if target in positions:
        raise DesignError("features", "must not hold the target")
    return positions


def _some(names: Iterable[str]) -> str:
    """The first of them, for a message: they are public to whoever knows of the dataset."""
    first = list(islice(names, _MOST_NAMED + 1))
    return ", ".join([*first[:_MOST_NAMED], *["..."] * (len(first) > _MOST_NAMED)])


def _named(field: str, columns: dict[str, int], asked: Sequence[str]) -> tuple[int, ...]:
    """Their positions; `DesignError` if one is not declared, or named twice."""
    if len(set(asked)) < len(asked):
        raise DesignError(field, "must be distinct")
    if not columns.keys() >= set(asked):
        raise DesignError(field, f"must be declared columns: {_some(columns)}")
    return tuple(columns[name] for name in asked)


def _positive(target: Column, request: "JobRequest | TuningRequest") -> int | None:
    """The code of the positive class; None for a number target and where softmax tells all classes apart."""
    asked, loss = request.positive, request.loss
    if not isinstance(target, CategoryColumn):
        if asked is not None:
            raise DesignError("positive", "is for a category target only")
        return None
    count = len(target.categories)
    if isinstance(loss, Softmax):
        if asked is not None:
            raise DesignError("positive", "must be left out: softmax tells all categories apart")
        if count < 2:
            raise DesignError("target", "must have two categories or more for softmax")
        return None
    if asked is not None:
        if asked not in target.categories:
            raise DesignError("positive", "must be one of the target's categories")
        return target.categories.index(asked)
    if count < 2:
        raise DesignError("positive", "must be given for a target with a single category")
    if count == 2:
        return 1
    if loss is not None and loss.takes == "class":
        raise DesignError("positive", f"must be given: {loss.name} tells two classes apart, softmax more")
    return None
