"""What can go wrong for a client: the server refused, could not be reached, or the job did not end well."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from purse.text import loss
from purse.unknown_fields import UNKNOWN_FIELD_TYPES, shown, unknown_field
from purse.wire.base import Identifier
from purse.wire.files import FileReport
from purse.wire.jobs import JobState
from purse.wire.problems import ProblemDetails, Remaining, Violation

UNKNOWN = "unexpected_response"
_SECONDS = re.compile(r"[0-9]{1,9}")
_REMAINING = re.compile(r" *`remaining`[^.]*\.?")  # a sentence that refers to the field, which is shown instead
_SUBJECT = re.compile(r"^\w+ should ")  # how messages of pydantic begin
_NUMBER, _INTEGER, _OBJECT = "must be a number, such as 0.5", "must be a whole number, such as 10", "must be an object"
_MESSAGES: Final = {
    "missing": "is required",
    **dict.fromkeys(("float_parsing", "float_type"), _NUMBER),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), _INTEGER),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _OBJECT),
    "string_type": "must be text",
    "list_type": "must be a list",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "must have as {discriminator} one of {expected_tags}",
    "union_tag_not_found": "must have {discriminator}",
}


class ClientError(Exception):
    """Root of every error that the client raises on purpose."""


class Unreachable(ClientError):
    """No answer from the server. A repeatable request was tried several times."""


class JobNotReleased(ClientError):
    """The job ended without a model: it failed, or it was cancelled."""

    def __init__(self, job: Identifier, state: JobState, error: str | None) -> None:
        super().__init__(f"job {job} is {state}" + (f" ({error})" if error else "") + ": there is no model")
        self.job = job
        self.state = state
        self.error = error


def faults(error: ValidationError, most: int = 5, model: type[BaseModel] | None = None) -> str:
    """Return what is wrong with a document, field by field.

    Parameters
    ----------
    most : how many fields are named
    model : whose error it is; an unknown field is then answered by the fields that the model has there
    """
    found = error.errors(include_url=False, include_input=False)[:most]
    told = [(".".join(shown(str(part)) for part in each["loc"]), fault(each, model)) for each in found]
    return "; ".join(": ".join(filter(None, each)) for each in told)


def fault(error: Mapping[str, Any], model: type[BaseModel] | None = None) -> str:
    """Return what is wrong with one field, without its place. Parameters as in `faults`."""
    if error["type"] in UNKNOWN_FIELD_TYPES:
        return unknown_field(model, error["loc"])
    if error["type"] not in _MESSAGES:
        return _SUBJECT.sub("must ", error["msg"].removeprefix("Value error, "))
    context = {name: str(value).replace("'", "") for name, value in error.get("ctx", {}).items()}
    return _MESSAGES[error["type"]].format_map(context)


class ProblemError(ClientError):
    """The server refused: an RFC 9457 problem document, its stable `code` first.

    `remaining` comes with budget_exhausted, `report` with unparsed_values, `violations` with a request whose fields are
    wrong, `retry_after` (seconds) where the server said when to try again.
    """

    def __init__(
        self,
        code: str,
        status: int,
        detail: str | None = None,
        *,
        remaining: Remaining | None = None,
        violations: Sequence[Violation] = (),
        report: FileReport | None = None,
        retry_after: float | None = None,
    ) -> None:
        fields = "; ".join(f"{violation.where}: {violation.what}" for violation in violations)
        text = ": ".join(part for part in (code, fields or detail) if part)
        if remaining is not None:
            fitting = loss(remaining.epsilon, remaining.delta)
            text = f"{_REMAINING.sub('', text).rstrip('.')}. The most that fits is {fitting}."
        super().__init__(text)
        self.code = code
        self.status = status
        self.detail = detail
        self.remaining = remaining
        self.violations = tuple(violations)
        self.report = report
        self.retry_after = retry_after


def problem(status: int, body: bytes, retry_after: str | None = None) -> ProblemError:
    """The error that a response of 400 or above stands for; one that is no problem document has the code UNKNOWN.

    Parameters
    ----------
    retry_after : the header; heeded with 429 and 503, in seconds as this server gives it
    """
    wait = float(retry_after) if status in (429, 503) and retry_after and _SECONDS.fullmatch(retry_after) else None
    try:
        found = ProblemDetails.model_validate_json(body, extra="ignore")
    except ValidationError:
        what = f"HTTP status {status} without a problem document; is this the right URL?"
        return ProblemError(UNKNOWN, status, what, retry_after=wait)
    return ProblemError(
        found.code,
        status,
        found.detail or found.title,
        remaining=found.remaining,
        violations=found.violations or (),
        report=found.report,
        retry_after=wait,
    )
