"""Receives a multipart body with the parts `spec` and `file` as a stream, and writes the file to disk as it arrives.

Instead of `file`, the part `upload` may state the id of a complete upload, or `path` a file below PURSE_IMPORT_URL. A
dataset whose records are elsewhere has none of them. The headers of a part are ignored, except the one that names the
part.

Starlette's parser would store the file in the system's temporary folder, which may be memory, before the token is
checked. Here the token is checked first, limits apply while bytes arrive, and the file is written once.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.datasets.imports import MOST_PATH_CHARACTERS
from app.http.body import parse_json
from app.http.errors import ApiError, invalid_field
from app.http.work import in_turn
from purse.unknown_fields import shown, unknown
from purse.wire.datasets import DatasetSpec

MAX_SPEC_BYTES = 4 * 2**20
_OVERHEAD_BYTES = 2**16  # of boundaries and headers
_BLOCK_BYTES = 2**20
_MAX_ID_BYTES = 64
_FILES = ("file", "upload", "path")
_PARTS = ("spec", *_FILES)


@dataclass(frozen=True, slots=True)
class Upload:
    """A received declaration and file.

    Parameters
    ----------
    file : the path of the file; None if the records are elsewhere
    folder : a folder for the records that are read from it; removed after the request
    most_bytes : largest size of the file, also when unpacked
    """

    spec: DatasetSpec
    file: Path | None
    folder: Path
    most_bytes: int


async def blocks(request: Request) -> AsyncIterator[bytes]:
    """Yield a body in blocks of about 1 MiB. If it breaks off, the error follows the last received bytes."""
    waiting, broken = bytearray(), None
    try:
        async for chunk in request.stream():
            waiting += chunk
            if len(waiting) >= _BLOCK_BYTES:
                yield bytes(waiting)
                waiting.clear()
    except Exception as error:  # too slow, or disconnected
        broken = error
    yield bytes(waiting)
    if broken is not None:
        raise broken


async def receive(request: Request, file: Path, max_bytes: int) -> tuple[DatasetSpec, dict[str, str]]:
    """Receive a body in constant memory; return its spec, and the text of the part that names its file, by its name.

    The text of the part `file` is empty. A dataset whose records are elsewhere has no such part.

    Parameters
    ----------
    file : path to write the part `file` to
    max_bytes : largest size of the part `file`

    Raises
    ------
    ApiError
        unsupported_media_type if the body is not multipart/form-data; too_large beyond `max_bytes`, or MAX_SPEC_BYTES
        for the spec; invalid_request if a part is missing, unknown, repeated or cut off, or if the spec allows no file;
        invalid_request or out_of_range for the spec.
    """
    boundary = _boundary(request.headers.get("content-type", ""))
    limit = max_bytes + MAX_SPEC_BYTES + _OVERHEAD_BYTES
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
        raise _too_large("file", max_bytes)
    with file.open("xb") as target:
        parts, total = _FormParts(boundary, target, max_bytes), 0
        async for block in blocks(request):
            total += len(block)
            if total > limit:
                raise _too_large("file", max_bytes)
            await run_in_threadpool(parts.feed, block)
        raw, received = parts.finished()
    spec = await in_turn(parse_json, DatasetSpec, raw, where="spec", max_bytes=MAX_SPEC_BYTES)
    has_file = bool(received)
    if has_file != (spec.data == "stored"):
        raise _wrong(
            "has a file, but the spec says that the records are elsewhere. Send the spec alone"
            if has_file
            else "must have one of the parts `file`, `upload` and `path`, because the spec's `data` is stored"
        )
    return spec, received


class _FormParts:
    """Sorts the parser's events into spec, file, upload id and path."""

    def __init__(self, boundary: bytes, target: BinaryIO, max_bytes: int) -> None:
        self._texts = {"spec": bytearray(), "upload": bytearray(), "path": bytearray()}
        self._target = target
        self._limits = {
            "spec": MAX_SPEC_BYTES,
            "file": max_bytes,
            "upload": _MAX_ID_BYTES,
            "path": MOST_PATH_CHARACTERS,
        }
        self._remaining = dict(self._limits)
        self._received: list[str] = []
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
        """Parse the next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise _wrong("is not well-formed multipart/form-data. Let a library write the body") from None

    def finished(self) -> tuple[bytes, dict[str, str]]:
        """Return the spec, and the text of the other received part by its name, after the last byte."""
        if not self._is_over:
            raise _wrong("ends before its last boundary. Send the whole body again")
        if "spec" not in self._received:
            raise _wrong("lacks the part `spec`, the declaration as JSON")
        spec = bytes(self._texts.pop("spec"))
        self._received.remove("spec")
        if len(self._received) > 1:
            raise _wrong("must have only one of the parts `file`, `upload` and `path`")
        return spec, {part: self._texts.get(part, b"").decode("latin-1") for part in self._received}

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
            raise _wrong(f"has a part without a name. Known parts: {', '.join(_PARTS)}.")
        if self._part not in _PARTS:
            raise _wrong(unknown(self._part, _PARTS, "part"), self._part)
        if self._part in self._received:
            raise _wrong(f"has the part {self._part!r} twice. Send it once")
        self._received.append(self._part)

    def _data(self, data: bytes, start: int, end: int) -> None:
        assert self._part is not None
        self._remaining[self._part] -= end - start
        if self._remaining[self._part] < 0:
            raise _too_large(self._part, self._limits[self._part])
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
        raise _wrong("has no boundary of 1 to 70 characters in its Content-Type. Let a library write it")
    return boundary


def _too_large(part: str, limit: int) -> ApiError:
    return ApiError("too_large", f"The part {part!r} is too long. Send at most {limit} bytes.")


def _wrong(reason: str, *part: str) -> ApiError:
    return invalid_field(".".join(("body", *map(shown, part))), reason)
