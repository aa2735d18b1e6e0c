"""A regression table in LaTeX."""

from collections.abc import Iterable

from purse.wire.inference import TableRow

_SPECIAL_CHARACTERS = str.maketrans({character: rf"\{character}" for character in "&%$#_{}"})


def tabular(rows: Iterable[TableRow]) -> str:
    """Return these rows as a LaTeX `tabular`, with a line for each term."""
    lines = [r"\begin{tabular}{lrrrr}", r"term & estimate & std. error & $p$ & interval \\", r"\hline"]
    for row in rows:
        term = row.term.translate(_SPECIAL_CHARACTERS)
        if row.resolved:
            p_value = "$<$.001" if (row.p_value or 0.0) < 1e-3 else f"{row.p_value:.3f}"
            interval = f"[{row.lower:.4g}, {row.upper:.4g}]"
            lines.append(rf"{term} & {row.estimate:.4g} & {row.std_error:.4g} & {p_value} & {interval} \\")
        else:
            lines.append(rf"{term} & \multicolumn{{4}}{{l}}{{not resolved}} \\")
    return "\n".join([*lines, r"\end{tabular}", ""])
