"""Every request of the API and how its answer is read. No I/O: both clients send these."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import quote as _percent

from pydantic import BaseModel, ConfigDict, TypeAdapter

from app.wire.base import Page
from app.wire.datasets import BudgetStatus, Dataset, DatasetSpec
from app.wire.jobs import Job, Quote
from app.wire.models import Model
from app.wire.receipts import KeySet, LedgerEntry, ReceiptDocument, VerificationReport
from app.wire.tokens import NewToken, Token

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Spec = DatasetSpec | Mapping[str, Any]
Source = str | Path | BinaryIO

MEDIA_TYPES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart body, streamed: the declaration first, then the file."""

    spec: str
    file: Source
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and the reader of its answer; `repeatable` if sending it twice is as good as once."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    upload: Upload | None = None


def upload(file: Source, spec: Spec) -> Call[Dataset]:
    name = Path(file).name if isinstance(file, str | Path) else Path(str(getattr(file, "name", "data.csv"))).name
    media_type = MEDIA_TYPES.get(Path(name).suffix.lower(), "application/octet-stream")
    body = Upload(_json(spec).decode(), file, name, media_type)
    return Call("POST", "/v1/datasets", _reader(Dataset), upload=body)


def datasets(cursor: str | None) -> Call[Page[Dataset]]:
    return _page("/v1/datasets", Page[Dataset], cursor)


def dataset(identifier: str) -> Call[Dataset]:
    return _get(f"/v1/datasets/{_segment(identifier)}", Dataset)


def budget(identifier: str) -> Call[BudgetStatus]:
    return _get(f"/v1/datasets/{_segment(identifier)}/budget", BudgetStatus)


def ledger(identifier: str, cursor: str | None) -> Call[Page[LedgerEntry]]:
    return _page(f"/v1/datasets/{_segment(identifier)}/ledger", Page[LedgerEntry], cursor)


def quote(request: Mapping[str, Any]) -> Call[Quote]:
    return Call("POST", "/v1/quotes", _reader(Quote), body=_json(request), headers=_JSON, repeatable=True)


def submit(request: Mapping[str, Any], key: str | None) -> Call[Job]:
    """The key is made here, before anything is sent, so a lost answer never charges twice."""
    headers = {**_JSON, "Idempotency-Key": key or secrets.token_hex(16)}
    return Call("POST", "/v1/jobs", _reader(Job), body=_json(request), headers=headers, repeatable=True)


def jobs(cursor: str | None) -> Call[Page[Job]]:
    return _page("/v1/jobs", Page[Job], cursor)


def job(identifier: str) -> Call[Job]:
    return _get(f"/v1/jobs/{_segment(identifier)}", Job)


def cancel(identifier: str) -> Call[Job]:
    return Call("DELETE", f"/v1/jobs/{_segment(identifier)}", _reader(Job))


def events(identifier: str, last: str | None) -> Call[None]:
    """The stream of a job's events after the event `last`; its lines are read by `app.client.events`."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
    return Call("GET", f"/v1/jobs/{_segment(identifier)}/events", _nothing, headers=headers)


def model(identifier: str) -> Call[Model]:
    return _get(f"/v1/jobs/{_segment(identifier)}/model", Model)


def receipt(identifier: str) -> Call[ReceiptDocument]:
    return _get(f"/v1/jobs/{_segment(identifier)}/receipt", ReceiptDocument)


def keys() -> Call[KeySet]:
    return _get("/v1/keys", KeySet)


def verify(document: ReceiptDocument) -> Call[VerificationReport]:
    body = _json(document)
    return Call("POST", "/v1/receipts/verify", _reader(VerificationReport), body=body, headers=_JSON, repeatable=True)


def create_token(name: str, role: str) -> Call[NewToken]:
    return Call("POST", "/v1/tokens", _reader(NewToken), body=_json({"name": name, "role": role}), headers=_JSON)


def tokens(cursor: str | None) -> Call[Page[Token]]:
    return _page("/v1/tokens", Page[Token], cursor)


def revoke_token(identifier: str) -> Call[None]:
    return Call("DELETE", f"/v1/tokens/{_segment(identifier)}", _nothing)


def ready() -> Call[None]:
    return Call("GET", "/health/ready", _nothing, repeatable=True)


def request(dataset: str, target: str, privacy: object, rest: Mapping[str, Any]) -> dict[str, Any]:
    """A job request as given: the server fills in the defaults and judges it."""
    return {"dataset": dataset, "target": target, "privacy": privacy, **rest}


_JSON = {"Content-Type": "application/json"}
_ANYTHING: TypeAdapter[object] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))


def _json(value: object) -> bytes:
    """Dictionaries, our dataclasses and wire models as JSON. `ValueError` for NaN and infinities."""
    return json.dumps(_ANYTHING.dump_python(value, mode="json"), allow_nan=False).encode()


def _segment(identifier: str) -> str:
    return _percent(identifier, safe="")


def _get(path: str, answer: type[M]) -> Call[M]:
    return Call("GET", path, _reader(answer), repeatable=True)


def _page(path: str, answer: type[M], cursor: str | None) -> Call[M]:
    params = {"limit": "100"} | ({"cursor": cursor} if cursor else {})
    return Call("GET", path, _reader(answer), params=params, repeatable=True)


def _reader(answer: type[M]) -> Callable[[bytes], M]:
    # a newer server may say more than this client knows
    return lambda body: answer.model_validate_json(body, extra="ignore")


def _nothing(_body: bytes) -> None:
    return None
