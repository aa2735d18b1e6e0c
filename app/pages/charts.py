"""Charts, which a script of the page draws with uPlot. Every chart has a table with the same numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from purse.tables import Estimate, Table

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


def spending(jobs: Sequence[Mapping[str, Any]], now: float, analysts: Sequence[str] = ()) -> Chart | None:
    """Return the used share of the present budget over time, by analyst, or None for fewer than two charges.

    Parameters
    ----------
    jobs : charged jobs in the order of their submission
    now : time at which the chart ends, in seconds since 1970
    analysts : order of the lines, so that their colors are those of another list on the page
    """
    if len(jobs) < 2:
        return None
    totals = dict.fromkeys([*analysts, *(job["analyst"] for job in jobs)], 0.0)
    steps = [dict(totals)]
    for job in jobs:
        totals[job["analyst"]] += 100 * (job["share"] or 0.0)
        steps.append(dict(totals))
    steps.append(dict(totals))
    lines = [Line(analyst, [step[analyst] for step in steps]) for analyst in totals]
    if len(totals) > 1:
        lines.append(Line("all", [sum(step.values()) for step in steps], is_reference=True))
    times = [datetime.fromisoformat(job["created_at"]).timestamp() for job in jobs]
    x = [times[0] - 1.0, *times, max(now, times[-1])]  # nothing was spent a second before the first charge
    axes = ("time (UTC)", "% of the budget")
    title = "Share of the budget that jobs had used by then, by analyst"
    return Chart(title, "step", x, lines, axes, is_time=True, y_range=(0.0, 1.0))


def of_table(table: Table) -> Chart | None:
    """Return the chart of a table that has one."""
    match table.look:
        case "roc":
            return _roc(table)
        case "calibration":
            return _calibration(table)
        case "histogram":
            return _histogram(table)
    return None


def _roc(table: Table) -> Chart:
    """Return the ROC curve with the 95 % band of its true positive rate."""
    pairs = ((false_rate.value, true_rate) for _, false_rate, true_rate, _ in _rows(table))
    points = sorted(pairs, key=lambda pair: pair[0])
    x = [0.0, *(point for point, _ in points), 1.0]
    rates = [Estimate(0.0, 0.0, 0.0), *(rate for _, rate in points), Estimate(1.0, 1.0, 1.0)]
    title = "ROC curve: true positive rate against false positive rate"
    lines = [_estimates("model", rates), Line("chance", x, is_reference=True)]
    return Chart(title, "line", x, lines, (table.headings[1], table.headings[2]), y_range=_UNIT_RANGE)


def _calibration(table: Table) -> Chart:
    """Return the share of positives against the score, with its 95 % band."""
    x = [(score.low + score.high) / 2 for score, *_ in _rows(table)]
    lines = [_estimates("model", [share for _, _, share in _rows(table)]), Line("calibrated", x, is_reference=True)]
    score, _, share = table.headings
    return Chart(f"Calibration: {share} against the score", "line", x, lines, (score, share), y_range=_UNIT_RANGE)


def _histogram(table: Table) -> Chart:
    """Return counts of bins as bars."""
    bins = [each for each, _ in _rows(table)]
    scale = _SECONDS.get(bins[0].date or "", 1)
    return Chart(
        table.caption,
        "bar",
        [scale * (each.low + each.high) / 2 for each in bins],
        [Line("rows", [count for _, count in _rows(table)])],
        (table.headings[0], table.headings[1]),
        is_time=bins[0].date in _SECONDS,
        x_range=(scale * bins[0].low, scale * bins[-1].high),
        y_range=(0.0, 1.0),
    )


def _rows(table: Table) -> Sequence[Sequence[Any]]:
    """Return the rows of a table whose look states the types of its cells."""
    return table.rows


def _estimates(label: str, estimates: Sequence[Estimate]) -> Line:
    values, low, high = ([getattr(each, end) for each in estimates] for end in ("value", "low", "high"))
    return Line(label, values, low, high)
