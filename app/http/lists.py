"""Pages of a list, newest or oldest first, starting after the entry that a cursor names.

A cursor is the id of the last entry of the previous page or, in a ledger, its number in the chain. It reveals nothing
that its reader has not seen, and no count of other callers' entries. It stays valid when entries are added.
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
    """The cursor, limit and order of a requested page."""

    cursor: str | None = None
    limit: int = 100
    order: Order = "desc"

    def of(self, query: sa.Select[Any], *by: sa.ColumnElement[Any], at: sa.Select[Any] | None = None) -> sa.Select[Any]:
        """Return the query for the page's rows, and for one more row if there is another page.

        Parameters
        ----------
        by : columns that order the list; together unique
        at : query for the same columns of the row that the cursor names; if None, the cursor is the column's value
        """
        is_descending = self.order == "desc"
        if self.cursor is not None:
            boundary: Any = int(self.cursor) if at is None else at.scalar_subquery()
            position = by[0] if len(by) == 1 else sa.tuple_(*by)
            query = query.where(position < boundary if is_descending else position > boundary)
        columns = (column.desc() if is_descending else column.asc() for column in by)
        return query.order_by(*columns).limit(self.limit + 1)

    def by_creation(self, query: sa.Select[Any], table: sa.Table, *visible: sa.ColumnElement[bool]) -> sa.Select[Any]:
        """Return `of` for a list in the order of creation, whose cursor is the id of a visible row of `table`."""
        by = (table.c.created_at, table.c.id)
        return self.of(query, *by, at=sa.select(*by).where(table.c.id == self.cursor, *visible))

    def page(
        self, kind: type[Page[T]], rows: Sequence[R], convert: Callable[[R], T | None], cursor: Callable[[R], object]
    ) -> Page[T]:
        """Return the page with the rows of the query `of`, each converted to an entry; None leaves a row out."""
        page_rows = rows[: self.limit]
        next_cursor = str(cursor(page_rows[-1])) if len(rows) > self.limit else None
        return kind(items=[item for row in page_rows if (item := convert(row)) is not None], next=next_cursor)


def paging_parameters(
    cursor: str = IDENTIFIER, usual: int = 100, largest: int = 500, first: Order = "desc"
) -> Callable[..., Paging]:
    """Return a dependency that reads the parameters of a page.

    Parameters
    ----------
    cursor : regular expression for cursors
    usual, largest : default and largest number of entries of a page
    first : default order
    """

    def read(
        cursor: Annotated[str | None, Query(pattern=cursor, description="`next` of the previous page.")] = None,
        limit: Annotated[int, Query(ge=1, le=largest, description="Largest number of entries on this page.")] = usual,
        order: Annotated[Order, Query(description="`desc`: newest first; `asc`: oldest first.")] = first,
    ) -> Paging:
        return Paging(cursor, limit, order)

    return read
