"""A multipart body with the parts `spec` and `file`, received in a stream: the file onto the disk, never into memory.
In the place of `file`, `upload` names one that is there already.

Starlette's own parser would spool the file into the system's temporary folder, which may be memory, before anybody has
looked at the token. Here the token is checked first, the limits hold while the bytes arrive, and the file is written
once, beside where it will stay. Its name, its type and every other header of a part are ignored.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.http.body import parse_json
from app.http.errors import ApiError, invalid
from purse.unknown_fields import unknown
from purse.wire.datasets import DatasetSpec

MAX_SPEC_BYTES = 4 * 2**20
_OVERHEAD_BYTES = 2**16
_STEP_BYTES = 2**20
_MAX_ID_BYTES = 64
_FILES = ("file", "upload")
_PARTS = ("spec", *_FILES)


@dataclass(frozen=True, slots=True)
class Upload:
    """What has arrived.

    Parameters
    ----------
    spec : the declaration
    file : where the file lies
    folder : where there is room to read it into; it goes with the request
    """

    spec: DatasetSpec
    file: Path
    folder: Path


async def blocks(request: Request) -> AsyncIterator[bytes]:
    """A body in blocks of about a MiB; of one that breaks off all that has come, and only then the error."""
    waiting, broken = bytearray(), None
    try:
        async for chunk in request.stream():
            waiting += chunk
            if len(waiting) >= _STEP_BYTES:
                yield bytes(waiting)
                waiting.clear()
    except Exception as error:  # too slow, or gone
        broken = error
    yield bytes(waiting)
    if broken is not None:
        raise broken


async def receive(request: Request, file: Path, max_bytes: int) -> tuple[DatasetSpec, str | None]:
    """Receives a body: its spec, and the id of its upload, None if the part `file` is in `file` now; constant memory.

    Parameters
    ----------
    file : path of the new file
    max_bytes : the most that the part `file` may hold

    Raises
    ------
    ApiError
        unsupported_media_type if the body is no multipart/form-data; too_large beyond `max_bytes`, or MAX_SPEC_BYTES
        for the spec; invalid_request if a part is missing, unknown, there twice, or cut off; the same or out_of_range
        for the spec.
    """
    boundary = _boundary(request.headers.get("content-type", ""))
    most = max_bytes + MAX_SPEC_BYTES + _OVERHEAD_BYTES
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > most):
        raise _too_large("file", max_bytes)
    with file.open("xb") as target:
        parts, total = _Parts(boundary, target, max_bytes), 0
        async for block in blocks(request):
            total += len(block)
            if total > most:
                raise _too_large("file", max_bytes)
            await run_in_threadpool(parts.feed, block)
        raw, upload = parts.finished()
    return await run_in_threadpool(parse_json, DatasetSpec, raw, where="spec", max_bytes=MAX_SPEC_BYTES), upload


class _Parts:
    """Sorts the events of the multipart parser into spec and file."""

    def __init__(self, boundary: bytes, target: BinaryIO, max_bytes: int) -> None:
        self._texts = {"spec": bytearray(), "upload": bytearray()}
        self._target = target
        self._left = {"spec": MAX_SPEC_BYTES, "file": max_bytes, "upload": _MAX_ID_BYTES}
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

    def finished(self) -> tuple[bytes, str | None]:
        """The spec and the upload's id, when all has arrived."""
        if not self._is_over:
            raise _wrong("ends before its last boundary")
        if "spec" not in self._seen:
            raise _wrong("lacks the part 'spec'")
        if sum(part in self._seen for part in _FILES) != 1:
            raise _wrong("lacks the part 'file', or 'upload' in its place; or has both")
        upload = self._texts["upload"].decode("latin-1")
        return bytes(self._texts["spec"]), upload if "upload" in self._seen else None

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
            name = options.get(b"name")
            self._part = None if name is None else name.decode(errors="replace")
        self._name = self._value = b""

    def _headers_finished(self) -> None:
        if self._part is None:
            raise _wrong(f"holds a part without a name. Known parts: {', '.join(_PARTS)}.")
        if self._part not in _PARTS:
            raise _wrong(unknown(self._part, _PARTS, "part"), self._part)
        if self._part in self._seen:
            raise _wrong(f"holds the part {self._part!r} twice")
        self._seen.append(self._part)

    def _data(self, data: bytes, start: int, end: int) -> None:
        assert self._part is not None
        self._left[self._part] -= end - start
        if self._left[self._part] < 0:
            raise _too_large(self._part, self._most[self._part])
        piece = memoryview(data)[start:end]
        if self._part == "file":
            self._target.write(piece)
        else:
            self._texts[self._part] += piece

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


def _wrong(what: str, *part: str) -> ApiError:
    return invalid([{"type": "multipart", "loc": part, "msg": what}], "body")
