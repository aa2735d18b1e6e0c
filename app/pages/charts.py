"""Charts, which a script of the page draws with uPlot. Every chart has a table with the same numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["line", "step", "bar"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line, or the bars, of a chart.

    Parameters
    ----------
    label : name in the legend
    values : one for each x; None for a gap
    low, high : ends of the band around it, if there is one
    is_reference : whether it is for comparison only, and drawn dashed
    """

    label: str
    values: Sequence[float | None]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Parameters
    ----------
    title : what it shows, for people who cannot see it
    kind : how values are joined
    x : positions in increasing order; seconds since 1970 if `is_time`
    lines : at least one
    axes : names of the x axis and of the y axis
    is_log : whether the x axis is logarithmic
    is_time : whether x are times
    y_range : smallest and largest y that are shown at least
    """

    title: str
    kind: Kind
    x: Sequence[float]
    lines: Sequence[Line]
    axes: tuple[str, str]
    is_log: bool = False
    is_time: bool = False
    y_range: tuple[float, float] | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The chart as JSON."""
        return asdict(self)


def accuracy(forecast: Mapping[str, Any]) -> Chart:
    """Return the expected score of a forecast against epsilon, with the band that holds 8 of 10 runs."""
    scores = [each["score"] for each in forecast["at"]]
    measure = "R²" if forecast["measure"] == "r2" else forecast["measure"]
    lines = [
        Line(
            "expected",
            [score["median"] for score in scores],
            [score["low"] for score in scores],
            [score["high"] for score in scores],
        ),
        Line("without noise", [forecast["optimum"]] * len(scores), is_reference=True),
        Line("constant prediction", [forecast["constant"]] * len(scores), is_reference=True),
    ]
    x = [each["epsilon"] for each in forecast["at"]]
    return Chart(f"Expected {measure} against epsilon", "line", x, lines, ("epsilon", measure), is_log=True)
