"""JSON documents: strict reading and canonical writing (RFC 8785). Light: no NumPy."""

import json
import re
from collections.abc import Collection
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Annotated, Any, NoReturn, TypeVar

import rfc8785
from pydantic import Field, TypeAdapter, ValidationError

from accounting.errors import CodecError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCALARS = (int, float, bool, type(None))
_LARGE = range(2**53, 10**21)  # floats of this size are written without an exponent, and therefore read as integers
_UNKNOWN_KEY_ERRORS = ("extra_forbidden", "unexpected_keyword_argument")

Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,256}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

T = TypeVar("T")


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value, which are hashed and signed.

    Raises
    ------
    CodecError
        for NaN, infinities, lone surrogates, keys that are not strings, values that are not JSON, nesting too deep to
        walk, and integers beyond 2^53 - 1 that are not the canonical form of a float.
    """
    try:
        return _written(value).encode()
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError, TypeError) as error:
        raise CodecError("the document has no canonical JSON form") from error


def canonical_text(value: Any) -> str:
    """Return `canonical` as text, the form in which documents are stored."""
    return canonical(value).decode()


def parse(raw: bytes | str) -> Any:
    """Return the JSON value of `raw`, UTF-8, with one value for each key of an object and finite numbers only.

    Raises
    ------
    CodecError
        if it is not JSON, repeats a key, or contains NaN or an infinity (literally or by overflow).
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_float)
    except CodecError:
        raise
    except (ValueError, RecursionError) as error:
        raise CodecError("the document is not JSON") from error


def fields(value: Any, required: Collection[str], name: str, optional: Collection[str] = ()) -> dict[str, Any]:
    """Return `value`, an object with the required keys, perhaps some optional ones, and no others.

    Raises
    ------
    CodecError
        otherwise. The message names known keys only, never those of the document.
    """
    if not isinstance(value, dict):
        raise CodecError(f"{name} must be an object")
    missing = [key for key in required if key not in value]
    if missing:
        raise CodecError(f"{name} lacks {missing[0]!r}")
    if len(value) > len(required) + sum(key in value for key in optional):
        raise CodecError(f"{name} has an unknown key; known keys: {', '.join([*required, *optional])}")
    return value


def typed(adapter: TypeAdapter[T], document: Any, name: str) -> T:
    """Return the typed value of a JSON value, as strictly as the type is declared.

    Raises
    ------
    CodecError
        if it has none. The message names known fields and checks only, never the content of the document.
    """
    try:
        return adapter.validate_json(json.dumps(document, allow_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = first["loc"][:-1] if first["type"] in _UNKNOWN_KEY_ERRORS else first["loc"]
        problem = first["ctx"]["error"] if first["type"] == "value_error" else first["type"].replace("_", " ")
        raise CodecError(f"{'.'.join([name, *map(str, path)])}: {problem}") from None
    # NaN, infinities, values outside JSON, numbers of 5,000 digits
    except (ValueError, TypeError, RecursionError):
        raise CodecError(f"{name} is not JSON") from None


def text(value: Any, name: str, longest: int = 256) -> str:
    """Return `value`; `CodecError` unless it is a string of 1 to `longest` characters without control characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= longest or _CONTROL.search(value):
        raise CodecError(f"{name} must be a string of 1 to {longest} characters without control characters")
    return value


def integer(value: Any, minimum: int, maximum: int, name: str) -> int:
    """Return `value`. Raise `CodecError` unless it is an integer (no bool, no float) in [minimum, maximum]."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise CodecError(f"{name} must be an integer in [{minimum}, {maximum}]")
    return value


def number(value: Any, minimum: float, maximum: float, name: str) -> float:
    """Return `value` as a float. Raise `CodecError` unless it is a number (no bool) in [minimum, maximum]."""
    # Comparisons with NaN are false, and Python compares huge integers with floats exactly.
    if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
        raise CodecError(f"{name} must be a number in [{minimum:g}, {maximum:g}]")
    return float(value)


def _written(value: Any) -> str:
    """Return what `rfc8785.dumps` writes, in half the time; the library writes numbers and unusual types itself."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        names = sorted(value, key=_utf16)
        return "{" + ",".join([f"{encode_basestring(name)}:{_written(value[name])}" for name in names]) + "}"
    if kind is list or kind is tuple:
        return "[" + ",".join([_written(each) for each in value]) + "]"
    return _number(value) if kind in _SCALARS else rfc8785.dumps(value).decode()


@lru_cache(4096)
def _utf16(name: str) -> bytes:
    return str.encode(name, "utf-16be")


@lru_cache(4096, typed=True)  # 1, 1.0 and True are equal
def _number(value: float | bool | None) -> str:
    is_large_float = isinstance(value, int) and abs(value) in _LARGE and rfc8785.dumps(float(value)) == b"%d" % value
    return str(value) if is_large_float else rfc8785.dumps(value).decode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise CodecError("the document repeats a key")
    return document


def _refuse(constant: str) -> NoReturn:
    raise CodecError(f"{constant} is not a JSON number")


def _float(literal: str) -> float:
    value = float(literal)
    if value - value != 0.0:
        raise CodecError("the document has a number beyond the range of a double")
    return value
