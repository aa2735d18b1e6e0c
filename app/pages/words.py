"""How numbers are written for people."""


def number(value: float | None, digits: int = 4) -> str:
    """To so many digits; a dash for what is not there."""
    return "–" if value is None else f"{value:,.{digits}g}" if abs(value) < 1e6 else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """Of a whole: 12.3 %."""
    return "–" if share is None else f"{100 * share:.3g} %"
