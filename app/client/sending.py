"""From a call to an httpx request, and from the response to its answer; how often to try again. No I/O but files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import httpx

from app.client.calls import Call, Upload
from app.client.errors import Unreachable, problem

T = TypeVar("T")

TIMEOUT: Final = 60.0
_ATTEMPTS: Final = 4


class Attempts:
    """How often one call has failed to reach the server."""

    def __init__(self, call: Call[Any]) -> None:
        self._left = _ATTEMPTS if call.repeatable else 1
        self._delay = 0.1

    def failed(self, error: httpx.TransportError) -> float:
        """Seconds to wait before the next attempt; `Unreachable` if there is none."""
        self._left -= 1
        if not self._left:
            what = str(error) or type(error).__name__
            raise Unreachable(f"no answer from the server: {what}; is it running, is PURSE_URL right?") from error
        self._delay *= 2
        return self._delay


@contextmanager
def opened(call: Call[Any]) -> Iterator[dict[str, Any]]:
    """The keyword arguments of httpx's `request`; a file that is named by its path is open inside the block."""
    arguments: dict[str, Any] = {"params": dict(call.params), "headers": dict(call.headers)}
    if call.upload is None:
        yield arguments | {"content": call.body}
    elif isinstance(call.upload.file, str | Path):
        with Path(call.upload.file).open("rb") as file:
            yield arguments | _multipart(call.upload, file)
    else:
        yield arguments | _multipart(call.upload, call.upload.file)


def checked(call: Call[T], response: httpx.Response) -> T:
    """The call's answer; `ProblemError` if the server refused it."""
    if not response.is_success:
        raise problem(response.status_code, response.content)
    return call.read(response.content)


def _multipart(upload: Upload, file: BinaryIO) -> dict[str, Any]:
    # encoding a large file takes the server longer than any other answer
    return {
        "data": {"spec": upload.spec},
        "files": {"file": (upload.name, file, upload.media_type)},
        "timeout": httpx.Timeout(TIMEOUT, read=None),
    }
