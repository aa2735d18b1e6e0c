"""Sums over the records of each group, for `CountingOracle`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import Reads
from solvers.columns import Columns
from solvers.data_access.count_sums import SINGLE_ROUNDING, codes_of, parts_of
from solvers.data_access.data import Data, Slots, Work
from solvers.data_access.moment_sums import columns_of, numbers_of
from solvers.groups import CodeCondition, Groups
from solvers.problem import Vector

_CODE_ROUNDING = 2.0**-48  # of a code that is stored as a double
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupCounts(Work):
    """The number of rows in each group, (groups,), or in each part of each described feature within each group.

    The parts of a feature are a block (groups, parts) of the flat answer, and the blocks are in the features' order.
    A row that fails a condition counts 0.

    Parameters
    ----------
    bins : number of equal parts of each number's range; 0 counts the rows of the groups alone
    """

    reads: ClassVar[Reads] = "matrix"

    groups: Groups
    bins: int

    def sum(self, data: Data, rows: Slots) -> NDArray[Any]:
        """Return the counts in a piece."""
        columns, start = columns_of(data), self.groups.by
        count = self.groups.count(columns)
        sizes = self.groups.parts(columns, self.bins)
        group, weights = _members(data, self.groups, rows)
        if not self.bins:
            return np.bincount(group, weights, minlength=count)
        parts = _by_feature(parts_of(data, rows, self.bins), codes_of(data, rows), columns)
        counts = [
            np.bincount(group * size + part, weights, minlength=count * size)
            for part, size in zip(parts[start : start + len(sizes)], sizes, strict=True)
        ]
        return np.concatenate(counts)


@dataclass(frozen=True, slots=True)
class GroupMoments(Work):
    """The sums of u and of u o u over the rows of each group: (2 p, groups), with the sums of u first.

    u are the p described numbers, moved and scaled from their ranges to [-1, 1]. A row that fails a condition adds 0.
    """

    reads: ClassVar[Reads] = "matrix"

    groups: Groups

    def sum(self, data: Data, rows: Slots) -> NDArray[Any]:
        """Return the sums over a piece."""
        columns = columns_of(data)
        count = self.groups.count(columns)
        layout = self.groups.layout(columns)
        low, high = layout.low, layout.high
        middle, half = (low + high) / 2, (high - low) / 2
        half[half == 0] = 1.0  # half of a tiny range can underflow, too
        group, weights = _members(data, self.groups, rows)
        numbers = numbers_of(data, rows, np.zeros(columns.d - 1))
        u = np.clip((numbers[:, : len(middle)] - middle) / half, -1.0, 1.0)  # features before them are categories
        values = np.concatenate((u, u * u), axis=1)
        return np.stack([np.bincount(group, weights * value, minlength=count) for value in values.T])


def _members(data: Data, groups: Groups, rows: Slots) -> tuple[Codes, Vector]:
    """Return the group of each row, and 1, or 0 if the row fails a condition or is empty."""
    columns = columns_of(data)
    rounding = SINGLE_ROUNDING if data.records.is_single else _CODE_ROUNDING
    features = _by_feature(numbers_of(data, rows, np.zeros(columns.d - 1)), codes_of(data, rows), columns)
    accepted = data.present(rows)
    group = np.zeros(len(accepted), dtype=np.int64)
    for width, code in zip(columns.widths[: groups.by], features[: groups.by], strict=True):
        group = group * width + code
    for condition in groups.where:
        accepted = accepted & _satisfies(condition, features[condition.feature], rounding)
    return group, accepted.astype(np.float64)


def _satisfies(condition: CodeCondition, codes: NDArray[Any], rounding: float) -> NDArray[np.bool_]:
    """Return whether each code satisfies the condition. A code this little outside a range counts as inside."""
    inside = [(codes >= low - rounding) & (codes <= high + rounding) for low, high in condition.ranges]
    return np.any(inside, axis=0) != condition.is_negated if inside else np.full(len(codes), condition.is_negated)


def _by_feature(numbers: NDArray[Any], codes: Codes, columns: Columns) -> list[NDArray[Any]]:
    """Return the columns of both matrices in the order of the features."""
    number = iter(numbers.T)
    code = iter(codes.T)
    return [next(number) if width == 1 else next(code) for width in columns.widths]
