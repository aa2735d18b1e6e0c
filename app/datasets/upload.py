"""A multipart body with the parts `spec` and `file`, received in a stream: the file onto the disk, never into memory.

Starlette's own parser would spool the file into the system's temporary folder, which may be memory, before anybody has
looked at the token. Here the token is checked first, the limits hold while the bytes arrive, and the file is written
once, beside where it will stay. Its name, its type and every other header of a part are ignored.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.http.errors import ApiError, invalid

MAX_SPEC_BYTES = 4 * 2**20
_OVERHEAD_BYTES = 2**16
_STEP_BYTES = 2**20
_PARTS = ("spec", "file")


@dataclass(frozen=True, slots=True)
class Upload:
    """What has arrived.

    Parameters
    ----------
    spec : the raw JSON of the part `spec`
    file : where the part `file` lies
    """

    spec: bytes
    file: Path


async def receive(request: Request, file: Path, max_bytes: int) -> Upload:
    """Receives a request's body, writing the part `file` to a new file; constant memory.

    Parameters
    ----------
    file : path of the new file
    max_bytes : the most that the part `file` may hold

    Raises
    ------
    ApiError
        unsupported_media_type if the body is no multipart/form-data; too_large beyond `max_bytes`, or MAX_SPEC_BYTES
        for the spec; invalid_request if a part is missing, unknown, there twice, or cut off.
    """
    boundary = _boundary(request.headers.get("content-type", ""))
    most = max_bytes + MAX_SPEC_BYTES + _OVERHEAD_BYTES
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > most):
        raise _too_large("file", max_bytes)
    with file.open("xb") as target:
        parts = _Parts(boundary, target, max_bytes)
        waiting, total = bytearray(), 0
        async for chunk in request.stream():
            total += len(chunk)
            if total > most:
                raise _too_large("file", max_bytes)
            waiting += chunk
            if len(waiting) >= _STEP_BYTES:
                await run_in_threadpool(parts.feed, bytes(waiting))
                waiting.clear()
        await run_in_threadpool(parts.feed, bytes(waiting))
        return Upload(parts.finished(), file)


class _Parts:
    """Sorts the events of the multipart parser into spec and file."""

    def __init__(self, boundary: bytes, target: BinaryIO, max_bytes: int) -> None:
        self._spec = bytearray()
        self._target = target
        self._left = {"spec": MAX_SPEC_BYTES, "file": max_bytes}
        self._most = dict(self._left)
        self._seen: list[str] = []
        self._name = self._value = b""
        self._part: str | None = None
        self._is_over = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._data,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> None:
        """The next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise _wrong("is not well-formed multipart") from None

    def finished(self) -> bytes:
        """The spec, when all has arrived."""
        if not self._is_over:
            raise _wrong("ends before its last boundary")
        for part in _PARTS:
            if part not in self._seen:
                raise _wrong(f"lacks the part {part!r}")
        return bytes(self._spec)

    def _begin(self) -> None:
        self._part = None
        self._name = self._value = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._name.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            part = options.get(b"name", b"").decode("latin-1")
            self._part = part if part in _PARTS else None
        self._name = self._value = b""

    def _headers_finished(self) -> None:
        if self._part is None:
            raise _wrong("holds a part that is neither 'spec' nor 'file'")
        if self._part in self._seen:
            raise _wrong(f"holds the part {self._part!r} twice")
        self._seen.append(self._part)

    def _data(self, data: bytes, start: int, end: int) -> None:
        assert self._part is not None
        self._left[self._part] -= end - start
        if self._left[self._part] < 0:
            raise _too_large(self._part, self._most[self._part])
        piece = memoryview(data)[start:end]
        if self._part == "spec":
            self._spec += piece
        else:
            self._target.write(piece)

    def _end(self) -> None:
        self._is_over = True


def _boundary(content_type: str) -> bytes:
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise ApiError("unsupported_media_type", "The body must be multipart/form-data.")
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise _wrong("has no boundary")
    return boundary


def _too_large(part: str, most: int) -> ApiError:
    return ApiError("too_large", f"The part {part!r} may hold at most {most} bytes.")


def _wrong(what: str) -> ApiError:
    return invalid([{"type": "multipart", "loc": (), "msg": what}], "body")
