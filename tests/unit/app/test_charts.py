"""Charts of the pages: positions in order, bands around values, and totals that add up."""

import pytest

from app.pages import charts
from purse.wire.evaluations import Measured, Threshold


def _measured(value: float) -> Measured:
    return Measured(value=value, low=value - 0.1, high=value + 0.1, noise_low=value, noise_high=value)


def _threshold(threshold: float, false_positive_rate: float) -> Threshold:
    return Threshold(
        threshold=threshold,
        true_positives=1.0,
        false_positives=1.0,
        true_negatives=1.0,
        false_negatives=1.0,
        accuracy=_measured(0.5),
        true_positive_rate=_measured(0.8),
        false_positive_rate=_measured(false_positive_rate),
    )


def test_a_roc_curve_runs_from_corner_to_corner_also_if_noise_disorders_the_thresholds() -> None:
    chart = charts.roc([_threshold(0.2, 0.3), _threshold(0.5, 0.4), _threshold(0.8, 0.1)])
    assert list(chart.x) == [0.0, 0.1, 0.3, 0.4, 1.0]
    [curve, chance] = chart.lines
    assert (curve.values[0], curve.values[-1]) == (0.0, 1.0)
    assert chance.values == chart.x
    assert list(curve.low) == pytest.approx([0.0, 0.7, 0.7, 0.7, 1.0])
    assert list(curve.high) == pytest.approx([0.0, 0.9, 0.9, 0.9, 1.0])


def test_spending_is_summed_by_analyst_and_for_all() -> None:
    jobs = [
        {"analyst": analyst, "created_at": f"2026-11-2{day}T10:00:00Z", "quote": {"share": share}}
        for day, (analyst, share) in enumerate([("ada", 0.1), ("bob", 0.2), ("ada", None), ("ada", 0.3)])
    ]
    chart = charts.spending(jobs)
    assert chart is not None
    assert {line.label: [*line.values] for line in chart.lines} == {
        "ada": pytest.approx([10, 10, 10, 40]),
        "bob": pytest.approx([0, 20, 20, 20]),
        "all": pytest.approx([10, 30, 30, 60]),
    }
    assert list(chart.x) == sorted(chart.x)
    assert charts.spending(jobs[:1]) is None


def test_bins_of_dates_are_drawn_on_an_axis_of_times() -> None:
    chart = charts.histogram("Counts of day", "day", [0.0, 2.0, 4.0], [3.0, 5.0], "days")
    assert (chart.is_time, chart.x, chart.x_range) == (True, [86_400.0, 3 * 86_400.0], (0.0, 4 * 86_400.0))
