"""Error responses of the service: RFC 9457 problem details with a stable code.

The text of an exception never reaches a caller. An error never repeats a value that the caller sent. An error about an
unknown field names that field, shortened and escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, RootModel

from purse.unknown_fields import UNKNOWN_FIELD_TYPES, shown, unknown_field
from purse.violations import plain_message
from purse.wire.files import FileReport
from purse.wire.problems import ProblemDetails, Remaining, Violation

MEDIA_TYPE = "application/problem+json"
_RETRYABLE_STATUSES = (429, 503)
_DEFAULT_RETRY_SECONDS = 5
_RETRY_SECONDS = {"dataset_damaged": 3600, "storage_unavailable": 120}  # conditions that an operator must fix


@dataclass(frozen=True, slots=True)
class Code:
    """HTTP status, title and meaning of an error code; the meaning tells the caller what to do."""

    status: int
    title: str
    meaning: str


CODES: Mapping[str, Code] = {
    "malformed_request": Code(400, "The bytes are not an HTTP request", "The request breaks the rules of HTTP/1.1."),
    "invalid_request": Code(
        422,
        "The request is not valid",
        "The JSON, a field or a type differs from the schema. `violations` names the fields.",
    ),
    "out_of_range": Code(
        422,
        "A number is out of range",
        "A number is not finite, or outside the range that the theory and the numerics support. `violations` "
        "states the field and the range.",
    ),
    "unsupported_combination": Code(
        422,
        "The combination is not supported",
        "The detail names the assumption of the theory that the combination violates.",
    ),
    "method_filter_mismatch": Code(
        422,
        "The dataset's filter cannot charge the method",
        "Choose another method. The detail states the reason.",
    ),
    "method_needs_one_machine": Code(
        422,
        "The method needs all rows on one machine",
        "The dataset is stored as partitions. The detail states which step needs all rows.",
    ),
    "unreadable_file": Code(
        422,
        "The file cannot be read",
        "The file is empty, damaged, or in another format than declared. `purse check` shows the position "
        "before an upload.",
    ),
    "unparsed_values": Code(
        422,
        "Too many values cannot be parsed as declared",
        "In one column, more values than `max_unparsed` allows cannot be parsed, or more than `max_clamped` allows "
        "lie outside the bounds. `report` states the causes and likely remedies.",
    ),
    "unauthenticated": Code(
        401,
        "A valid bearer token is required",
        "The token is missing, unknown, revoked or expired. Ask a steward for another one.",
    ),
    "forbidden": Code(
        403,
        "The token does not allow this action",
        "The token is valid, but its role or scopes do not allow this action. Ask a steward for another token.",
    ),
    "not_found": Code(
        404,
        "The resource does not exist",
        "The resource does not exist, or the token gives no access to it. Check the id, or ask a steward for a grant.",
    ),
    "method_not_allowed": Code(
        405, "The path does not support this method", "The Allow header lists the supported methods."
    ),
    "request_timeout": Code(
        408,
        "The request arrived too slowly",
        "The server waited too long for the headers or the body. Send the request again, and large files in parts.",
    ),
    "budget_exhausted": Code(
        409, "The dataset's budget does not allow this", "Nothing was charged. `remaining` states what would still fit."
    ),
    "overallotted": Code(
        409,
        "The reservations exceed the budget",
        "A reservation must cover what its analyst has already spent, and all reservations plus everyone "
        "else's spending must fit in the budget.",
    ),
    "idempotency_conflict": Code(
        409,
        "The Idempotency-Key belongs to another request",
        "The key was used with a different request. Use a new key for each new request.",
    ),
    "name_taken": Code(409, "The name is already in use", "Choose another name."),
    "duplicate_dataset": Code(
        409,
        "The values are already registered",
        "A second ledger would start a new budget for the same records. Use the existing dataset or its family.",
    ),
    "family_mismatch": Code(
        409,
        "The declaration differs from the family's",
        "All datasets of a family have the same budget, neighbors and unit. The detail states the difference.",
    ),
    "already_charged": Code(
        409,
        "The ledger already has a charge",
        "After the first charge, a name cannot change and a budget can only grow.",
    ),
    "dataset_frozen": Code(
        409,
        "The dataset is frozen",
        "Nothing was charged. A steward has blocked all spending until the dataset is unfrozen.",
    ),
    "dataset_changed": Code(
        409, "The budget changed during pricing", "Nothing was charged. Send the request again; its price may differ."
    ),
    "dataset_deleted": Code(
        409, "The dataset's values are deleted", "The dataset accepts no more jobs. Its receipts and its ledger remain."
    ),
    "not_released": Code(
        409,
        "The job has not released anything",
        "Wait if the job is queued or running. Failed and cancelled jobs release nothing.",
    ),
    "offset_mismatch": Code(
        409,
        "The upload continues at another byte",
        "Nothing was written. `Upload-Offset` in the answer to HEAD states the right byte.",
    ),
    "upload_incomplete": Code(409, "The upload is not complete", "Send the missing bytes first."),
    "already_finished": Code(409, "The job has already ended", "A job that has ended cannot be cancelled."),
    "last_steward": Code(
        409,
        "This is the last steward token",
        "Make another steward token first. Without a steward token, no new tokens could be made.",
    ),
    "unsupported_version": Code(
        412, "The protocol version is not supported", "`Tus-Version` states the supported version."
    ),
    "too_large": Code(413, "The request is too large", "Send a smaller request. The detail states the limit."),
    "unsupported_media_type": Code(
        415, "The content type is not accepted", "Use the content type that the detail states."
    ),
    "upload_busy": Code(
        423,
        "The upload is in use",
        "Another request is writing, registering or deleting this upload. Try again when it has finished.",
    ),
    "too_many_requests": Code(
        429,
        "Too many simultaneous requests",
        "Wait for your earlier requests. `Retry-After` states when to try again.",
    ),
    "headers_too_large": Code(
        431,
        "The request's headers are too large",
        "The first line and the headers may have at most 16 KiB, and at most 100 headers.",
    ),
    "overloaded": Code(503, "The service is overloaded", "`Retry-After` states when to try again."),
    "not_ready": Code(
        503, "The service is not ready", "The server is starting or stopping. Try again in a few seconds."
    ),
    "sign_on_unavailable": Code(
        503,
        "The sign-on provider does not answer",
        "Tokens of the provider cannot be checked at the moment. Tokens of this service still work.",
    ),
    "database_unavailable": Code(
        503,
        "The database does not answer",
        "Committed changes are safe. Send the request again with the same Idempotency-Key.",
    ),
    "storage_unavailable": Code(
        503,
        "The storage of partitions cannot be reached",
        "Nothing was registered. Requested deletions are noted, and completed at the next start that reaches "
        "the storage.",
    ),
    "dataset_damaged": Code(
        503,
        "The stored dataset differs from the registered one",
        "Nothing was charged. The operator must restore the dataset.",
    ),
    "disk_full": Code(507, "The disk is full", "Nothing was changed or charged. The operator must free disk space."),
    "internal": Code(
        500, "An internal error occurred", "The server's log contains more information. Earlier charges remain."
    ),
}

_BY_STATUS = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    503: "not_ready",
}


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
        remaining: Remaining | None = None,
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


def of_status(status: int) -> str:
    """Return the code for an error that Starlette or FastAPI raised with a status only."""
    return _BY_STATUS.get(status, "invalid_request" if 400 <= status < 500 else "internal")


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
    violations = [_violation(error, root, model) for error in errors[:_MOST_VIOLATIONS]]
    code = "out_of_range" if any(_is_range(error) for error in errors) else "invalid_request"
    return ApiError(code, "See `violations`.", violations=violations)


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
