"""Released results as frames, HTML and plots."""

from typing import Any

import pytest

from purse import Model
from purse.extras import NotInstalled
from purse.results import BudgetReport, Evaluation, Forecast, Statistic
from purse.tables import Cell, Estimate, Span, Table, Tabular
from purse.wire.neighbors import MEANING
from purse.wire.profiles import DatasetProfile
from tests.support.models import AGE, PRIVACY, model_document

SEX = {"name": "sex", "type": "category", "categories": ["f", "<m>"]}
INTERVAL = {"value": 1.0, "low": 0.5, "high": 1.5}
MEASURED = {"value": 4.0, "low": 3.0, "high": 5.0, "noise_low": 3.5, "noise_high": 4.5}
LOSS = {"epsilon": 0.3, "delta": 1e-6}


def _statistic(result: dict[str, Any]) -> Statistic:
    document = {"kind": "statistic", "dataset": "ds_a", "result": result, "job": "job_a", "privacy": PRIVACY}
    return Statistic.model_validate(document)


def _evaluation(result: dict[str, Any]) -> Evaluation:
    facts = {"kind": "evaluation", "dataset": "ds_a", "model": "job_m", "model_sha256": "0" * 64, "noise_std": 2.0}
    return Evaluation.model_validate(facts | {"result": result, "job": "job_a", "privacy": PRIVACY})


def _two_classes() -> dict[str, Any]:
    names = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    rates = ("accuracy", "true_positive_rate", "false_positive_rate")
    threshold = {"threshold": 0.5} | dict.fromkeys(names, 1.0) | dict.fromkeys(rates, MEASURED)
    return {
        "name": "two_classes",
        "classes": ["no", "yes"],
        "edges": [0.0, 0.5, 1.0],
        "counts": [[1.0, 2.0], [3.0, 4.0]],
        "accuracy": MEASURED,
        "auc": MEASURED,
        "log_loss": None,
        "thresholds": [threshold],
        "calibration": None,
    }


RESIDUALS = {"name": "residuals", "edges": [-1.0, 0.0, 1.0], "counts": [1.0, 2.0], "clip": 1.0} | dict.fromkeys(
    ("mean_squared_error", "mean_absolute_error"), MEASURED
)
COUNTS = {
    "name": "counts",
    "axes": [{"column": AGE, "edges": [0.0, 25.0, 50.0]}, {"column": SEX}],
    "counts": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "noise_std": 1.0,
    "within": 2.0,
}
MEANS: dict[str, Any] = {
    "name": "means",
    "numbers": [{"column": "age", "mean": INTERVAL}],
    "categories": [{"column": SEX, "shares": [INTERVAL] * 3}],
}
QUANTILES = {"name": "quantiles", "columns": [{"column": "age", "quantiles": [{"share": 0.5, "at": INTERVAL}]}]}
COVARIANCE = {
    "name": "covariance",
    "columns": ["a", "b"],
    "means": [INTERVAL] * 2,
    "covariance": [[1.0, 0.5], [0.5, 1.0]],
    "noise_std": [[0.1, 0.1], [0.1, 0.1]],
    "correlation": [[INTERVAL] * 2] * 2,
}
TABLE1 = {
    "name": "table1",
    "by": [SEX],
    "where": [],
    "categories": [],
    "noise_std": 1.0,
    "within": 2.0,
    "least_rows": 10.0,
    "groups": [
        {
            "levels": [level],
            "count": 20.0,
            "resolved": True,
            "reason": None,
            "numbers": [
                {
                    "column": "age",
                    "mean": MEASURED,
                    "std": INTERVAL,
                    "quantiles": [{"share": 0.5, "at": INTERVAL}],
                    "difference": None,
                    "sum": INTERVAL,
                }
            ],
            "categories": [],
        }
        for level in ("f", "<m>", None)
    ],
}
FORECAST = {
    "dataset": "ds_a",
    "target": "age",
    "measure": "r2",
    "source": "declaration",
    "signal": 0.5,
    "delta": 1e-6,
    "records": 100,
    "twin_records": 100,
    "test_rows": 100,
    "runs": 3,
    "twin": 0,
    "at": [
        {"epsilon": epsilon, "method": "dp_gd", "score": {"median": 0.5, "low": 0.4, "high": 0.6}}
        for epsilon in (0.5, 1.0)
    ],
    "constant": 0.0,
    "optimum": 0.7,
    "rests_on": [],
}
BUDGET = {
    **LOSS,
    "neighbors": "replace_one",
    "meaning": MEANING["replace_one"],
    "elsewhere": None,
    "unit": {"name": "row"},
    "filter": "gdp",
    "share": 0.4,
    "spent": LOSS,
    "remaining": LOSS,
    "jobs": 1,
    "promises": [],
    "analysts": [{"analyst": "ada", "jobs": 1, "share": 0.4, "spent": LOSS}],
    "frozen": False,
    "exceeded": False,
}
MEASURES = ["measure", "value", "value low", "value high", "noise alone low", "noise alone high"]
RESULTS: dict[str, tuple[Tabular, list[str], int, int]] = {  # headings of the frame, lines of the HTML and the frame
    "counts": (_statistic(COUNTS), ["row low", "row high", "column", "value"], 2, 6),
    "counts of one column": (
        _statistic(COUNTS | {"axes": [{"column": SEX}], "counts": [1.0, 2.0, 3.0]}),
        ["sex", "rows"],
        3,
        3,
    ),
    "means": (_statistic(MEANS), ["column", "mean", "mean low", "mean high"], 1, 1),
    "shares": (
        _statistic(MEANS | {"numbers": [], "categories": MEANS["categories"] * 2}),
        ["table", "category", "share", "share low", "share high"],
        6,
        6,
    ),
    "quantiles": (_statistic(QUANTILES), ["column", "share", "at", "at low", "at high"], 1, 1),
    "covariance": (_statistic(COVARIANCE), ["table", "row", "column", "value", "value low", "value high"], 8, 8),
    "table1": (_statistic(TABLE1), ["row", "column", "value", "value low", "value high"], 5, 15),
    "two classes": (_evaluation(_two_classes()), MEASURES, 2, 2),
    "residuals": (_evaluation(RESIDUALS), MEASURES, 2, 2),
    "forecast": (
        Forecast.model_validate(FORECAST),
        ["epsilon", "R^2", "R^2 low", "R^2 high", "method"],
        2,
        2,
    ),
    "budget": (BudgetReport.model_validate(BUDGET), ["analyst", "jobs", "share", "epsilon", "delta"], 1, 1),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_is_a_frame_and_escaped_html(kind: str) -> None:
    result, columns, lines, rows = RESULTS[kind]
    html = result._repr_html_()
    assert html.count("<tr>") == lines + 1
    assert "<m>" not in html
    assert "\n" not in repr(result)
    pytest.importorskip("pandas", reason="pandas is not installed: frames of results are not tried")
    frame = result.to_frame()
    assert (list(frame.columns), len(frame)) == (columns, rows)


def test_a_printed_result_states_its_kind_and_its_tables() -> None:
    for result, *_ in RESULTS.values():
        kind, _, _ = repr(result).strip("<>").partition(" ")
        assert str(result).startswith(f"{kind} ")
        assert all(table.to_text() in str(result) for table in result.tables())


def test_a_frame_keeps_a_column_whose_name_is_also_a_heading() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: frames of results are not tried")
    frame = Table(("rows", "rows"), [("a", 2), ("b", 5)]).to_frame()
    assert list(frame.columns) == ["rows", "rows"]
    assert frame.to_numpy().tolist() == [["a", 2], ["b", 5]]


def test_a_cross_table_is_drawn_and_framed_by_its_cells() -> None:
    [cross] = _statistic(COUNTS).tables()
    assert (cross.lines.labels[1], cross.lines.estimates[1]) == ("0 to 25, <m>", Estimate(2.0, 0.0, 4.0))
    assert cross.lines.rows[-1] == (Span(25.0, 50.0), "(other)", 6)


def test_a_terminal_shows_bars_up_to_the_ends_of_the_intervals() -> None:
    rows: list[tuple[Cell, ...]] = [("a", Estimate(2.0, 1.0, 4.0)), ("b", Estimate(-2.0, -4.0, 1.0)), ("c", 0)]
    lines = Table(("", "x"), rows, "Caption", "Note.", "bars").to_text().splitlines()
    bars = [line.split()[-1] for line in lines[2:4]]
    assert [[bar.count(shade) for shade in "█▓░"] for bar in bars] == [[10, 10, 20], [0, 20, 20]]
    assert (lines[0], lines[4], lines[5]) == ("Caption", "c  0", "Note.")


def test_a_curve_on_a_terminal_has_some_of_its_points() -> None:
    rows = [(share / 40, Estimate(0.5, 0.4, 0.6)) for share in range(40)]
    assert len(Table(("threshold", "rate"), rows, look="roc").to_text().splitlines()) == 11


def test_r2_is_one_minus_the_error_over_the_variance() -> None:
    r2 = _evaluation(RESIDUALS).r2(target_std=4.0)
    assert (r2.value, r2.low, r2.high) == (1 - 4 / 16, 1 - 5 / 16, 1 - 3 / 16)
    with pytest.raises(ValueError, match="classes"):
        _evaluation(_two_classes()).r2(4.0)
    with pytest.raises(ValueError, match="positive"):
        _evaluation(RESIDUALS).r2(0.0)


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_is_drawn_or_names_the_extra(kind: str) -> None:
    result: Any = RESULTS[kind][0]
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        with pytest.raises(NotInstalled, match=r"privy-purse\[plot\]"):
            result.plot()
        return
    mpl.use("agg")
    axes = result.plot()
    assert axes.get_xlabel()
    assert result.plot(axes) is axes


def test_tables_for_people_have_typed_cells_and_a_look() -> None:
    [cross] = _statistic(COUNTS).tables()
    assert (cross.caption, cross.look, cross.headings) == ("Counts of age and sex", "heat", ("", "f", "<m>", "(other)"))
    assert cross.rows[1] == (Span(25.0, 50.0), 4, 5, 6)
    [means, shares] = _statistic(MEANS).tables()
    assert means.rows == [("age", Estimate(1.0, 0.5, 1.5))]
    assert (shares.look, shares.rows[-1]) == ("bars", ("(other)", Estimate(1.0, 0.5, 1.5)))
    measures, curve = _evaluation(_two_classes()).tables()
    assert [row[0] for row in measures.rows] == ["accuracy", "AUC"]
    assert (curve.look, curve.rows[0][1]) == ("roc", Estimate(4.0, 3.0, 5.0))
    [_, residuals] = _evaluation(RESIDUALS).tables()
    assert residuals.rows == [(Span(-1.0, 0.0), 1), (Span(0.0, 1.0), 2)]


def test_a_profile_has_a_summary_of_numbers_and_the_counts_of_each_column() -> None:
    moments = {"center": [0.0], "variances": [0.1], "noise": [0.01]}
    column = {"column": AGE, "counts": [1.0, 2.0], "counts_noise_std": 1.0, "edges": [0.0, 25.0, 50.0]}
    columns = [column | {"mean": INTERVAL, "std": INTERVAL, "quantiles": [], "moments": moments}]
    document = {"kind": "profile", "dataset": "ds_a", "columns": columns, "job": "job_a", "privacy": PRIVACY}
    profile = DatasetProfile.model_validate(document)
    summary, counts = profile.tables()
    assert summary.rows == [("age", *[Estimate(1.0, 0.5, 1.5)] * 2, None, None, None)]
    assert counts.rows == [(Span(0.0, 25.0), 1), (Span(25.0, 50.0), 2)]
    assert "<caption>profile of ds_a: epsilon " in profile._repr_html_()


def test_dates_are_marked_as_dates_in_the_tables_for_people() -> None:
    [quantiles] = _statistic(QUANTILES).lay_out({"age": "days"})
    assert quantiles.rows == [("age", 0.5, Estimate(1.0, 0.5, 1.5, "days"))]


def test_coefficients_with_intervals_are_estimates_beside_those_in_units() -> None:
    document = model_document(
        loss="squared",
        coefficients=[0.5],
        intercept=0.25,
        link="identity",
        classes=None,
        target=AGE | {"name": "income", "upper": 100.0},
        intervals={"level": 0.95, "half_widths": [0.125], "intercept": 0.0625},
    )
    [coefficients] = Model.model_validate(document).tables()
    assert coefficients.rows == [
        ("age", Estimate(0.5, 0.375, 0.625), 1.0),
        ("intercept", Estimate(0.25, 0.1875, 0.3125), pytest.approx(37.5)),
    ]
