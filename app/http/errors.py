"""One shape for every error that leaves the service: RFC 9457 problem details with a stable code.

No exception's text reaches a caller. An error repeats no value that the caller sent; of an unknown field it names the
field, shortened and escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, RootModel

from purse.unknown_fields import UNKNOWN_FIELD_TYPES, shown, unknown_field
from purse.wire.files import FileReport
from purse.wire.problems import ProblemDetails, Remaining, Violation

MEDIA_TYPE = "application/problem+json"
_PASSING = (429, 503)
_LATER = {"dataset_damaged": 3600, "storage_unavailable": 120}  # seconds; what passes by itself takes a few


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for: HTTP status, title in words, and what the caller should know or do."""

    status: int
    title: str
    meaning: str


CODES: Mapping[str, Code] = {
    "malformed_request": Code(400, "This is not an HTTP request", "Its bytes break the rules of HTTP/1.1."),
    "invalid_request": Code(
        422,
        "The request is not valid",
        "It is not the JSON, the field or the type that the schema names; `violations` says where.",
    ),
    "out_of_range": Code(
        422,
        "A number is out of range",
        "It is not finite, or outside the range in which theory and numerics hold: `violations` names both.",
    ),
    "unsupported_combination": Code(
        422, "This combination is not covered", "The detail names the assumption of the theory that fails."
    ),
    "method_filter_mismatch": Code(
        422,
        "The method has no curve for the dataset's filter",
        "Choose a method that the filter can charge; the detail names the reason.",
    ),
    "method_needs_one_machine": Code(
        422,
        "The method needs all rows on one machine",
        "The dataset is kept as partitions; the detail names what the method does with its rows.",
    ),
    "unreadable_file": Code(
        422,
        "The file cannot be read",
        "It is empty, damaged, ragged or not what it says it is; `purse check` shows where, before it is sent.",
    ),
    "unparsed_values": Code(
        422,
        "Too many values do not parse as declared",
        "Of a column more than `max_unparsed`; `report` says what the file has instead, and what probably helps.",
    ),
    "unauthenticated": Code(
        401,
        "A valid bearer token is needed",
        "There is no token, an unknown one, or one that was revoked or has expired: ask a steward for another.",
    ),
    "forbidden": Code(
        403,
        "Not allowed to this role",
        "The token is valid; its role, or its scopes, may not do this: ask a steward for one that may.",
    ),
    "not_found": Code(
        404,
        "There is no such thing",
        "It is unknown to the service, or not to be seen with this token: look at the id, or ask for a grant.",
    ),
    "method_not_allowed": Code(405, "The path does not know this method", "The Allow header names those it knows."),
    "request_timeout": Code(
        408,
        "The request arrives too slowly",
        "Its head or its body kept the service waiting; send it again, and a large file in parts.",
    ),
    "budget_exhausted": Code(
        409, "The dataset's budget does not admit this", "Nothing was charged; `remaining` says what would fit."
    ),
    "overallotted": Code(
        409,
        "More would be allotted than there is",
        "Reservations hold what their analysts have spent, and fit the budget beside what all others have.",
    ),
    "idempotency_conflict": Code(
        409, "This Idempotency-Key stands for another request", "Use a new key for a new request."
    ),
    "name_taken": Code(409, "The name is taken", "It stands for something else already; choose another one."),
    "duplicate_dataset": Code(
        409,
        "These values are already a dataset",
        "Its budget would start anew on a second ledger; use the first, or its family.",
    ),
    "family_mismatch": Code(
        409,
        "The family has promised something else",
        "Datasets of one family have one budget, one relation and one unit; the detail names what differs.",
    ),
    "already_charged": Code(
        409,
        "Something is charged already",
        "What was promised stands: a budget may only grow from here, and a name stays.",
    ),
    "dataset_frozen": Code(
        409, "The dataset is frozen", "Its steward has stopped all spending, until further notice; nothing was charged."
    ),
    "dataset_changed": Code(
        409, "The budget changed while this was priced", "Ask again: nothing was charged, and the price may be another."
    ),
    "dataset_deleted": Code(
        409, "The dataset's values are deleted", "Nothing more is answered of it; its receipts and its ledger stay."
    ),
    "not_released": Code(
        409,
        "The job has released nothing",
        "Wait until it is done, if it is queued or running; one that failed or was cancelled releases nothing.",
    ),
    "offset_mismatch": Code(
        409, "The upload goes on at another byte", "`Upload-Offset` of a HEAD says at which; nothing was written."
    ),
    "upload_incomplete": Code(409, "The upload is not complete", "Bytes of it are missing: go on with it first."),
    "already_finished": Code(409, "The job is already over", "A finished job cannot be cancelled."),
    "last_steward": Code(
        409, "This is the last steward token", "Make another steward token first: nobody could do so afterwards."
    ),
    "unsupported_version": Code(
        412, "This version of the protocol is not spoken here", "`Tus-Version` names the one that is."
    ),
    "too_large": Code(413, "The request is too large", "Send less of it: the detail names the limit."),
    "unsupported_media_type": Code(
        415, "The content type is not one of those taken here", "Send it as the type that the detail names."
    ),
    "upload_busy": Code(
        423, "The upload is in use", "Another request writes, registers or deletes it; try again when that is over."
    ),
    "too_many_requests": Code(
        429,
        "Too much at once for one caller",
        "Wait for what you have asked for; `Retry-After` says when to try again.",
    ),
    "headers_too_large": Code(
        431, "The request's headers are too large", "At most 16 KiB, its first line included, and at most 100 headers."
    ),
    "overloaded": Code(503, "The service has too much to do", "`Retry-After` says when to try again."),
    "not_ready": Code(503, "The service is not ready", "It is starting or stopping; try again in a few seconds."),
    "sign_on_unavailable": Code(
        503,
        "The provider of sign-on does not answer",
        "Its tokens cannot be checked until it does; tokens of this service's own go on.",
    ),
    "database_unavailable": Code(
        503, "The database does not answer", "What was committed stands; ask again, with the same Idempotency-Key."
    ),
    "storage_unavailable": Code(
        503,
        "Where partitions are stored cannot be reached",
        "Nothing was registered. What was to be deleted is noted, and deleted at a start that reaches it.",
    ),
    "dataset_damaged": Code(
        503, "The dataset's values are not those registered", "The operator has to restore them; nothing was charged."
    ),
    "disk_full": Code(
        507, "The disk is full", "Nothing was changed and nothing charged; it is the operator's to make room."
    ),
    "internal": Code(500, "Something failed inside", "The log knows more. What was charged before stays charged."),
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
    """An error that is meant for the caller.

    Parameters
    ----------
    code : a key of `CODES`
    detail : what went wrong and what to do; a function of public facts, never of a value that the caller sent
    violations : the fields that are wrong
    remaining : with budget_exhausted, what remains
    report : with unparsed_values, what became of the values: the one thing here that is read off a file
    headers : of the response
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
        later = {"Retry-After": str(_LATER.get(code, 5))} if self.status in _PASSING else {}
        self.headers = {**later, **(headers or {})}
        super().__init__(code)

    def details(self) -> ProblemDetails:
        """The document that the caller gets."""
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


NO_ROUTE = "No route has this path: /docs lists those that there are."


def of_status(status: int) -> str:
    """The code for an error that Starlette or FastAPI raised by its status alone."""
    return _BY_STATUS.get(status, "invalid_request" if 400 <= status < 500 else "internal")


# What pydantic calls a number or a length beyond its declared bounds.
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
# Their text would repeat the input, or is a library's.
_RETOLD = {
    "missing": "is needed and is not there",
    "float_type": "must be a number, such as 0.5",
    "int_type": "must be a whole number, such as 10",
    "union_tag_invalid": "is not one of the names known here",
    "json_invalid": "is not JSON",
}
_MOST_VIOLATIONS = 20


def invalid(
    errors: Sequence[Mapping[str, Any]], root: str | None = None, model: type[BaseModel] | None = None
) -> ApiError:
    """Return the problem that a list of pydantic errors amounts to; it repeats names of fields and no values.

    Parameters
    ----------
    errors : `ValidationError.errors()`
    root : prefix of every path, such as "body"
    model : whose errors they are; an unknown field is then answered by the fields that the model has there

    Returns an ApiError out_of_range if some number or length is out of its declared range, otherwise invalid_request.
    """
    violations = [_violation(error, root, model) for error in errors[:_MOST_VIOLATIONS]]
    code = "out_of_range" if any(_is_range(error) for error in errors) else "invalid_request"
    return ApiError(code, "See `violations`.", violations=violations)


def _is_range(error: Mapping[str, Any]) -> bool:
    """A declared bound is crossed, or a validator of ours said OutOfRange (known by its class, never by its text)."""
    cause = error.get("ctx", {}).get("error")
    return error["type"] in _RANGES or type(cause).__name__ == "OutOfRange"


def _violation(error: Mapping[str, Any], root: str | None, model: type[BaseModel] | None) -> Violation:
    kind, loc = error["type"], error["loc"]
    # a document of several kinds (`AnyRequest`): the first part of the path is the kind, which no field is called
    path = loc[1:] if model is not None and issubclass(model, RootModel) else loc
    message = _RETOLD.get(kind) or str(error["msg"]).removeprefix("Value error, ")
    if kind in UNKNOWN_FIELD_TYPES:
        message = unknown_field(model, loc, root)
    if kind == "union_tag_invalid":
        message += ": " + error["ctx"]["expected_tags"].replace("'", "")
    return Violation(where=".".join(shown(str(part)) for part in (*([root] if root else []), *path)), what=message)


_RETRY_AFTER = {
    "schema": {"type": "string", "pattern": "^[0-9]+$"},
    "required": True,
    "description": "Seconds to wait before asking again.",
}


def responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI `responses` of a route that may answer with these codes; each is an example in the document."""
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
        if meaning.status in _PASSING:
            entry["headers"] = {"Retry-After": _RETRY_AFTER}
        entry["content"][MEDIA_TYPE]["examples"][code] = {"$ref": f"#/components/examples/{code}"}
        entry["description"] = "; ".join(filter(None, (entry["description"], f"`{code}`: {meaning.title}")))
    return grouped
