"""One request of the API and how its answer is read. No I/O."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from purse.errors import ProblemError
from purse.frames import Frame
from purse.wire.datasets import DatasetSpec, Registered
from purse.wire.files import PLAIN, Dialect

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Spec = DatasetSpec | Mapping[str, Any]
Source = str | Path | BinaryIO | Frame

MEDIA_TYPES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
_COLUMN = re.compile(r"^spec\.columns\.([0-9]+)(?:\.(?:number|category)\b)?")
_ANYTHING: TypeAdapter[object] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart body, streamed: the declaration first, then the file, or the id of an upload in its place."""

    spec: str
    file: BinaryIO | str
    name: str | None
    media_type: str | None


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and the reader of its answer; `repeatable` if sending it twice is as good as once; `timeout` if it
    may be silent for longer than others.
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


def at(*parts: str) -> str:
    """A path of version 1; no part of it can leave its place.

    Raises
    ------
    ValueError
        for `.` and `..`, which a client or a proxy would follow to another place: what is named so has an id.
    """
    if any(part in (".", "..") for part in parts):
        raise ValueError("a name that is a step in a path is none that can be asked for: say the id")
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def get(path: str, answer: type[M]) -> Call[M]:
    """Reads one document."""
    return Call("GET", path, reader(answer), repeatable=True)


def page(path: str, answer: type[M], cursor: str | None, said: Mapping[str, str | None]) -> Call[M]:
    """Reads one page of a list, in the order and of the entries that are said."""
    asked = {"limit": "100", "cursor": cursor, **said}
    params = {name: value for name, value in asked.items() if value is not None}
    return Call("GET", path, reader(answer), params=params, repeatable=True)


def say(method: str, path: str, body: object, answer: type[M]) -> Call[M]:
    """How something is from now on (PUT), or what is named of it (PATCH); twice is as good as once."""
    headers = {"Content-Type": "application/json"}
    return Call(method, path, reader(answer), body=_json(body).encode(), headers=headers, repeatable=True)


def post(path: str, body: object, answer: type[M], key: str | None = None, repeatable: bool = False) -> Call[M]:
    """Sends a document; one with an idempotency key may be sent again."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    repeatable = repeatable or key is not None
    return Call("POST", path, reader(answer), body=_json(body).encode(), headers=headers, repeatable=repeatable)


def act(method: str, path: str, answer: type[M]) -> Call[M]:
    """Does something that needs no more words than its path; `answer` is what the server then says of it."""
    return Call(method, path, reader(answer))


def nothing(_body: bytes) -> None:
    """The reader of an answer that says nothing, or is read line by line."""


def register(upload: str, spec: Spec) -> Call[Registered]:
    """Makes a dataset of an upload that is complete."""
    return Call("POST", at("datasets"), reader(Registered), upload=Upload(_json(spec), upload, None, None))


@contextmanager
def naming(spec: Spec) -> Iterator[None]:
    """A refusal of this declaration says its columns' names, which no server repeats, in the place of positions."""
    try:
        yield
    except ProblemError as error:
        columns = spec.columns if isinstance(spec, DatasetSpec) else spec.get("columns")
        names = _ANYTHING.dump_python(columns, mode="json") if isinstance(columns, list) else []

        def name(found: re.Match[str]) -> str:
            at = int(found[1])
            said = names[at].get("name") if at < len(names) and isinstance(names[at], dict) else None
            return f"{said!r}" if isinstance(said, str) else found[0]

        told = [v.model_copy(update={"where": _COLUMN.sub(name, v.where)}) for v in error.violations]
        rest: Any = {"remaining": error.remaining, "report": error.report, "retry_after": error.retry_after}
        named = ProblemError(error.code, error.status, error.detail, violations=told, **rest)
        for note in getattr(error, "__notes__", ()):
            named.add_note(note)
        raise named from None


def upload(file: BinaryIO, spec: Spec) -> Call[Registered]:
    """Sends a file under its declaration."""
    given = getattr(file, "name", None)
    name = Path(given).name if isinstance(given, str) else "data.csv"
    media_type = MEDIA_TYPES.get(Path(name).suffix.lower(), "application/octet-stream")
    return Call("POST", at("datasets"), reader(Registered), upload=Upload(_json(spec), file, name, media_type))


def dialect_of(spec: Spec) -> Dialect:
    """How a file under this declaration is written."""
    if isinstance(spec, DatasetSpec):
        return spec.dialect
    try:
        return Dialect.model_validate(spec.get("dialect") or {})
    except ValidationError:
        return PLAIN  # the server says what is wrong with it


def _json(value: object) -> str:
    """Dictionaries, our dataclasses and wire models as JSON. `ValueError` for NaN and infinities."""
    return json.dumps(_ANYTHING.dump_python(value, mode="json"), allow_nan=False)


def reader(answer: type[M]) -> Callable[[bytes], M]:
    """Reads one document of an answer."""
    # a newer server may say more than this client knows
    return lambda body: answer.model_validate_json(body, extra="ignore")
