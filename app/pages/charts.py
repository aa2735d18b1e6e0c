"""Charts, which a script of the page draws with uPlot. Every chart has a table with the same numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from purse.wire.evaluations import CalibrationBin, Threshold

_SECONDS = {"days": 86_400, "seconds": 1}
_UNIT_RANGE = (0.0, 1.0)
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
    x_range : smallest and largest x that are shown; those of the data if None
    y_range : smallest and largest y that are shown at least
    """

    title: str
    kind: Kind
    x: Sequence[float]
    lines: Sequence[Line]
    axes: tuple[str, str]
    is_log: bool = False
    is_time: bool = False
    x_range: tuple[float, float] | None = None
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


def spending(jobs: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Return the used share of a budget over time, by analyst; None for fewer than two charges.

    Parameters
    ----------
    jobs : charged jobs in the order of their submission
    """
    if len(jobs) < 2:
        return None
    totals = dict.fromkeys([job["analyst"] for job in jobs], 0.0)
    steps = []
    for job in jobs:
        totals[job["analyst"]] += 100 * (job["quote"]["share"] or 0.0)
        steps.append(dict(totals))
    lines = [Line(analyst, [step[analyst] for step in steps]) for analyst in totals]
    if len(totals) > 1:
        lines.append(Line("all", [sum(step.values()) for step in steps], is_reference=True))
    x = [datetime.fromisoformat(job["created_at"]).timestamp() for job in jobs]
    axes = ("time (UTC)", "% of the budget, as quoted")
    title = "Used share of the budget over time, by analyst"
    return Chart(title, "step", x, lines, axes, is_time=True, y_range=(0.0, 1.0))


def roc(thresholds: Sequence[Threshold]) -> Chart:
    """Return the ROC curve with the 95 % band of its true positive rate."""
    points = sorted(thresholds, key=lambda each: each.false_positive_rate.value)
    x = [0.0, *(each.false_positive_rate.value for each in points), 1.0]
    rates = [each.true_positive_rate for each in points]
    curve = Line(
        "model",
        [0.0, *(rate.value for rate in rates), 1.0],
        [0.0, *(rate.low for rate in rates), 1.0],
        [0.0, *(rate.high for rate in rates), 1.0],
    )
    lines = [curve, Line("chance", x, is_reference=True)]
    axes = ("false positive rate", "true positive rate")
    return Chart(
        "ROC curve: true positive rate against false positive rate", "line", x, lines, axes, y_range=_UNIT_RANGE
    )


def calibration(bins: Sequence[CalibrationBin], positive: str) -> Chart:
    """Return the share of positives against the score, with its 95 % band."""
    x = [(each.low + each.high) / 2 for each in bins]
    shares = [each.positive for each in bins]
    values, low, high = ([getattr(share, end) for share in shares] for end in ("value", "low", "high"))
    lines = [Line("model", values, low, high), Line("calibrated", x, is_reference=True)]
    axes = ("score", f"share of {positive}")
    return Chart(f"Calibration: share of {positive} against the score", "line", x, lines, axes, y_range=_UNIT_RANGE)


def histogram(title: str, name: str, edges: Sequence[float], counts: Sequence[float], date: str | None = None) -> Chart:
    """Return counts of bins as bars; `date` is the unit of a column of dates."""
    scale = _SECONDS.get(date or "", 1)
    ends = [scale * edge for edge in edges]
    return Chart(
        title,
        "bar",
        [(low + high) / 2 for low, high in pairwise(ends)],
        [Line("rows", counts)],
        (name, "rows"),
        is_time=date in _SECONDS,
        x_range=(ends[0], ends[-1]),
        y_range=(0.0, 1.0),
    )
