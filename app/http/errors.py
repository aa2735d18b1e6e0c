"""Error responses of the service: RFC 9457 problem details with a stable code.

The text of an exception never reaches a caller. An error never repeats a value that the caller sent. An error about an
unknown field names that field, shortened and escaped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, RootModel

from app.http.codes import CODES
from purse.unknown_fields import UNKNOWN_FIELD_TYPES, shown, unknown_field
from purse.violations import plain_message
from purse.wire.budgets import PrivacyLoss
from purse.wire.files import FileReport
from purse.wire.problems import ProblemDetails, Violation

MEDIA_TYPE = "application/problem+json"
_RETRYABLE_STATUSES = (429, 503)
_DEFAULT_RETRY_SECONDS = 5
_RETRY_SECONDS = {"dataset_damaged": 3600, "storage_unavailable": 120}  # conditions that an operator must fix


class ApiError(Exception):
    """Error that is reported to the caller.

    Parameters
    ----------
    code : a key of `CODES`
    detail : cause and remedy; a function of public facts, never of a value that the caller sent
    violations : invalid fields
    remaining : with budget_exhausted, the remaining budget
    report : with unparsed_values, the result of parsing the file; the only part that depends on a file's values
    headers : response headers
    """

    def __init__(
        self,
        code: str,
        detail: str | None = None,
        *,
        violations: Sequence[Violation] | None = None,
        remaining: PrivacyLoss | None = None,
        report: FileReport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.status = CODES[code].status
        self.detail = detail
        self.violations = violations
        self.remaining = remaining
        self.report = report
        self.headers = dict(headers or {})
        if self.status in _RETRYABLE_STATUSES:
            self.headers.setdefault("Retry-After", str(_RETRY_SECONDS.get(code, _DEFAULT_RETRY_SECONDS)))
        super().__init__(code)

    def details(self) -> ProblemDetails:
        """Return the problem document for the caller."""
        meaning = CODES[self.code]
        return ProblemDetails(
            type=f"urn:privy-purse:problem:{self.code}",
            title=meaning.title,
            status=meaning.status,
            code=self.code,
            detail=self.detail or meaning.meaning,
            violations=list(self.violations) if self.violations else None,
            remaining=self.remaining,
            report=self.report,
        )


NO_ROUTE = "No route has this path. /docs lists all routes."

# Error types of pydantic for a number or a length outside its declared bounds.
_RANGES = frozenset(
    {
        "finite_number",
        "greater_than",
        "greater_than_equal",
        "less_than",
        "less_than_equal",
        "too_long",
        "string_too_long",
        "int_parsing_size",
    }
)
_MOST_VIOLATIONS = 20


def invalid(
    errors: Sequence[Mapping[str, Any]], root: str | None = None, model: type[BaseModel] | None = None
) -> ApiError:
    """Return the problem for a list of pydantic errors; it contains names of fields, but no values.

    Parameters
    ----------
    errors : `ValidationError.errors()`
    root : prefix of every path, such as "body"
    model : the validated model; the message for an unknown field then lists the model's fields

    Returns
    -------
    An `ApiError` out_of_range if a number or length is outside its declared range, otherwise invalid_request.
    """
    named = errors[:_MOST_VIOLATIONS]
    violations = [_violation(error, root, model) for error in named if not _is_consequence(error, named)]
    code = "out_of_range" if any(_is_range(error) for error in errors) else "invalid_request"
    detail = "See `violations`."
    if len(errors) > _MOST_VIOLATIONS:
        detail = f"See `violations`, which has the first {_MOST_VIOLATIONS} of {len(errors)} errors."
    return ApiError(code, detail, violations=violations)


def invalid_field(where: str, rule: str, code: str = "invalid_request") -> ApiError:
    """Return the problem of one field.

    Parameters
    ----------
    where : path of the field, such as body.budget
    rule : the violated rule, beginning with a verb; without a value of the request
    """
    return ApiError(code, "See `violations`.", violations=[Violation(where=where, what=rule)])


def _is_consequence(error: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a list is too short only because pydantic does not count its wrong entries."""
    path = error["loc"]
    return error["type"] == "too_short" and any(
        len(each["loc"]) > len(path) and each["loc"][: len(path)] == path for each in errors
    )


def _is_range(error: Mapping[str, Any]) -> bool:
    """Return whether a declared bound is violated, or one of our validators raised `OutOfRange`."""
    cause = error.get("ctx", {}).get("error")
    return error["type"] in _RANGES or type(cause).__name__ == "OutOfRange"


def _violation(error: Mapping[str, Any], root: str | None, model: type[BaseModel] | None) -> Violation:
    """Return the violation for one error of pydantic: the field's path and a message without its value."""
    kind, loc = error["type"], error["loc"]
    # In a union (`AnyRequest`) the first part of the path is the tag of the variant, not a field.
    path = loc[1:] if model is not None and issubclass(model, RootModel) else loc
    message = unknown_field(model, loc, root) if kind in UNKNOWN_FIELD_TYPES else plain_message(error)
    return Violation(where=".".join(shown(str(part)) for part in (*([root] if root else []), *path)), what=message)


_RETRY_AFTER = {
    "schema": {"type": "string", "pattern": "^[0-9]+$"},
    "required": True,
    "description": "Seconds to wait before the next attempt.",
}


def responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI `responses` of a route that may return these codes, with an example for each."""
    grouped: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        meaning = CODES[code]
        entry = grouped.setdefault(
            meaning.status,
            {
                "description": "",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}, "examples": {}}},
            },
        )
        if meaning.status in _RETRYABLE_STATUSES:
            entry["headers"] = {"Retry-After": _RETRY_AFTER}
        entry["content"][MEDIA_TYPE]["examples"][code] = {"$ref": f"#/components/examples/{code}"}
        entry["description"] = "\n".join(filter(None, (entry["description"], f"- `{code}`: {meaning.title}")))
    return grouped
