"""Upload of a large file in parts by the tus protocol 1.0: after a failure, only the missing part is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from purse.client.calls import Call, Source, api_path, get, ignore, reader
from purse.client.sending import Sender
from purse.errors import ClientError, ProblemError, Unreachable
from purse.excel import readable
from purse.frames import as_csv, is_frame
from purse.wire.files import PLAIN, Dialect
from purse.wire.uploads import UploadStatus

PART_BYTES: Final = 2**24  # of one request, held in memory; a smaller file is sent together with its declaration
_MAX_ATTEMPTS: Final = 9  # without a byte of progress, over about a minute
_MAX_PAUSE_SECONDS: Final = 20.0
_TRANSIENT: Final = frozenset((408, 409, 423, 429, 502, 503, 504))


@contextmanager
def opened(file: Source, dialect: Dialect = PLAIN, sheet: str | None = None) -> Iterator[BinaryIO]:
    """Open a file for reading; a frame or a workbook's sheet as CSV in this dialect. An open file stays open."""
    if isinstance(file, str | Path):
        with readable(Path(file), dialect, sheet) as path, path.open("rb") as source:
            yield source
    elif sheet is not None:
        raise ValueError("sheet is for workbooks. Pass the path of an Excel file, or leave out sheet")
    elif is_frame(file):
        with as_csv(file, dialect) as source:
            yield source
    else:
        yield cast(BinaryIO, file)


def length(file: BinaryIO) -> int | None:
    """Return the number of bytes of a seekable file, or None for another file."""
    if not file.seekable():
        return None
    size = file.seek(0, 2)
    file.seek(0)
    return size


async def begin(sender: Sender, size: int) -> str:
    """Start an upload and return its id."""
    call = Call("POST", api_path("uploads"), reader(UploadStatus), headers={"Upload-Length": str(size)})
    return (await sender.send(call)).id


async def fill(sender: Sender, upload: str, file: BinaryIO, size: int) -> None:
    """Send what the upload lacks, and return when it is complete.

    Raises
    ------
    Unreachable, ProblemError
        the last failure, after _MAX_ATTEMPTS without progress; at once if the failure is permanent.
    ClientError
        if the file has another length than the upload.
    """
    offset, attempt = -1, 0
    while offset < size:
        try:
            status = await sender.send(get(api_path("uploads", upload), UploadStatus))
            if status.length != size:
                raise ClientError(
                    f"The file has {size:,} bytes, but the upload was started for a file of {status.length:,} bytes. "
                    "Resume with the same file, or start a new upload."
                )
            attempt = attempt if status.offset == offset else 0
            offset = status.offset
            while offset < size:
                offset += await _send_part(sender, upload, file, offset)
        except (Unreachable, ProblemError) as error:
            if attempt == _MAX_ATTEMPTS or (isinstance(error, ProblemError) and error.status not in _TRANSIENT):
                raise
            await sender.driver.sleep(min(0.2 * 2**attempt, _MAX_PAUSE_SECONDS))
            attempt += 1


async def _send_part(sender: Sender, upload: str, file: BinaryIO, offset: int) -> int:
    """Send the part of the file at an offset and return its number of bytes."""
    file.seek(offset)
    part = file.read(PART_BYTES)
    if not part:
        raise ClientError("The file became shorter during the upload. Upload it again once it no longer changes.")
    headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    await sender.send(Call("PATCH", api_path("uploads", upload), ignore, body=part, headers=headers))
    return len(part)
