"""Plain sentences for pydantic's errors: what a field must be, without the value and without a library's words."""

import re
from collections.abc import Mapping
from typing import Any, Final

_MESSAGES: Final = {
    "missing": "is required",
    "float_type": "must be a number, such as 0.5",
    "finite_number": "must be a finite number: NaN and infinity are not accepted",
    "float_parsing": "must be a number, such as 0.5",
    "int_type": "must be a whole number, such as 10",
    "int_parsing": "must be a whole number, such as 10",
    "int_from_float": "must be a whole number, such as 10",
    "int_parsing_size": "must be a whole number with fewer digits",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "enum": "must be {expected}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object with named fields",
    "model_type": "must be an object with named fields",
    "model_attributes_type": "must be an object with named fields",
    "dataclass_type": "must be an object with named fields",
    "union_tag_not_found": "must be an object with the field {discriminator}",
    "union_tag_invalid": "`{discriminator}` must be one of: {expected_tags}",
    "literal_error": "must be {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "json_invalid": "must be valid JSON",
}
_FRACTION: Final = "must be between 0 and 1, such as 0.5 for one half"  # every number up to 1 is a share of a whole
_SUBJECT: Final = re.compile(r"^\w+ should ")  # how pydantic's other messages begin
_PATTERNS: Final = {
    r"^[^\x00-\x1f\x7f]+$": "must not contain control characters such as tabs and line ends",
    r"^[a-z0-9_]{1,64}$": "must be an identifier: 1 to 64 lower-case letters, digits and underscores",
    r"^[0-9a-f]{64}$": "must be a SHA-256 digest: 64 lower-case hexadecimal digits",
    r"^https?://[!-~]+$": "must be an address that begins with https://",
    r"^(%[YmdHMS]|[^%\x00-\x1f\x7f])+$": "must be a date format of %Y, %m, %d, %H, %M and %S, such as %Y-%m-%d",
    r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z)?$": (
        "must be a day or a time in UTC, such as 2026-11-22 or 2026-11-22T17:00:00Z"
    ),
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$": "must be a date, such as 2020-01-31",
    r"^[\x21-\x7e]{1,200}$": "must be 1 to 200 printable ASCII characters without spaces",
    r"^[a-z0-9_]{1,40}$": "must be a name of 1 to 40 lower-case letters, digits and underscores",
    r"^[0-9]{1,15}$": "must be the value of `next` of the previous page",
    "^[\"']?$": "must be a double quote, a single quote, or empty",
    r"^[\t !#$%&*,/:;<=>?@\\^_`|~]$": "must be one character that is neither a letter, a digit, a quote nor a dot",
}


def plain_message(error: Mapping[str, Any]) -> str:
    """Return what the field of one of pydantic's errors must be; it never repeats the field's value.

    Parameters
    ----------
    error : an entry of `ValidationError.errors()`
    """
    kind = str(error["type"])
    context = error.get("ctx", {})
    if kind == "less_than_equal" and context["le"] == 1:
        return _FRACTION
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"must match the pattern {context['pattern']}")
    if kind in _MESSAGES:
        values = {name: str(value).removesuffix(".0").replace("'", "") for name, value in context.items()}
        return _MESSAGES[kind].format_map(values)
    return _SUBJECT.sub("must ", str(error["msg"]).removeprefix("Value error, "))
