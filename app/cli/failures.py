"""The report of a command that failed, for people and as JSON."""

import json
import re
import sys
from typing import NoReturn

from pydantic import ValidationError

from app.cli.output import Refusal
from app.cli.reports import cures
from app.http.errors import ApiError
from app.persistence.files import StartRefused, described
from app.sources.errors import SourceError
from purse import ClientError, ProblemError
from purse.errors import faults, problem
from purse.extras import lacking

_LOCATION = re.compile(r"\b(?:body|query)(?:\.privacy)?(?:\.(?=\w)|: )")  # before a field, which has the option's name
_ADVICE = {
    "unauthenticated": "Set PURSE_TOKEN to it. The steward's command is `purse token create NAME --role analyst`.",
    "not_ready": "The server is starting. Try again in a few seconds.",
    "unexpected_response": "Check PURSE_URL.",
}


def fail(error: Exception, command: str, as_json: bool = False) -> NoReturn:
    """Report an error and exit with code 1. Raise an error that is neither a refusal nor a failed connection."""
    if isinstance(error, ModuleNotFoundError):
        error = lacking(command, error)
    if isinstance(error, ApiError):  # by a part of the server that runs in this process
        error = problem(error.status, error.details().model_dump_json().encode())
    if not isinstance(error, ClientError | Refusal | StartRefused | SourceError | OSError | TimeoutError | ValueError):
        raise error
    detail = described(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, ValidationError):
        detail = faults(error)
    sentences = [detail or type(error).__name__, *getattr(error, "__notes__", ())]
    refusal = error if isinstance(error, ProblemError) else None
    if refusal is not None:
        sentences += [_ADVICE[refusal.code]] if refusal.code in _ADVICE else []
    text = _LOCATION.sub("", " ".join(_sentence(each) for each in sentences))
    report = refusal.report if refusal else None
    if as_json:
        document = {
            "code": refusal.code if refusal else "failed",
            "status": refusal.status if refusal else None,
            "detail": text,
            "remaining": refusal.remaining.model_dump() if refusal and refusal.remaining else None,
        }
        document |= {"report": report.model_dump()} if report else {}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stderr.write(f"purse: {' '.join(text.split())}\n")
    for line in cures(report) if report else ():
        sys.stderr.write(f"  {line}\n")
    sys.exit(1)


def _sentence(text: str) -> str:
    """Return a text with a full stop at its end, unless it ends with a mark or a command."""
    return text if text.endswith((".", "?", "!", "`")) else f"{text}."
