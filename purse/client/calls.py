"""Requests of the API and the readers of their responses. No I/O."""

import json
import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from purse.errors import ProblemError
from purse.frames import DataFrame
from purse.wire.datasets import Dataset, DatasetSpec
from purse.wire.files import PLAIN, Dialect

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Spec = DatasetSpec | Mapping[str, Any]
Source = str | Path | BinaryIO | DataFrame
Part = tuple[str | None, BinaryIO | str, str | None]
"""A part of a multipart body: the name of a file, the content, and its media type."""

MEDIA_TYPES: Final = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
PAGE_SIZE: Final = 100
_COLUMN: Final = re.compile(r"^(?:spec\.)?columns\.([0-9]+)(?:\.(?:number|category)\b)?")
_ANYTHING: TypeAdapter[object] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))
_JSON_HEADERS: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and the reader of its response.

    Parameters
    ----------
    repeatable : whether sending the request twice has the same effect as sending it once
    files : parts of a multipart body by name, in place of `body`; they are streamed in this order
    timeout : seconds without data after which the request fails, if it may take longer than others
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    files: Mapping[str, Part] | None = None
    timeout: float | None = None


def api_path(*parts: str) -> str:
    """Return a path of version 1 of the API.

    Raises
    ------
    TypeError
        if a part is not text.
    ValueError
        for the parts `.` and `..`, and for a part with a slash, which a client, a proxy or the server would resolve to
        another path.
    """
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"a path needs an id or a name, and this is of type {type(part).__name__}. Pass its id")
        if part in (".", "..") or "/" in part:
            raise ValueError(f"{part!r} cannot be used as a name in a path, because it leads elsewhere. Use the id")
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def dataset_path(dataset: Dataset | str, *parts: str) -> str:
    """Return a path below a dataset: an object, an id or a name."""
    return api_path("datasets", reference(dataset), *parts)


def reference(dataset: Dataset | str) -> str:
    """Return the id or the name by which a request states a dataset."""
    return dataset if isinstance(dataset, str) else dataset.id


def get(path: str, answer: type[M]) -> Call[M]:
    """Return the call that reads one document."""
    return Call("GET", path, reader(answer), repeatable=True)


def replace(method: str, path: str, body: object, answer: type[M]) -> Call[M]:
    """Return the call that sets a document (PUT) or some of its fields (PATCH)."""
    return Call(method, path, reader(answer), body=_json(body).encode(), headers=_JSON_HEADERS, repeatable=True)


def post(path: str, body: object, answer: type[M], *, repeatable: bool = False) -> Call[M]:
    """Return the call that sends a document."""
    return Call("POST", path, reader(answer), _json(body).encode(), headers=_JSON_HEADERS, repeatable=repeatable)


def post_once(path: str, body: object, answer: type[M], key: str | None = None) -> Call[M]:
    """Return the call that sends a document with an idempotency key, which makes it repeatable; a new key if None."""
    headers = _JSON_HEADERS | {"Idempotency-Key": key or secrets.token_hex(16)}
    return Call("POST", path, reader(answer), _json(body).encode(), headers=headers, repeatable=True)


def act(method: str, path: str, answer: type[M]) -> Call[M]:
    """Return the call of an action without a body."""
    return Call(method, path, reader(answer))


def delete(path: str) -> Call[None]:
    """Return the call that deletes something and reads no response."""
    return Call("DELETE", path, ignore)


def ignore(_body: bytes) -> None:
    """Read nothing from a response."""


def register(spec: Spec, answer: type[M], **values: Part) -> Call[M]:
    """Return the call that registers a dataset with a `file`, an `upload`, a `path`, or without values."""
    return Call("POST", api_path("datasets"), reader(answer), files={"spec": (None, _json(spec), None), **values})


def file_part(file: BinaryIO) -> Part:
    """Return an open file as a part of a multipart body."""
    path = getattr(file, "name", None)
    name = Path(path).name if isinstance(path, str) else "data.csv"
    return name, file, MEDIA_TYPES.get(Path(name).suffix.lower(), "application/octet-stream")


@contextmanager
def naming_columns(spec: Spec) -> Iterator[None]:
    """Put column names in place of positions into a ProblemError about this declaration.

    The server never repeats names of a declaration that it refuses, but the caller has them.
    """
    try:
        yield
    except ProblemError as error:
        columns = spec.columns if isinstance(spec, DatasetSpec) else spec.get("columns")
        error.violations = tuple(
            each.model_copy(update={"where": with_column_name(each.where, columns)}) for each in error.violations
        )
        raise


def with_column_name(field: str, columns: object) -> str:
    """Return the path of a field of a declaration, with a column's name in place of its position and type."""
    position = _COLUMN.match(field)
    if position is None or not isinstance(columns, list) or int(position[1]) >= len(columns):
        return field
    column = columns[int(position[1])]
    name = column.get("name") if isinstance(column, Mapping) else getattr(column, "name", None)
    return f"{name!r}{field[position.end() :]}" if isinstance(name, str) else field


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
    """Return dictionaries, our dataclasses and wire models as JSON.

    Raises
    ------
    ValueError
        for NaN and infinities, which JSON cannot express. The message names the field.
    """
    document = _ANYTHING.dump_python(value, mode="json")
    try:
        return json.dumps(document, allow_nan=False)
    except ValueError:
        reason = "must be a finite number: NaN and infinity are not accepted"
        raise ValueError(f"{_not_finite(document)}: {reason}") from None


def _not_finite(value: object) -> str:
    """Return the path of the first number that is not finite; empty if there is none."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        if isinstance(part, float) and not math.isfinite(part):
            return str(name)
        if path := _not_finite(part):
            return f"{name}.{path}"
    return ""
