"""Requests of the API and the readers of their responses. No I/O."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from purse.errors import ProblemError
from purse.frames import DataFrame
from purse.wire.datasets import Dataset, DatasetSpec, Registered
from purse.wire.files import PLAIN, Dialect

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Spec = DatasetSpec | Mapping[str, Any]
Source = str | Path | BinaryIO | DataFrame

MEDIA_TYPES: Final = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
PAGE_SIZE: Final = 100
_COLUMN: Final = re.compile(r"^spec\.columns\.([0-9]+)(?:\.(?:number|category)\b)?")
_ANYTHING: TypeAdapter[object] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))
_JSON_HEADERS: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Upload:
    """A streamed multipart body: the declaration, then the file, the id of a completed upload, or nothing."""

    spec: str
    file: BinaryIO | str | None
    name: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and the reader of its response.

    Parameters
    ----------
    repeatable : whether sending the request twice has the same effect as sending it once
    timeout : seconds without data after which the request fails, if it may take longer than others
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    upload: Upload | None = None
    timeout: float | None = None


def api_path(*parts: str) -> str:
    """Return a path of version 1 of the API; slashes in a part are escaped.

    Raises
    ------
    ValueError
        for the parts `.` and `..`, which a client or a proxy would resolve to another path.
    """
    if any(part in (".", "..") for part in parts):
        raise ValueError("`.` and `..` cannot be used as names in a path, because they lead to another one. Use the id")
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def get(path: str, answer: type[M]) -> Call[M]:
    """Return the call that reads one document."""
    return Call("GET", path, reader(answer), repeatable=True)


def get_page(path: str, answer: type[M], cursor: str | None, filters: Mapping[str, str | None]) -> Call[M]:
    """Return the call that reads one page of a list, with its order and filters."""
    query = {"limit": str(PAGE_SIZE), "cursor": cursor, **filters}
    params = {name: value for name, value in query.items() if value is not None}
    return Call("GET", path, reader(answer), params=params, repeatable=True)


def replace(method: str, path: str, body: object, answer: type[M]) -> Call[M]:
    """Return the call that sets a document (PUT) or some of its fields (PATCH)."""
    return Call(method, path, reader(answer), body=_json(body).encode(), headers=_JSON_HEADERS, repeatable=True)


def post(path: str, body: object, answer: type[M], key: str | None = None, repeatable: bool = False) -> Call[M]:
    """Return the call that sends a document; an idempotency key makes it repeatable."""
    headers = _JSON_HEADERS | ({"Idempotency-Key": key} if key else {})
    return Call("POST", path, reader(answer), _json(body).encode(), headers=headers, repeatable=repeatable or bool(key))


def act(method: str, path: str, answer: type[M]) -> Call[M]:
    """Return the call of an action without a body."""
    return Call(method, path, reader(answer))


def delete(path: str) -> Call[None]:
    """Return the call that deletes something and reads no response."""
    return Call("DELETE", path, ignore)


def ignore(_body: bytes) -> None:
    """Read nothing from a response."""


def register(upload: str, spec: Spec) -> Call[Registered]:
    """Return the call that registers a completed upload as a dataset."""
    return Call("POST", api_path("datasets"), reader(Registered), upload=Upload(_json(spec), upload))


def declare(spec: Spec) -> Call[Dataset]:
    """Return the call that registers a dataset whose records are elsewhere."""
    document = spec if isinstance(spec, DatasetSpec) else {"data": "elsewhere", **spec}
    return Call("POST", api_path("datasets"), reader(Dataset), upload=Upload(_json(document), None))


def upload(file: BinaryIO, spec: Spec) -> Call[Registered]:
    """Return the call that registers a file as a dataset."""
    path = getattr(file, "name", None)
    name = Path(path).name if isinstance(path, str) else "data.csv"
    media_type = MEDIA_TYPES.get(Path(name).suffix.lower(), "application/octet-stream")
    return Call("POST", api_path("datasets"), reader(Registered), upload=Upload(_json(spec), file, name, media_type))


@contextmanager
def naming_columns(spec: Spec) -> Iterator[None]:
    """Put column names in place of positions into a ProblemError about this declaration.

    The server never repeats names of a declaration that it refuses, but the caller has them.
    """
    try:
        yield
    except ProblemError as error:
        columns = spec.columns if isinstance(spec, DatasetSpec) else spec.get("columns")
        declared = _ANYTHING.dump_python(columns, mode="json") if isinstance(columns, list) else []

        def name(match: re.Match[str]) -> str:
            position = int(match[1])
            column = declared[position] if position < len(declared) else None
            column_name = column.get("name") if isinstance(column, dict) else None
            return f"{column_name!r}" if isinstance(column_name, str) else match[0]

        violations = [v.model_copy(update={"where": _COLUMN.sub(name, v.where)}) for v in error.violations]
        named = ProblemError(
            error.code,
            error.status,
            error.detail,
            remaining=error.remaining,
            violations=violations,
            report=error.report,
            retry_after=error.retry_after,
        )
        for note in getattr(error, "__notes__", ()):
            named.add_note(note)
        raise named from None


def dialect_of(spec: Spec) -> Dialect:
    """Return the dialect of a declaration; the default if it is malformed, which the server reports."""
    if isinstance(spec, DatasetSpec):
        return spec.dialect
    try:
        return Dialect.model_validate(spec.get("dialect") or {})
    except ValidationError:
        return PLAIN


def reader(answer: type[M]) -> Callable[[bytes], M]:
    """Return the function that reads one document; it ignores fields of a newer server."""
    return lambda body: answer.model_validate_json(body, extra="ignore")


def _json(value: object) -> str:
    """Return dictionaries, our dataclasses and wire models as JSON. Raise a ValueError for NaN and infinities."""
    return json.dumps(_ANYTHING.dump_python(value, mode="json"), allow_nan=False)
