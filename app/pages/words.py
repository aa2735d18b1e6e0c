"""Numbers, dates and field names as people read them."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

from purse.tables import exact_date
from purse.wire.statistics import RESULTS

_LARGEST_WHOLE = 1e15  # a double holds no unit digit beyond
_MILLION, _BILLION = 1e6, 1e9
_SHORTEST_SECONDS = 0.1  # all shorter durations have one text
_SECONDS_PER_MINUTE, _SECONDS_PER_HOUR = 60, 3600
STATES = {"queued": "Queued", "running": "Running", "done": "Completed", "failed": "Failed", "cancelled": "Cancelled"}
"""Names of a job's states."""
BADGES = {"queued": "secondary", "done": "success", "failed": "danger", "cancelled": "secondary"}
"""Variants of the badges of a job's states; the others have none."""
OPTIONS = {
    "profile": "profile: all columns, readable by everybody with access",
    "inference": "a regression table, with standard errors",
    **{name: f"{name}: {result.releases}" for name, result in RESULTS.items()},
}
"""Texts of options whose names do not explain them, and of a flag that is set."""
LABELS = {
    "inference": "Result",
    "positive": "Class to predict",
    "by": "Groups by",
    "op": "Comparison",
    "repeats": "Runs of each candidate",
    "signal": "Assumed quality",
    "twin": "Number of the twin",
    "wanted": "Wanted score",
}
"""Labels of fields of a job's form that differ from their names."""
_UNIT_LABELS = {
    "unit.column": "Person column",
    "unit.max_rows": "Rows used per person",
    "unit.persons": "Number of persons",
}
COMPARISONS = {
    "==": "is",
    "!=": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
    "in": "is one of",
}
"""Comparisons of a condition."""
EVENTS = {
    "GaussianDpEvent": "Gaussian noise",
    "LaplaceDpEvent": "Laplace noise",
    "PoissonSampledDpEvent": "Gaussian noise on random batches (DP-SGD)",
    "SampledWithoutReplacementDpEvent": "Gaussian noise on random batches of a fixed size",
    "RandomAllocationDpEvent": "Gaussian noise on the batches of a shuffled epoch",
    "EpsilonDeltaDpEvent": "any mechanism with pure epsilon",
}
"""Mechanisms that run elsewhere, by the type of their events."""
ENTRIES = {
    "reserved": "session reserved",
    "settled": "session ended",
    "session_rule": "rule for sessions",
    "external": "outside release",
    "promised": "budget changed",
}
"""Kinds of ledger entries whose names do not explain them."""
_CODE = re.compile("`([^`]+)`")
_ROOT = re.compile(r"^(?:body|spec|query)(?:\.|$)(?:event\.(?:\w+DpEvent\.)?)*")
_MEMBER = re.compile(r"\b(column|candidate|term|factor|where)s?\.(\d+)(?:\.(?:number|category)(?=\.|$))?")
_MEMBERS = {"where": "condition"}


def number(value: float | None, digits: int = 4) -> str:
    """Return a number to so many significant digits, whole if it has more before its point; a dash for None."""
    if value is None:
        return "–"
    if 10**digits <= abs(value) < _LARGEST_WHOLE:
        return f"{value:,.0f}"
    if 1e-6 <= abs(value) < 1e-4:  # 0.000001: Python writes 1e-06
        decimals = digits - 1 - math.floor(math.log10(abs(value)))
        return f"{value:.{decimals}f}".rstrip("0")
    return re.sub(r"e([+-])0", r"e\1", f"{value:,.{digits}g}")


def large(value: float) -> str:
    """Return a number to three digits, with a word for millions and billions: `6.5 million`."""
    for unit, name in ((_BILLION, "billion"), (_MILLION, "million")):
        if unit <= abs(value) < 1e3 * _BILLION:
            return f"{value / unit:.3g} {name}"
    return number(value, 3)


def rounded_down(value: float | None) -> str:
    """Return what remains of a budget to three significant digits, rounded down, so that it still fits if requested."""
    if value is None or value <= 0 or not math.isfinite(value):
        return number(value, 3)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return number(math.floor(value / step * (1 + 1e-9)) * step, 3)


def duration(seconds: float) -> str:
    """Return an estimated duration in the unit that suits it: `about 0.13 s`, `about 4 min`, `about 2 h`."""
    if seconds < _SHORTEST_SECONDS:
        return f"less than {_SHORTEST_SECONDS} s"
    if seconds < 2 * _SECONDS_PER_MINUTE:
        return f"about {number(seconds, 2)} s"
    if seconds < 2 * _SECONDS_PER_HOUR:
        return f"about {seconds / _SECONDS_PER_MINUTE:.0f} min"
    return f"about {seconds / _SECONDS_PER_HOUR:.0f} h"


def percent(share: float | None) -> str:
    """Return a share of a whole as a percentage: `12.3 %`."""
    return "–" if share is None else f"{100 * share:.3g} %"


def day(timestamp: str) -> str:
    """Return the day of an ISO timestamp in UTC: `24 Nov 2026`."""
    moment = datetime.fromisoformat(timestamp[:10])
    return f"{moment.day} {moment:%b %Y}"


def minute(timestamp: str) -> str:
    """Return an ISO timestamp to the minute, in UTC: `24 Nov 2026 14:05`."""
    return f"{day(timestamp)} {timestamp[11:16]}"


def planned_answer(event: Mapping[str, Any]) -> str:
    """Return an event of a session's plan in words: `Gaussian noise, noise multiplier 4`."""
    numbers = {**event, **event.get("event", {})}
    stated = [
        f"{name.replace('_', ' ')} {number(value) if isinstance(value, float) else value}"
        for name, value in numbers.items()
        if name not in ("type", "event") and (name != "delta" or value)
    ]
    text = ", ".join([EVENTS[event["type"]], *stated])
    return text[0].upper() + text[1:]


class Html(str):
    """HTML that a template does not escape again."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the HTML itself, as MarkupSafe asks for it."""
        return str(self)


def coded(text: str) -> Html:
    """Return text as HTML, in which text between backticks is code."""
    return Html(_CODE.sub(r"<code>\1</code>", escape(text)))


def field_label(where: str) -> str:
    """Return a field of a request as the form labels it: `spec.columns.0.number.lower` is `Column 1, lower`."""
    path = _MEMBER.sub(lambda found: f"{_MEMBERS.get(found[1], found[1])} {int(found[2]) + 1}", _ROOT.sub("", where))
    labels = LABELS | _UNIT_LABELS
    if path in labels:
        return labels[path]
    text = path.replace(".", ", ").replace("_", " ") or "the form"
    return text[0].upper() + text[1:]


def bounds(column: Mapping[str, Any]) -> str:
    """Return a declared range to its last digit, of dates as dates."""
    return " to ".join(exact_date(column[end], column.get("date")) or _exact(column[end]) for end in ("lower", "upper"))


def _exact(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < _LARGEST_WHOLE else f"{value:,}"
