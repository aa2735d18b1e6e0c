"""The memory that a Parquet footer takes once it is decoded, estimated before Arrow decodes it.

Three bytes of a footer can stand for a column chunk, whose decoded form takes some 700 bytes.

Reference: parquet.thrift, FileMetaData.
"""

from app.sources.errors import TooLarge, Unreadable
from app.sources.thrift import Reader

MOST_DECODED_BYTES = 2**28
_LARGE, _SMALL = 1024, 64  # bytes of a decoded row group, column chunk or schema element; of any other element
_LARGE_LISTS = 2  # lists inside lists whose elements are large: row groups, and their column chunks


def check_footer(data: bytes) -> None:
    """Raise `TooLarge` if the footer's elements would take more than MOST_DECODED_BYTES, `Unreadable` if it is damaged.

    Parameters
    ----------
    data : the footer, a FileMetaData in the compact protocol
    """
    remaining = MOST_DECODED_BYTES

    def reserve(count: int, are_structures: bool, lists: int) -> None:
        nonlocal remaining
        remaining -= count * (_LARGE if are_structures and lists < _LARGE_LISTS else _SMALL)
        if remaining < 0:
            raise TooLarge("The file's footer lists too many columns or row groups. Write fewer row groups.")

    try:
        Reader(data, reserve).structure(0)
    except (IndexError, ValueError):
        raise Unreadable("The file begins like Parquet but its footer is damaged. Write it again.") from None
