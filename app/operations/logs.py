"""Log lines, as JSON or text, that hold identifiers and codes: no values, exception texts or input of callers.

Our own messages contain nothing else, except the path of an imported file, a name in the operator's storage. Messages
of libraries and exceptions may repeat their input. A line therefore states only the code location of a library's
message, and only the type and location of an exception.
"""

import json
import logging
import warnings
from typing import Any, Literal

from app.http.middleware import REQUEST, stack_locations
from app.persistence.clock import stamp

OURS = ("purse", "app", "uvicorn")


class Lines(logging.Formatter):
    """A formatter of records as lines.

    Parameters
    ----------
    layout : format of a line
    """

    def __init__(self, layout: Literal["json", "text"]) -> None:
        super().__init__()
        self._layout = layout

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger, message, and the request and exception if any; JSON also has the extra fields."""
        parts = _parts(record)
        if self._layout == "json":
            return json.dumps(parts | getattr(record, "fields", {}))
        return " ".join(map(str, parts.values()))


def install(level: str, layout: Literal["json", "text"]) -> None:
    """Log to stderr: our loggers from this level, all others from warnings, and Python's warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(layout))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for ours in OURS:
        logging.getLogger(ours).setLevel(level.upper())
    logging.captureWarnings(True)
    warnings.simplefilter("default")


def _parts(record: logging.LogRecord) -> dict[str, Any]:
    is_ours = record.name.split(".")[0] in OURS
    parts = {
        "time": stamp(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage() if is_ours else f"{record.module}:{record.lineno}",
    }
    if (request := REQUEST.get()) is not None:
        parts["request_id"] = request
    if record.exc_info and record.exc_info[1] is not None:
        parts["error"] = type(record.exc_info[1]).__name__
        parts["locations"] = " < ".join(stack_locations(record.exc_info[1]))
    return parts
