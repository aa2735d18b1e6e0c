"""The unpacked size and the encodings of each page of a Parquet file, read from the headers of the pages.

The decoder follows these headers, whatever the file's footer states.

Reference: parquet.thrift, PageHeader.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.sources.errors import Unreadable
from app.sources.thrift import Reader

_UNFOLDED, _PACKED = 2, 3  # fields of a page's header
_ENCODINGS = {5: 2, 7: 2, 8: 4}  # fields of data, dictionary and second data page's own headers: there, the encoding
_DICTIONARY, _VALUES = 7, 1  # the field of a dictionary page's own header; of every own header, the number of values
_DAMAGED = Unreadable("The file begins like Parquet but a page of it is damaged. Write it again.")


@dataclass(frozen=True, slots=True)
class ParquetPage:
    """One page.

    Parameters
    ----------
    unfolded : bytes in memory, before its values are decoded
    encodings : that its header names, as numbered in parquet.thrift; the decoder chooses one of them
    values : number of values that its header announces
    is_dictionary : whether it holds the distinct values of its column
    """

    unfolded: int
    encodings: tuple[int, ...]
    values: int
    is_dictionary: bool


def pages(data: Any, start: int, length: int) -> Iterator[ParquetPage]:
    """Yield the consecutive pages in these bytes, without unpacking them.

    Parameters
    ----------
    data : the file, by byte

    Raises
    ------
    Unreadable
        if the bytes are not pages.
    """
    end = start + length
    if start < 0 or length < 0 or end > len(data):
        raise _DAMAGED
    reader = Reader(data, _refuse_list)
    while start < end:
        try:
            header, begin = reader.structure(start)
        except (IndexError, ValueError):
            raise _DAMAGED from None
        unfolded = header.get(_UNFOLDED)
        packed = header.get(_PACKED)
        if not isinstance(unfolded, int) or not isinstance(packed, int) or min(unfolded, packed) < 0:
            raise _DAMAGED
        own = {field: part for field in _ENCODINGS if isinstance(part := header.get(field), dict)}
        encodings = tuple(part[_ENCODINGS[field]] for field, part in own.items() if _ENCODINGS[field] in part)
        values = [part[_VALUES] for part in own.values() if isinstance(part.get(_VALUES), int)]
        yield ParquetPage(max(unfolded, packed), encodings, max([0, *values]), _DICTIONARY in own)
        start = begin + packed
        if start > end:
            raise _DAMAGED


def _refuse_list(_count: int, _are_structures: bool, _lists: int) -> None:
    raise ValueError("a page's header contains no list")


class Window:
    """The largest size in bytes of the pages of one column whose values one batch can contain.

    Parameters
    ----------
    rows : of a batch

    Attributes
    ----------
    largest : bytes, of the pages that were added
    """

    def __init__(self, rows: int) -> None:
        self._rows, self._pages = rows, deque[ParquetPage]()
        self._unfolded = self._values = self.largest = 0

    def add(self, page: ParquetPage) -> None:
        """Add the next page of the column."""
        self._pages.append(page)
        self._unfolded += page.unfolded
        self._values += page.values
        # the first and the last page are in one batch if the values between them leave room for one of each
        while len(self._pages) > 1 and self._values - self._pages[0].values - page.values > self._rows - 2:
            oldest = self._pages.popleft()
            self._unfolded -= oldest.unfolded
            self._values -= oldest.values
        self.largest = max(self.largest, self._unfolded)
