"""Groups of records by declared columns: public functions of one record each."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from solvers.columns import Columns


@dataclass(frozen=True, slots=True)
class CodeCondition:
    """A public condition on one feature of a record: its code lies in one of some ranges.

    Parameters
    ----------
    feature : index of the feature in the layout
    ranges : the ranges [low, high] of codes; the code of a category is its index
    is_negated : whether the code must lie in none of the ranges instead
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    feature: int
    ranges: tuple[tuple[float, float], ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Groups:
    """The records that satisfy all conditions, in groups by the categories of the layout's first features.

    A record is in one group, or in no group if it fails a condition.

    Parameters
    ----------
    by : number of the layout's first features, all categories, whose combinations are the groups. The last feature
        varies fastest. With 0, all records are one group
    described : number of the next features, which are described in each group; all others if None
    where : conditions that a record of any group satisfies
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    by: int = 0
    described: int | None = None
    where: tuple[CodeCondition, ...] = ()

    def count(self, columns: Columns) -> int:
        """Return the number of groups."""
        return math.prod(columns.widths[: self.by])

    def layout(self, columns: Columns) -> Columns:
        """Return the layout of the described features."""
        stop = None if self.described is None else self.by + self.described
        widths = columns.widths[self.by : stop]
        return Columns(widths, columns.ranges[: widths.count(1)])

    def parts(self, columns: Columns, bins: int) -> tuple[int, ...]:
        """Return the number of parts of each described feature: `bins` of a number, and the categories of a block."""
        return tuple(bins if width == 1 else width for width in self.layout(columns).widths)

    def refusal(self, columns: Columns) -> str | None:
        """Return why the groups do not fit the layout, or None if they do."""
        features, described = len(columns.widths), self.described
        counts = (self.by, 0 if described is None else described)
        if not all(type(count) is int and count >= 0 for count in counts) or sum(counts) > features:
            return "by and described must count features of the layout. Name declared columns"
        if 1 in columns.widths[: self.by]:
            return "groups need categories, and a column that groups is a number. Group by category columns"
        if not self.layout(columns).widths:
            return "no column is described. Name at least one column that does not group"
        if not all(0 <= condition.feature < features for condition in self.where):
            return "a condition names no feature of the layout. Name declared columns"
        return None
