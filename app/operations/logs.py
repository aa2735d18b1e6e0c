"""Each record is one line, JSON or text, of identifiers and codes: no value, no exception's text, no stranger's words.

Our own messages are written so. What a library says may repeat what it was given, and so does an exception: of the one
a line tells the place in that library's code, of the other its type and where it was raised.
"""

import json
import logging
import warnings
from typing import Any, Literal

from app.http.middleware import REQUEST, places
from app.persistence.clock import stamp

OURS = ("purse", "app", "uvicorn")


class Lines(logging.Formatter):
    """Records as lines; logging asks for a class of its own.

    Parameters
    ----------
    layout : what a line is
    """

    def __init__(self, layout: Literal["json", "text"]) -> None:
        super().__init__()
        self._layout = layout

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; the request and the exception, if there is one; in JSON the fields."""
        told = _told(record)
        if self._layout == "json":
            return json.dumps(told | getattr(record, "fields", {}))
        return " ".join(map(str, told.values()))


def install(level: str, layout: Literal["json", "text"]) -> None:
    """On stderr, from here on: our loggers from this level, all others from warnings; Python's warnings with them."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines(layout))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for ours in OURS:
        logging.getLogger(ours).setLevel(level.upper())
    logging.captureWarnings(True)
    warnings.simplefilter("default")


def _told(record: logging.LogRecord) -> dict[str, Any]:
    is_ours = record.name.split(".")[0] in OURS
    told = {
        "time": stamp(record.created),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage() if is_ours else f"{record.module}:{record.lineno}",
    }
    if (request := REQUEST.get()) is not None:
        told["request_id"] = request
    if record.exc_info and record.exc_info[1] is not None:
        told["error"] = type(record.exc_info[1]).__name__
        told["places"] = " < ".join(places(record.exc_info[1]))
    return told
