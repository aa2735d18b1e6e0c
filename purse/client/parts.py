"""A large file in parts, by the tus protocol 1.0: after a failure the server says what it has, and gets the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from purse.client.calls import Call, Source, at, get, nothing, reader
from purse.client.sending import Sender
from purse.errors import ClientError, ProblemError, Unreachable
from purse.excel import readable
from purse.frames import as_csv, is_frame
from purse.wire.files import PLAIN, Dialect
from purse.wire.uploads import UploadStatus

PART: Final = 2**24  # bytes of a request, held in memory; a file of no more goes in one with its declaration
_ATTEMPTS: Final = 9  # in which nothing arrived, over a minute
_LONGEST: Final = 20.0  # seconds between two of them
_PASSING: Final = frozenset((408, 409, 423, 429, 502, 503, 504))


@contextmanager
def opened(file: Source, dialect: Dialect = PLAIN, sheet: str | None = None) -> Iterator[BinaryIO]:
    """The file, open; one that was open before stays so; a frame or a workbook's sheet as CSV in this dialect."""
    if isinstance(file, str | Path):
        with readable(Path(file), dialect, sheet) as path, path.open("rb") as found:
            yield found
    elif sheet is not None:
        raise ValueError("a sheet is one of a workbook, which is named by its path")
    elif is_frame(file):
        with as_csv(file, dialect) as found:
            yield found
    else:
        yield cast(BinaryIO, file)


def length(file: BinaryIO) -> int | None:
    """The bytes of a file that can be read from any place; None of another."""
    if not file.seekable():
        return None
    found = file.seek(0, 2)
    file.seek(0)
    return found


async def begin(sender: Sender, size: int) -> str:
    """A new upload's identifier."""
    call = Call("POST", at("uploads"), reader(UploadStatus), headers={"Upload-Length": str(size)})
    return (await sender.send(call)).id


async def fill(sender: Sender, upload: str, file: BinaryIO, size: int) -> None:
    """Sends what the upload lacks, and returns when it lacks nothing.

    Raises
    ------
    Unreachable, ProblemError
        the last failure, after so many without a byte's progress; at once one that does not pass.
    ClientError
        if the file is not the upload's: of another length.
    """
    offset, tried = -1, 0
    while offset < size:
        try:
            known = await sender.send(get(at("uploads", upload), UploadStatus))
            if known.length != size:
                raise ClientError(f"the upload is of a file of {known.length} bytes, and this one has {size}")
            tried = tried if known.offset == offset else 0
            offset = known.offset
            while offset < size:
                offset += await _part(sender, upload, file, offset)
        except (Unreachable, ProblemError) as error:
            if tried == _ATTEMPTS or (isinstance(error, ProblemError) and error.status not in _PASSING):
                raise
            await sender.driver.sleep(min(0.2 * 2**tried, _LONGEST))
            tried += 1


async def _part(sender: Sender, upload: str, file: BinaryIO, offset: int) -> int:
    file.seek(offset)
    part = file.read(PART)
    if not part:
        raise ClientError("the file is shorter than it was")
    headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    await sender.send(Call("PATCH", at("uploads", upload), nothing, body=part, headers=headers))
    return len(part)
