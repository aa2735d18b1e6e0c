"""Request bodies: JSON read strictly from the raw bytes, then validated strictly against a wire model.

Refused on the bytes, before any model sees them: other content types, more than the limit, bytes that are not
UTF-8, a byte order mark, what is not JSON, a repeated key at any depth, NaN and Infinity, numbers beyond the range
of a double, nesting beyond 64, NUL and lone surrogates in strings. No error repeats a value that was sent.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.http.errors import ApiError, invalid
from app.http.work import count_bytes, in_turn

MAX_BODY_BYTES = 2**20
_MAX_DEPTH = 64
_MOST_VALUES = 20_000  # of a body: what a job over 4,096 named features needs, several times; time grows with it
_SMALL = 2**12  # bytes that are read sooner than a thread is found for them
_LONGEST_INTEGER = 310  # digits; a double ends at 1.8e308

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class JsonBody(Generic[M]):
    """A FastAPI dependency: the request's body as an instance of `model`. Make one with `json_body`."""

    model: type[M]

    async def __call__(self, request: Request) -> M:
        """The validated body; `ApiError` (415, 413, 422) if there is none."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise ApiError("unsupported_media_type", "The body must be application/json.")
        raw = await read_body(request, MAX_BODY_BYTES)
        if sum(map(raw.count, b",[{")) > _MOST_VALUES:  # before anything builds them; in strings they count as well
            raise ApiError("too_large", f"At most {_MOST_VALUES} values are taken here.")
        if len(raw) <= _SMALL:
            return parse_json(self.model, raw)
        return await in_turn(parse_json, self.model, raw)


def json_body(model: type[M]) -> JsonBody[M]:
    """`Annotated[Model, Depends(json_body(Model))]`; the OpenAPI document shows the model as the request's body."""
    return JsonBody(model)


def parse_json(model: type[M], raw: bytes | str, *, where: str = "body", max_bytes: int = MAX_BODY_BYTES) -> M:
    """An instance of `model` from JSON text that a caller sent.

    Parameters
    ----------
    raw : UTF-8 JSON
    where : what the text is, as the first part of the paths in `violations`: "body", or a form field's name
    max_bytes : longer is 413

    Raises
    ------
    ApiError
        too_large, invalid_request or out_of_range.
    """
    text = _decoded(raw, where, max_bytes)
    _check(_loaded(text, where), where)
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False), where, model) from None


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The raw body; `ApiError` too_large as soon as it is known to be longer than `max_bytes`."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    count_bytes(len(body))
    return bytes(body)


def _decoded(raw: bytes | str, where: str, max_bytes: int) -> str:
    try:
        encoded = raw.encode() if isinstance(raw, str) else raw
        if len(encoded) > max_bytes:
            raise _too_large(max_bytes)
        text = encoded.decode("utf-8")
    except UnicodeError:
        raise _wrong(where, "is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise _wrong(where, "begins with a byte order mark")
    return text


def _loaded(text: str, where: str) -> Any:
    def constant(_literal: str) -> NoReturn:
        raise _wrong(where, "holds NaN or Infinity, which are not JSON")

    def integer(literal: str) -> int:
        if len(literal) > _LONGEST_INTEGER:
            raise _beyond(where)
        return int(real(literal)) if len(literal) > 300 else int(literal)

    def real(literal: str) -> float:
        value = float(literal)
        if not math.isfinite(value):
            raise _beyond(where)
        return value

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(items)
        if len(unique) < len(items):
            raise _wrong(where, "repeats a key")
        return unique

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=integer)
    except RecursionError:
        raise _wrong(where, f"is nested deeper than {_MAX_DEPTH}") from None
    except ValueError:
        raise _wrong(where, "is not JSON") from None


def _check(document: Any, where: str) -> None:
    """Bounded depth, and strings that any database and any canonical form can hold."""
    level = [document]
    for _ in range(_MAX_DEPTH):
        for value in level:
            for text in _texts(value):
                if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
                    raise _wrong(where, "holds a string with NUL or with half of a surrogate pair")
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise _wrong(where, f"is nested deeper than {_MAX_DEPTH}")


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return list(value)
        case _:
            return []


def _children(value: Any) -> list[Any]:
    match value:
        case list():
            return value
        case dict():
            return list(value.values())
        case _:
            return []


def _wrong(where: str, what: str) -> ApiError:
    return invalid([{"type": "json", "loc": (), "msg": what}], where)


def _beyond(where: str) -> ApiError:
    return invalid([{"type": "finite_number", "loc": (), "msg": "holds a number beyond the range of a double"}], where)


def _too_large(max_bytes: int) -> ApiError:
    return ApiError("too_large", f"At most {max_bytes} bytes are taken here.")
