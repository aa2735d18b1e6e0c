"""The memory that a Parquet footer takes once it is decoded, estimated before Arrow decodes it.

Three bytes of a footer can stand for a column chunk, whose decoded form takes some 700 bytes.

Reference: parquet.thrift, FileMetaData; Apache Thrift, the compact protocol.
"""

from app.sources.errors import TooLarge, Unreadable
from app.sources.pages import unsigned

MOST_DECODED_BYTES = 2**28
_BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_FIXED = {1: 1, 2: 1, _BYTE: 1, _DOUBLE: 8}  # bytes of a list's element; of a field, a boolean takes none
_LARGE, _SMALL = 1024, 64  # bytes of a decoded row group, column chunk or schema element; of any other element
_LARGE_LISTS = 2  # lists inside lists whose elements are large: row groups, and their column chunks
_DEEPEST = 8
_DAMAGED = Unreadable("The file begins like Parquet but its footer is damaged.")


def check_footer(data: bytes) -> None:
    """Raise `TooLarge` if the footer's elements would take more than MOST_DECODED_BYTES, `Unreadable` if it is damaged.

    Parameters
    ----------
    data : the footer, a FileMetaData in the compact protocol
    """
    try:
        _Footer(data).struct(0, 0, 0)
    except IndexError:
        raise _DAMAGED from None


class _Footer:
    """One pass over a footer; `left` is what its elements may still take."""

    def __init__(self, data: bytes) -> None:
        self._data, self._left = data, MOST_DECODED_BYTES

    def struct(self, at: int, lists: int, depth: int) -> int:
        """Count the elements inside a structure; return where it ends.

        Parameters
        ----------
        lists : how many lists it is in
        """
        data = self._data
        if depth > _DEEPEST:
            raise _DAMAGED
        while head := data[at]:
            at += 1
            if not head >> 4:
                _, at = unsigned(data, at)
            kind = head & 15
            if kind > 2:  # a boolean's value is in its type
                at = self._value(at, kind, lists, depth)
        return at + 1

    def _value(self, at: int, kind: int, lists: int, depth: int) -> int:
        if kind in _INTEGERS:
            return unsigned(self._data, at)[1]
        if kind == _BINARY:
            size, at = unsigned(self._data, at)
            return at + size
        if kind in _FIXED:
            return at + _FIXED[kind]
        if kind == _STRUCT:
            return self.struct(at, lists, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(at, lists, depth + 1)
        raise _DAMAGED

    def _list(self, at: int, lists: int, depth: int) -> int:
        head, at = self._data[at], at + 1
        count, kind = head >> 4, head & 15
        if count == 15:
            count, at = unsigned(self._data, at)
        is_large = kind == _STRUCT and lists < _LARGE_LISTS
        self._left -= count * (_LARGE if is_large else _SMALL)
        if self._left < 0:
            raise TooLarge("The file's footer lists too many columns or row groups. Write fewer row groups.")
        for _ in range(count):
            at = self._value(at, kind, lists + 1, depth)
        return at
