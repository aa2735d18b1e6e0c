"""Request bodies: JSON read strictly from the raw bytes, then validated strictly against a wire model.

These bodies are rejected before any model reads them: another content type, more bytes than the limit, bytes that are
not UTF-8, a byte order mark, text that is not JSON, a repeated key at any depth, NaN and Infinity, numbers beyond the
range of a double, nesting beyond 64, and strings with NUL or lone surrogates. No error repeats a value from the body.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.http.errors import ApiError, invalid, invalid_field
from app.http.work import count_bytes, in_turn

MAX_BODY_BYTES = 2**20
_MAX_DEPTH = 64
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
# Parsing time grows with the number of values. A job over 4,096 named features needs a fraction of this limit.
_MOST_VALUES = 20_000
_INLINE_BYTES = 2**12  # a body up to this size is parsed faster than a thread could be started for it
_MOST_INTEGER_CHARACTERS = 310  # the largest double, 1.8e308, has 309 digits

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class JsonBody(Generic[M]):
    """FastAPI dependency that reads the request's body: `Annotated[Model, Depends(JsonBody(Model))]`.

    The OpenAPI document shows the model as the request's body.
    """

    model: type[M]

    async def __call__(self, request: Request) -> M:
        """Return the validated body, or raise `ApiError` with status 415, 413 or 422."""
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            remedy = "Send a JSON body; curl has the option --json."
            raise ApiError("unsupported_media_type", f"The Content-Type must be application/json. {remedy}")
        raw = await read_body(request, MAX_BODY_BYTES)
        # An upper bound on the number of values, without parsing. Separators inside strings count too.
        if sum(map(raw.count, b",[{")) > _MOST_VALUES:
            raise ApiError("too_large", f"The JSON body has too many values. Send at most {_MOST_VALUES} values.")
        if len(raw) <= _INLINE_BYTES:
            return parse_json(self.model, raw)
        return await in_turn(parse_json, self.model, raw)


def parse_json(model: type[M], raw: bytes | str, *, where: str = "body", max_bytes: int = MAX_BODY_BYTES) -> M:
    """Return an instance of `model` parsed from JSON text that a caller sent.

    Parameters
    ----------
    raw : UTF-8 JSON
    where : first part of the paths in `violations`: "body", or the name of a form field
    max_bytes : largest size of the text in bytes

    Raises
    ------
    ApiError
        too_large, invalid_request or out_of_range.
    """
    text = _decode(raw, where, max_bytes)
    _check(_load_json(text, where), where)
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False), where, model) from None


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the raw body, or raise `ApiError` too_large as soon as it exceeds `max_bytes`."""
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


def _decode(raw: bytes | str, where: str, max_bytes: int) -> str:
    """Return the text of the bytes, or raise `ApiError` if it is too long or not plain UTF-8."""
    try:
        encoded = raw.encode() if isinstance(raw, str) else raw
        if len(encoded) > max_bytes:
            raise _too_large(max_bytes)
        text = encoded.decode("utf-8")
    except UnicodeError:
        raise invalid_field(where, "is not UTF-8. Encode it as UTF-8") from None
    if text.startswith("\ufeff"):
        raise invalid_field(where, "begins with a byte order mark. Send it without one")
    return text


def _load_json(text: str, where: str) -> Any:
    """Return the parsed JSON, or raise `ApiError` for invalid JSON, repeated keys and numbers out of range."""

    def constant(_literal: str) -> NoReturn:
        raise invalid_field(where, "contains NaN or Infinity, which are not JSON; send finite numbers")

    def integer(literal: str) -> int:
        if len(literal) > _MOST_INTEGER_CHARACTERS:
            raise _out_of_range(where)
        return int(real(literal)) if len(literal) > 300 else int(literal)

    def real(literal: str) -> float:
        value = float(literal)
        if not math.isfinite(value):
            raise _out_of_range(where)
        return value

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(items)
        if len(unique) < len(items):
            raise invalid_field(where, "repeats a key in one object. Send each key once")
        return unique

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=integer)
    except RecursionError:
        raise _too_deep(where) from None
    except ValueError:
        raise invalid_field(where, "is not valid JSON; check its syntax") from None


def _check(document: Any, where: str) -> None:
    """Raise `ApiError` for nesting that is too deep, or a string that a database or canonical JSON cannot hold."""
    level = [document]
    for _ in range(_MAX_DEPTH):
        if any(isinstance(value, str) and _UNSTORABLE.search(value) for value in level):
            raise invalid_field(where, "contains a string with NUL or a lone surrogate. Remove these characters")
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise _too_deep(where)


def _children(value: Any) -> list[Any]:
    """Return the entries of a list, or the keys and the values of an object."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _too_deep(where: str) -> ApiError:
    """Return the error for nesting beyond `_MAX_DEPTH`."""
    return invalid_field(where, f"is nested deeper than {_MAX_DEPTH} levels; flatten it")


def _out_of_range(where: str) -> ApiError:
    """Return the error for a number beyond the range of a double."""
    return invalid_field(where, "contains a number beyond the range of a double; send a smaller one", "out_of_range")


def _too_large(max_bytes: int) -> ApiError:
    """Return the error for a body that is longer than `max_bytes`."""
    return ApiError("too_large", f"The body is too long. Send at most {max_bytes} bytes.")
