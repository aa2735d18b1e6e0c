"""The matrix of a job, from the dataset's declaration and the request. Its shape is public; its content is not.

    row i of X = (code of each number feature, one-hot of each category feature with "other" last, ..., 1)
    y_i        = +1 or -1 for a category target, its position 0..K-1 if the loss is softmax; the code in [-1, 1] for a
                 number target

A request may have terms instead of features. Their columns are computed from declared ones, see `purse.terms`.

The constant 1 of the intercept is the last column. Every number code lies in [-1, 1] and a one-hot block has norm 1, so
||row||_2 <= sqrt(#features + 1) for every possible record. `row_norm` is this bound, or a smaller one of the request.
Rows are returned unclipped: the solvers clip them to `row_norm`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.sources.derived import derived
from app.sources.matrix import Floats, cut, on_disk, stored_column
from purse.errors import DesignError
from purse.terms import Feature, expand, first_names, inputs
from purse.wire.columns import CategoryColumn, Column
from purse.wire.datasets import DatasetSpec
from purse.wire.table1 import Condition
from purse.wire.terms import Term
from solvers.columns import Columns
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded
from solvers.losses import Softmax
from solvers.problem import Problem

if TYPE_CHECKING:
    from app.wire import JobRequest, TuningRequest

MOST_DIMENSIONS = 2**18


@dataclass(frozen=True, slots=True)
class Design:
    """The public facts of a job's matrix. Create one with `Design.of`.

    Parameters
    ----------
    features, target : the columns of X, and the declared target
    positions, target_position : positions in the stored matrix of the columns that features are made of, and of the
        target
    stored : int, number of stored columns
    positive : int or None, the code of the class that becomes +1; None for a number target, and if the model
        distinguishes all classes
    row_norm : float, bound on each row of X, with the intercept's 1
    inputs, terms : the declared columns at `positions` and the terms that make features of them; empty if the features
        are declared columns
    """

    features: tuple[Column, ...]
    positions: tuple[int, ...]
    target: Column
    target_position: int
    stored: int
    positive: int | None
    row_norm: float
    inputs: Annotated[tuple[Column, ...], Field(exclude_if=lambda inputs: not inputs)] = ()
    terms: Annotated[tuple[Term, ...], Field(exclude_if=lambda terms: not terms)] = ()

    @staticmethod
    def of(spec: DatasetSpec, request: "JobRequest | TuningRequest") -> "Design":
        """Return the design of a request on a dataset.

        Raises
        ------
        DesignError
            if target, features, terms or positive do not fit the declaration, or the matrix would be too wide.
        """
        columns = {column.name: position for position, column in enumerate(spec.columns)}
        if request.target not in columns:
            raise DesignError("target", f"must be a declared column: {first_names(columns)}")
        position = columns[request.target]
        terms, target = tuple(request.terms or ()), spec.columns[position]
        positions = _term_inputs(spec, request) if terms else _features(columns, request.features, position)
        used = tuple(spec.columns[p] for p in positions)
        features = tuple(feature.column for feature in expand(used, terms)) if terms else used
        positive = _positive(target, request)
        implied = math.sqrt(len(features) + 1)
        bound = implied if request.row_norm is None else min(request.row_norm, implied)
        of_terms = used if terms else ()
        design = Design(features, positions, target, position, len(spec.columns), positive, bound, of_terms, terms)
        if design.size > MOST_DIMENSIONS:
            limit = f"at most {MOST_DIMENSIONS // design.outputs:,} columns, counting each category"
            for_classes = "" if design.outputs == 1 else f", for {design.outputs} classes"
            raise DesignError("terms" if terms else "features", f"must have {limit}{for_classes}")
        return design

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of columns of X for each feature."""
        return self.columns.widths

    @property
    def d(self) -> int:
        """The number of columns of X, with the intercept's."""
        return self.columns.d

    @property
    def columns(self) -> Columns:
        """The layout of a row of X."""
        return _layout(self.features)

    @property
    def outputs(self) -> int:
        """The number of margins of a record: one for each class if the model distinguishes all classes, else 1."""
        if isinstance(self.target, CategoryColumn) and self.positive is None:
            return len(self.target.categories)
        return 1

    @property
    def size(self) -> int:
        """The number of coordinates of a solution."""
        return self.d * self.outputs

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes of a category target: (negative, positive), or all in declared order if all are distinguished.

        With more than two categories, negative is "not positive".
        """
        if not isinstance(self.target, CategoryColumn):
            return None
        if self.positive is None:
            return tuple(self.target.categories)
        positive = self.target.categories[self.positive]
        negatives = [c for c in self.target.categories if c != positive]
        return (negatives[0] if len(negatives) == 1 else f"not {positive}", positive)

    def split(self, w: Floats) -> tuple[list[float], float] | tuple[list[list[float]], list[float]]:
        """Split a solution of shape (size,) into (coefficients of encoded values, intercept), by class if several."""
        if w.shape != (self.size,):
            raise ValueError("a solution has one number for each column of X and each class")
        if self.outputs == 1:
            return w[:-1].tolist(), float(w[-1])
        by_class = w.reshape(self.outputs, self.d)
        return by_class[:, :-1].tolist(), by_class[:, -1].tolist()

    def read(self, stored: Coded, declared: Sequence[int], scratch: Path) -> tuple[Coded, Floats]:
        """Return the features of n stored records and y (n,).

        Parameters
        ----------
        declared : for each stored column 1 if it is a number, else the number of its codes
        scratch : a folder for y and for features that are not stored

        Raises
        ------
        ValueError
            if these are not the declared widths.
        """
        columns = self.inputs or self.features
        used = tuple(declared[p] for p in (*self.positions, self.target_position) if p < len(declared))
        if len(declared) != self.stored or used != tuple(column.code_count for column in (*columns, self.target)):
            raise ValueError("the stored matrix is not of the declared width")
        offsets = tuple(stored.offsets[p] for p in self.positions)
        at, width = stored.offsets[self.target_position], declared[self.target_position]
        blocks = (stored_column(stored, at, width, rows) for rows in cut(len(stored.numbers), 1))
        y = on_disk((self.labels(b) for b in blocks) if isinstance(self.target, CategoryColumn) else blocks, scratch)
        if not self.terms:
            return Coded(stored.numbers, stored.codes, offsets), y
        inputs = {c.name: (offset, c.code_count) for c, offset in zip(columns, offsets, strict=True)}
        return derived(stored, inputs, self._expanded(), scratch), y

    def encoded(self, values: Floats) -> list[Floats]:
        """Return the codes of each feature, from the codes of all declared columns, (n, columns)."""
        if not self.terms:
            return [values[:, position] for position in self.positions]
        names = (column.name for column in self.inputs)
        own = {name: values[:, position] for name, position in zip(names, self.positions, strict=True)}
        return [feature.codes(own) for feature in self._expanded()]

    def _expanded(self) -> list[Feature]:
        """Return the features; a ValueError if this version of the service makes others than those of the quote."""
        features = expand(self.inputs, self.terms)
        if tuple(feature.column for feature in features) != self.features:
            raise ValueError("the terms do not make the features of the quote")
        return features

    def labels(self, target_codes: NDArray[Any]) -> Floats:
        """Return y from the codes of a category target."""
        assert isinstance(self.target, CategoryColumn)
        is_missing = target_codes >= len(self.target.categories)
        classes = np.where(is_missing, 0, target_codes)  # a missing target becomes the first category
        if self.positive is None:
            return classes.astype(float)
        return np.where(classes == self.positive, 1.0, -1.0)


@dataclass(frozen=True, slots=True)
class StatisticDesign:
    """The declared columns of a statistic, without a target. Rows are coded as in a `Design`.

    Parameters
    ----------
    features : the columns
    positions : their positions among the stored columns; None for all columns in order
    where : conditions on the rows that are described
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    outputs: ClassVar[int] = 1

    features: tuple[Column, ...]
    positions: tuple[int, ...] | None = None
    where: Annotated[tuple[Condition, ...], Field(exclude_if=lambda where: not where)] = ()

    @staticmethod
    def of(spec: DatasetSpec, requested: Sequence[str] | None = None) -> "StatisticDesign":
        """Return the table of the requested columns of a dataset; of all columns if None.

        Raises
        ------
        DesignError
            if a column is not declared or is repeated, or the matrix would be too wide.
        """
        declared = {column.name: position for position, column in enumerate(spec.columns)}
        if requested is None:
            table = StatisticDesign(tuple(spec.columns))
        else:
            positions = positions_of("columns", declared, requested)
            table = StatisticDesign(tuple(spec.columns[p] for p in positions), positions)
        if table.d > MOST_DIMENSIONS:
            raise DesignError("columns", f"must have at most {MOST_DIMENSIONS:,} columns, counting each category")
        return table

    @property
    def columns(self) -> Columns:
        """The layout of a row."""
        return _layout(self.features)

    @property
    def d(self) -> int:
        """The number of columns, with a constant."""
        return self.columns.d

    @property
    def row_norm(self) -> float:
        """The bound on each row that the declaration implies."""
        return self.columns.row_norm

    def read(self, stored: Coded, declared: Sequence[int], scratch: Path) -> tuple[Coded, Floats]:  # noqa: ARG002
        """Return the stored records, and zeros as targets; `ValueError` as `Design.read`."""
        positions = range(len(declared)) if self.positions is None else self.positions
        if tuple(declared[p] for p in positions if p < len(declared)) != self.columns.widths:
            raise ValueError("the stored matrix is not of the declared width")
        used = Coded(stored.numbers, stored.codes, tuple(stored.offsets[p] for p in positions))
        return used, np.zeros(len(stored.numbers))


def load(
    design: Design | StatisticDesign,
    problem: Problem,
    stored: Coded,
    declared: Sequence[int],
    scratch: Path,
    present: NDArray[np.bool_] | None = None,
) -> Data:
    """Return stored records as the oracles of a job sum over them; parameters as in `Design.read` and `Data.coded`.

    Only workers call it, after the start. Targets and scales are on the scratch disk, so that the memory of a job does
    not hold them. Raise `ValueError` if the stored columns are not the declared ones.
    """
    data = Data.coded(*design.read(stored, declared, scratch), problem, present, in_place=True)
    return replace(data, y=on_disk([data.y], scratch), scale=on_disk([data.scale], scratch))


def _layout(features: tuple[Column, ...]) -> Columns:
    ranges = tuple(f.code_range for f in features if not isinstance(f, CategoryColumn))
    are_full = all(ends == (-1.0, 1.0) for ends in ranges)
    return Columns(tuple(feature.code_count for feature in features), () if are_full else ranges)


def _term_inputs(spec: DatasetSpec, request: "JobRequest | TuningRequest") -> tuple[int, ...]:
    """Return the positions of the declared columns that the requested terms use."""
    if request.features is not None:
        raise DesignError("features", "must be left out with terms, because each column of the model is a term")
    used = [column.name for column in inputs(spec.columns, request.terms or ())]
    if request.target in used:
        raise DesignError("terms", "must not contain the target")
    positions = {column.name: position for position, column in enumerate(spec.columns)}
    return tuple(positions[name] for name in used)


def _features(columns: dict[str, int], requested: list[str] | None, target: int) -> tuple[int, ...]:
    if requested is None:
        return tuple(position for position in columns.values() if position != target)
    positions = positions_of("features", columns, requested)
    if target in positions:
        raise DesignError("features", "must not contain the target")
    return positions


def positions_of(field: str, columns: Mapping[str, int], requested: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of the requested columns. Raise `DesignError` if one is not declared or is repeated."""
    if len(set(requested)) < len(requested):
        raise DesignError(field, "must be distinct")
    for index, name in enumerate(requested):
        if name not in columns:
            raise DesignError(f"{field}.{index}", f"must be a declared column: {first_names(columns)}")
    return tuple(columns[name] for name in requested)


def _positive(target: Column, request: "JobRequest | TuningRequest") -> int | None:
    """Return the code of the positive class, or None for a number target, and if softmax distinguishes all classes."""
    requested, loss = request.positive, request.loss
    if not isinstance(target, CategoryColumn):
        if requested is not None:
            raise DesignError("positive", "must be left out for a number target")
        return None
    count = len(target.categories)
    if isinstance(loss, Softmax):
        if requested is not None:
            raise DesignError("positive", "must be left out: softmax distinguishes all categories")
        if count < 2:
            raise DesignError("target", "must have two categories or more for softmax")
        return None
    if requested is not None:
        if requested not in target.categories:
            raise DesignError("positive", "must be one of the target's categories")
        return target.categories.index(requested)
    if count < 2:
        raise DesignError("positive", "must be given for a target with a single category")
    if count == 2:
        return 1
    if loss is not None and loss.takes == "class":
        raise DesignError(
            "positive", f"must be given, because {loss.name} distinguishes two classes. Use softmax for more"
        )
    return None
