"""How numbers, and places in a form, are written for people."""

import re

_LISTS = re.compile(r"\b(column|candidate)s\.(\d+)(?:\.(?:number|category)(?=\.|$))?")


def number(value: float | None, digits: int = 4) -> str:
    """To so many digits; a dash for what is not there."""
    return "–" if value is None else f"{value:,.{digits}g}" if abs(value) < 1e6 else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """Of a whole: 12.3 %."""
    return "–" if share is None else f"{100 * share:.3g} %"


def place(where: str) -> str:
    """A field as the form shows it, counted from one: `spec.columns.0.number.lower` is Column 1, lower."""
    path = re.sub(r"^(?:body|spec|query)(?:\.|$)", "", where)
    counted = _LISTS.sub(lambda found: f"{found[1]} {int(found[2]) + 1}", path)
    told = counted.replace(".", ", ").replace("_", " ") or "the form"
    return told[0].upper() + told[1:]
