"""A file's text, unpacked, decoded as declared, and returned as UTF-8, in order and in constant memory.

gzip and Zstandard are recognised by their first bytes, with which no text begins. The unpacked size is bounded like an
upload.
"""

import codecs
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa

from app.sources.errors import TooLarge, Unreadable
from purse.wire.files import Encoding

_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class Text:
    """Reads a file once, from its beginning; a context manager.

    Parameters
    ----------
    most_bytes : largest unpacked size of a packed file

    Attributes
    ----------
    is_broken : whether the next bytes are not in the declared encoding; nothing more is read then
    """

    def __init__(self, path: Path, encoding: Encoding, most_bytes: int) -> None:
        self._file: BinaryIO = path.open("rb", buffering=0)
        start = self._file.read(4)
        self._file.seek(0)
        self._packing = next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)
        self._source = self._file if self._packing is None else pa.CompressedInputStream(self._file, self._packing)
        self._remaining = self._limit = most_bytes
        self._encoding, self._decoder = encoding, codecs.getincrementaldecoder(encoding)()
        self.is_broken = self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return the text of about `size` more bytes of the file; nothing at its end.

        Raises
        ------
        Unreadable
            if the file is packed and damaged.
        TooLarge
            if the unpacked text is too large.
        """
        utf8 = b""
        while len(utf8) < size and not self._is_over:
            piece = self._raw(size - len(utf8))
            self._is_over = not piece
            if piece.isascii() and self._encoding == "utf-8" and not self._decoder.getstate()[0]:
                utf8 += piece
                continue
            try:
                text = self._decoder.decode(piece, final=self._is_over)
            except UnicodeDecodeError as error:
                self.is_broken = self._is_over = True
                encoding = error.encoding if self._encoding == "utf-16" else self._encoding
                text = error.object[: error.start].decode(encoding)
            except UnicodeError:  # UTF-16 without a byte order mark
                self.is_broken, self._is_over, text = True, True, ""
            utf8 += text.encode()
        return utf8

    def _raw(self, size: int) -> bytes:
        try:
            piece: bytes = self._source.read(size)
        except OSError:
            if self._packing is None:
                raise
            raise Unreadable(f"The file begins like {self._packing} but is damaged. Compress it again.") from None
        if self._packing is not None:
            self._remaining -= len(piece)
            if self._remaining < 0:
                raise TooLarge(f"The file decompresses to more than {self._limit:,} bytes. Send fewer rows or columns.")
        return piece
