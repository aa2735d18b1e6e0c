"""Charts of the pages: positions in order, bands around values, and totals that add up."""

import pytest

from app.pages import charts
from purse.tables import Estimate, Span, Table


def _around(value: float) -> Estimate:
    return Estimate(value, value - 0.1, value + 0.1)


def test_a_roc_curve_runs_from_corner_to_corner_also_if_noise_disorders_the_thresholds() -> None:
    rows = [
        (threshold, _around(x), _around(0.8), _around(0.5)) for threshold, x in ((0.2, 0.3), (0.5, 0.4), (0.8, 0.1))
    ]
    chart = charts.of_table(Table(("threshold", "false", "true", "accuracy"), rows, look="roc"))
    assert chart is not None
    assert list(chart.x) == [0.0, 0.1, 0.3, 0.4, 1.0]
    [curve, chance] = chart.lines
    assert (curve.values[0], curve.values[-1]) == (0.0, 1.0)
    assert chance.values == chart.x
    assert list(curve.low) == pytest.approx([0.0, 0.7, 0.7, 0.7, 1.0])
    assert list(curve.high) == pytest.approx([0.0, 0.9, 0.9, 0.9, 1.0])


def test_spending_is_summed_by_analyst_and_for_all() -> None:
    jobs = [
        {"analyst": analyst, "created_at": f"2026-11-2{day}T10:00:00Z", "share": share}
        for day, (analyst, share) in enumerate([("ada", 0.1), ("bob", 0.2), ("ada", None), ("ada", 0.3)])
    ]
    chart = charts.spending(jobs, now=2e9)
    assert chart is not None
    assert {line.label: [*line.values] for line in chart.lines} == {
        "ada": pytest.approx([0, 10, 10, 10, 40, 40]),
        "bob": pytest.approx([0, 0, 20, 20, 20, 20]),
        "all": pytest.approx([0, 10, 30, 30, 60, 60]),
    }
    assert list(chart.x) == sorted(chart.x)
    assert charts.spending(jobs[:1], now=2e9) is None


def test_bins_of_dates_are_drawn_on_an_axis_of_times() -> None:
    rows = [(Span(0.0, 2.0, "days"), 3), (Span(2.0, 4.0, "days"), 5)]
    chart = charts.of_table(Table(("day", "rows"), rows, look="histogram"))
    assert chart is not None
    assert (chart.is_time, chart.x, chart.x_range) == (True, [86_400.0, 3 * 86_400.0], (0.0, 4 * 86_400.0))


def test_lines_of_spending_are_in_the_order_of_the_list_of_analysts() -> None:
    jobs = [
        {"analyst": name, "share": 0.1, "created_at": f"2026-11-27T08:0{minute}:00Z"}
        for minute, name in enumerate(("klein", "ada"))
    ]
    chart = charts.spending(jobs, now=2e9, analysts=("ada", "bob", "klein"))
    assert chart is not None
    assert [line.label for line in chart.lines] == ["ada", "bob", "klein", "all"]
