"""Errors of the client: the server refused a request, was not reachable, or released nothing for a job."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from purse.extras import ClientError as ClientError
from purse.text import loss
from purse.unknown_fields import UNKNOWN_FIELD_TYPES, shown, unknown_field
from purse.violations import plain_message
from purse.wire.base import Identifier
from purse.wire.budgets import PrivacyLoss
from purse.wire.files import FileReport
from purse.wire.jobs import JobState
from purse.wire.problems import ProblemDetails, Violation

UNKNOWN: Final = "unexpected_response"
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_REMAINING: Final = re.compile(r" *`remaining`[^.]*\.?")  # a sentence about the field, whose value is shown instead


class Unreachable(ClientError):
    """The server did not answer. A repeatable request was tried several times."""


class JobNotReleased(ClientError):
    """The job ended without a release, because it failed or was cancelled."""

    def __init__(self, job: Identifier, state: JobState, error: str | None) -> None:
        reason = f" ({error})" if error else ""
        super().__init__(f"Job {job} is {state}{reason}, so it released nothing. Submit a new job.")
        self.job = job
        self.state = state
        self.error = error


class DesignError(ValueError):
    """A request does not fit the declaration. The error depends on these two alone.

    Parameters
    ----------
    field : the wrong field of the request
    rule : the violated rule, beginning with a verb
    """

    def __init__(self, field: str, rule: str) -> None:
        self.field = field
        self.rule = rule
        super().__init__(f"{field} {rule}")


def faults(error: ValidationError, limit: int = 5, model: type[BaseModel] | None = None) -> str:
    """Return what is wrong with a document, field by field.

    Parameters
    ----------
    limit : largest number of fields to name
    model : the model that refused the document; the message about an unknown field then lists the model's fields
    """
    errors = error.errors(include_url=False, include_input=False)[:limit]
    located = [(".".join(shown(str(part)) for part in each["loc"]), fault(each, model)) for each in errors]
    return "; ".join(": ".join(filter(None, pair)) for pair in located)


def fault(error: Mapping[str, Any], model: type[BaseModel] | None = None) -> str:
    """Return what is wrong with one field, without its path. Parameters as in `faults`."""
    if error["type"] in UNKNOWN_FIELD_TYPES:
        return unknown_field(model, error["loc"])
    return plain_message(error)


@dataclass(eq=False, repr=False)
class ProblemError(ClientError):
    """The server refused the request: an RFC 9457 problem document, its stable `code` first.

    `remaining` comes with budget_exhausted, `report` with unparsed_values, `violations` with a request whose fields are
    wrong, and `retry_after` (seconds) if the server said when to try again.
    """

    code: str
    status: int
    detail: str | None = None
    _: KW_ONLY
    remaining: PrivacyLoss | None = None
    violations: Sequence[Violation] = ()
    report: FileReport | None = None
    retry_after: float | None = None

    def __str__(self) -> str:
        fields = "; ".join(f"{violation.where}: {violation.what}" for violation in self.violations)
        message = ": ".join(part for part in (self.code, fields or self.detail) if part)
        if self.remaining is None:
            return message
        fitting = loss(self.remaining.epsilon, self.remaining.delta)
        return f"{_REMAINING.sub('', message).rstrip('.')}. The most that fits is {fitting}."


def problem(status: int, body: bytes, retry_after: str | None = None) -> ProblemError:
    """Return the error for a response with a status of 400 or above.

    The code is UNKNOWN if the body is not a problem document.

    Parameters
    ----------
    retry_after : the response's Retry-After header in seconds; used with the statuses 429 and 503
    """
    wait = float(retry_after) if status in (429, 503) and retry_after and _SECONDS.fullmatch(retry_after) else None
    try:
        document = ProblemDetails.model_validate_json(body, extra="ignore")
    except ValidationError:
        detail = f"HTTP status {status} without a problem document: another server may answer here. Check PURSE_URL."
        return ProblemError(UNKNOWN, status, detail, retry_after=wait)
    return ProblemError(
        document.code,
        status,
        document.detail or document.title,
        remaining=document.remaining,
        violations=document.violations or (),
        report=document.report,
        retry_after=wait,
    )
