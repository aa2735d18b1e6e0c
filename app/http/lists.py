"""A page of a list: the newest first, or the oldest, from after the place that a cursor names.

A cursor is the id of the last thing on the page before, or, in a ledger, the number in its chain: nothing that its
reader was not told, nor what counts the things of others. It holds whatever has come since.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import sqlalchemy as sa
from fastapi import Query

from purse.wire.base import Order, Page

R = TypeVar("R")
T = TypeVar("T")
IDENTIFIER, NUMBER = r"^[a-z0-9_]{1,64}$", r"^[0-9]{1,15}$"


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page, as a request said."""

    cursor: str | None = None
    limit: int = 100
    order: Order = "desc"

    def of(self, query: sa.Select[Any], *by: sa.ColumnElement[Any], at: sa.Select[Any] | None = None) -> sa.Select[Any]:
        """The page's rows, and one more if there is another page.

        Parameters
        ----------
        by : what the list is ordered by, which no two rows share
        at : the same columns of the row whose id is the cursor; the cursor is itself such a number if None
        """
        newest = self.order == "desc"
        if self.cursor is not None:
            boundary: Any = int(self.cursor) if at is None else at.scalar_subquery()
            here = by[0] if len(by) == 1 else sa.tuple_(*by)
            query = query.where(here < boundary if newest else here > boundary)
        return query.order_by(*(column.desc() if newest else column.asc() for column in by)).limit(self.limit + 1)

    def page(
        self, kind: type[Page[T]], found: Sequence[R], told: Callable[[R], T], cursor: Callable[[R], object]
    ) -> Page[T]:
        """The rows that `of` found, each `told` as what the list is of."""
        shown = found[: self.limit]
        return kind(
            items=[told(row) for row in shown], next=str(cursor(shown[-1])) if len(found) > self.limit else None
        )


def paging(cursor: str = IDENTIFIER, usual: int = 100, most: int = 500, first: Order = "desc") -> Callable[..., Paging]:
    """A dependency that reads a page's parameters.

    Parameters
    ----------
    cursor : the pattern of one
    usual, most : entries of a page
    first : the order if none is asked for
    """

    def read(
        cursor: Annotated[str | None, Query(pattern=cursor, description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=most, description="The most entries of this page.")] = usual,
        order: Annotated[Order, Query(description="`desc` has the newest first, `asc` the oldest.")] = first,
    ) -> Paging:
        return Paging(cursor, limit, order)

    return read
