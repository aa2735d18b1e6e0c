"""A reader of Apache Thrift's compact protocol, in which Parquet writes its footer and the headers of its pages.

Reference: Apache Thrift, the compact protocol.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_BYTE, _INT32, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 5, 7, 8, 9, 10, 12
_INTEGERS = (4, _INT32, 6)
_BOOLEANS = (1, 2)  # a field's value is in its type; an element of a list takes a byte
_SIZES = {1: 1, 2: 1, _BYTE: 1, _DOUBLE: 8}  # in bytes
_FIELD_NUMBERS, _LARGEST_INT32 = 2**15, 2**31  # a decoder would cut off larger numbers, and so read other numbers
_DEEPEST = 10  # of lists and structures; those of Parquet are at most 8 deep


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads structures from bytes. Methods raise `IndexError` or `ValueError` if the bytes are not a structure.

    Parameters
    ----------
    data : the bytes
    list_begins : called before the elements of each list are read, with their number, whether they are structures, and
        the number of lists around this one; may raise
    """

    data: Any
    list_begins: Callable[[int, bool, int], None]

    def structure(self, at: int, lists: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
        """Return the structures and 32-bit integers by field number (the last of repeated ones), and the next position.

        Parameters
        ----------
        at : position of the structure
        lists : number of lists around it
        depth : number of structures and lists around it
        """
        fields: dict[int, Any] = {}
        field = 0
        while head := self.data[at]:
            step, kind, at = head >> 4, head & 15, at + 1
            if step:
                field += step
            else:
                field, at = self._integer(at)
            if not 0 <= field < _FIELD_NUMBERS:
                raise ValueError("a field number is out of range")
            if kind in _BOOLEANS:
                continue
            value, at = self._value(at, kind, lists, depth + 1)
            if kind in (_INT32, _STRUCT):
                fields[field] = value
        return fields, at + 1

    def _value(self, at: int, kind: int, lists: int, depth: int) -> tuple[Any, int]:
        """Return a value of this type (None if it is skipped), and the next position."""
        if depth > _DEEPEST:
            raise ValueError("structures are nested too deeply")
        if kind in _INTEGERS:
            value, at = self._integer(at)
            if kind == _INT32 and not -_LARGEST_INT32 <= value < _LARGEST_INT32:
                raise ValueError("an integer is out of range")
            return value, at
        if kind == _BINARY:
            size, at = self._unsigned(at)
            return None, at + size
        if kind in _SIZES:
            return None, at + _SIZES[kind]
        if kind == _STRUCT:
            return self.structure(at, lists, depth)
        if kind in (_LIST, _SET):
            return None, self._after_list(at, lists, depth)
        raise ValueError("a type is unknown")

    def _after_list(self, at: int, lists: int, depth: int) -> int:
        head, at = self.data[at], at + 1
        count, kind = head >> 4, head & 15
        if count == 15:
            count, at = self._unsigned(at)
        self.list_begins(count, kind == _STRUCT, lists)
        for _ in range(count):
            _, at = self._value(at, kind, lists + 1, depth + 1)
        return at

    def _integer(self, at: int) -> tuple[int, int]:
        value, at = self._unsigned(at)
        return (value >> 1) ^ -(value & 1), at

    def _unsigned(self, at: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.data[at]
            value, at = value | (byte & 127) << shift, at + 1
            if byte < 128:
                return value, at
        raise ValueError("an integer has too many bytes")
