"""The regression table in people's hands: statsmodels' names, contrasts, text, CSV and LaTeX."""

import csv
import io
import math
import re
from typing import Any

import numpy as np
import pytest

from purse import Model
from purse.prediction import design
from purse.regression import Regression
from purse.solved_tables import count_refusal, refusal
from purse.tables import PValue
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.inference import TableRow
from tests.support.models import model_document

LINES = {
    "age": (0.03, 0.01),
    "ward = south": (-0.5, 0.2),
    "ward = east": (0.25, 0.25),
    "ward = (other)": None,
    "intercept": (-1.5, 0.5),
}


def row(term: str, line: tuple[float, float] | None) -> dict[str, Any]:
    column, _, category = term.partition(" = ")
    named = {"term": term, "column": None if term == "intercept" else column, "category": category or None}
    numbers = "estimate", "std_error", "sampling_error", "noise_error", "degrees_of_freedom", "lower", "upper"
    values = dict.fromkeys((*numbers, "p_value", "per_std"))
    if line is not None:
        estimate, error = line
        parts = (estimate, error, 0.8 * error, 0.6 * error, 1e6, estimate - 1.96 * error, estimate + 1.96 * error)
        values |= dict(zip(numbers, parts, strict=True)) | {"p_value": 0.0004 if term == "age" else 0.2}
    reason = None if line else "too few rows are in this level"
    return named | {"reference": "north" if category else None, "resolved": line is not None, "reason": reason} | values


def test_the_forest_plot_holds_resolved_terms_and_escapes_their_names() -> None:
    document = model(table=[row("<age>", (0.3, 0.1)), row("intercept", (1.0, 0.2))], covariance=np.eye(2).tolist())
    table = document.regression
    assert [line[0] for line in table.forest().rows] == ["<age>"]
    html = table.to_html()
    assert "<age>" not in html
    assert html.count("<circle") == 1
    assert html.count("<tr>") == 1 + len(table.rows)
    assert "intercept" in html


def model(**changes: Any) -> Model:
    errors = np.array([line[1] for line in LINES.values() if line])
    correlation = np.eye(4)
    correlation[1, 2] = correlation[2, 1] = 0.5
    document = model_document(
        coefficients=[0.3, 0.0, -0.5, 0.25, 0.0],
        intercept=-1.5,
        features=[
            {"name": "age", "type": "number", "lower": -10, "upper": 10},
            {"name": "ward", "type": "category", "categories": ["north", "south", "east"]},
        ],
        target={"name": "re_admitted", "type": "category", "categories": ["no", "yes"]},
        table=[row(term, line) for term, line in LINES.items()],
        covariance=(correlation * np.outer(errors, errors)).tolist(),
        inference={
            "level": 0.95,
            "row_limit": 1.5,
            "score_limit": 0.8,
            "residual_limit": None,
            "effective_rows": 3900.0,
            "joint_tests": [{"column": "ward", "p_value": 0.01}, {"column": "diet", "p_value": None}],
        },
    )
    return Model.model_validate(document | changes)


def test_the_table_maps_each_resolved_term_to_its_values() -> None:
    table = model().regression
    assert table.params == {"age": 0.03, "ward = south": -0.5, "ward = east": 0.25, "intercept": -1.5}
    assert table.bse["ward = south"] == 0.2
    assert list(table.pvalues) == list(table.params)
    assert re.search(r"^test of diet +not resolved$", table.summary(), re.MULTILINE)
    assert re.search(r"^test of ward +p = 0.01$", table.summary(), re.MULTILINE)
    assert re.search(r"^effective rows +as precise as 3,900 rows without privacy$", table.summary(), re.MULTILINE)
    assert re.search(r"^age .* < 0.001$", table.summary(), re.MULTILINE)
    assert table.pvalues["age"] == table.tables()[0].rows[0][3] == 0.0004
    assert PValue(0.0004).statement == "p < 0.001"
    assert table.unresolved == {"ward = (other)": "too few rows are in this level"}
    ratios = {"age": math.exp(0.03), "ward = south": math.exp(-0.5), "ward = east": math.exp(0.25)}
    assert table.ratios == pytest.approx(ratios)
    assert table.conf_int()["age"] == pytest.approx((0.03 - 0.0196, 0.03 + 0.0196))
    assert table.conf_int(0.1)["age"] == pytest.approx((0.03 - 0.01645, 0.03 + 0.01645), abs=1e-5)
    assert np.sqrt(np.diag(table.cov_params())) == pytest.approx(list(table.bse.values()))


def test_a_contrast_uses_the_covariance_and_accepts_reference_levels() -> None:
    contrast = model().contrast({"ward = south": 1, "ward = east": -1})
    assert contrast.estimate == -0.75
    assert contrast.std_error == pytest.approx(math.sqrt(0.04 + 0.0625 - 2 * 0.5 * 0.2 * 0.25))
    assert contrast.upper - contrast.lower == pytest.approx(2 * 1.95996 * contrast.std_error, rel=1e-4)
    assert model().contrast({"ward = south": 2, "ward = north": -2}).estimate == -1.0
    wrong: list[dict[str, float]] = [
        {"ward = (other)": 1.0}, {"ward = west": 1.0}, {"ward = north": 1.0}, {}, {"ward = south": math.nan},
        {"ward = south": 1.0, "ward = north": math.inf},
    ]  # fmt: skip
    for weights in wrong:
        with pytest.raises(ValueError, match=r"ward|weights"):
            model().contrast(weights)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_a_confidence_outside_0_and_1_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        model().regression.conf_int(alpha)


def test_a_table_without_a_resolved_term_is_shown_and_predicts_nothing() -> None:
    none = model(table=[row(term, None) for term in LINES], covariance=[])
    assert none.regression.params == {}
    assert list(none.regression.unresolved) == list(LINES)
    assert none.regression.cov_params().shape == (0, 0)
    assert "not resolved" in none.regression.summary()
    assert np.isnan(none.predict([{"age": 5, "ward": "south"}], interval=True)).all()


def column(name: str, lower: float = 0.0, upper: float = 1.0) -> NumberColumn:
    return NumberColumn(name=name, type="number", lower=lower, upper=upper)


def category(name: str, *levels: str) -> CategoryColumn:
    return CategoryColumn(name=name, type="category", categories=list(levels))


def test_columns_with_ambiguous_terms_or_extreme_bounds_are_refused() -> None:
    ward, long = category("ward", "north", "south"), category("w" * 200, "c" * 500)
    assert refusal([column("age"), ward, long], None) is None
    assert TableRow.model_validate(row(f"{long.name} = {long.categories[0]}", None)).reason is not None
    clashes: list[list[Column]] = [
        [column("intercept")],
        [ward, column("ward = south")],
        [category("ward", "north", "(other)")],
        [category("a", "b = c"), category("a = b", "c")],
    ]
    for features in clashes:
        assert "name" in str(refusal(features, None))
    for wrong in (column("x", -1e150, 1e150), column("x", 0, 1e-50), column("x", 1e60, 2e60)):
        assert "x: " in str(refusal([wrong], None))
        assert "x: " in str(refusal([], wrong))


def test_means_of_rows_have_intervals_unless_a_term_is_not_resolved() -> None:
    rows = [{"age": 5, "ward": "south"}, {"age": -2, "ward": "north"}, {"age": 0, "ward": "elsewhere"}]
    predictions = model().predict(rows, interval=True)
    assert predictions[0, 0] == pytest.approx(1 / (1 + math.exp(1.5 - 0.15 + 0.5)))
    assert predictions[0] == pytest.approx(1 / (1 + np.exp(-model().regression.margins(*_encoded(rows))[0])))
    contrast = model().contrast({"age": -2, "intercept": 1})
    assert predictions[1] == pytest.approx(
        1 / (1 + np.exp(-np.array((contrast.estimate, contrast.lower, contrast.upper))))
    )
    assert np.isnan(predictions[2]).all()
    in_units = model(link="identity", loss="squared").predict(rows, interval=True)
    assert in_units[1] == pytest.approx((contrast.estimate, contrast.lower, contrast.upper))
    counts = {"name": "visits", "type": "number", "lower": 0, "upper": 0.2}
    means = model(link="log", loss="poisson", target=counts, classes=None).predict(rows, interval=True)
    expected = np.minimum(np.exp((contrast.estimate, contrast.lower, contrast.upper)), 0.2)
    assert means[1] == pytest.approx(expected)
    assert np.isnan(means[2]).all()


def _encoded(rows: Any) -> tuple[Any, Any]:
    return model().features, design(model(), rows)


def test_text_csv_and_latex_have_every_term() -> None:
    table = model().regression
    for text in (str(model()), table.summary(), table.to_csv(), table.to_latex(), model()._repr_html_()):
        assert all(term.replace("_", r"\_") in text or term in text for term in LINES)
    assert "not resolved" in table.summary()
    (first, *_) = csv.DictReader(io.StringIO(table.to_csv()))
    assert (first["term"], first["estimate"], first["resolved"]) == ("age", "0.03", "True")
    assert r"$<$.001" in table.to_latex()
    assert table.to_frame()["term"].tolist() == list(LINES)


def test_logistic_and_poisson_tables_have_ratios_with_intervals() -> None:
    for link, name in (("logistic", "odds ratio"), ("log", "rate ratio")):
        table = model(link=link).regression
        assert table.ratios == {
            term: pytest.approx(math.exp(v)) for term, v in table.params.items() if term != "intercept"
        }
        low, high = table.ratios_conf_int()["age"]
        assert (math.log(low), math.log(high)) == pytest.approx(table.conf_int()["age"])
        assert name in " ".join(table.summary().split())
    linear = model(link="identity").regression
    for ratios in (lambda: linear.ratios, linear.ratios_conf_int):
        with pytest.raises(ValueError, match="linear"):
            ratios()


def test_a_count_is_a_number_from_0_without_an_origin() -> None:
    def number(**ends: Any) -> NumberColumn:
        return NumberColumn(name="visits", type="number", **ends)

    assert count_refusal(number(lower=0, upper=20)) is None
    for wrong in (
        number(lower=1, upper=20),
        number(lower=0, upper=1),
        number(lower=0, upper=20, origin=0),
        number(lower=0, upper=20, origin=10, scale=5),
        CategoryColumn(name="visits", type="category", categories=["few", "many"]),
    ):
        assert count_refusal(wrong)


def test_the_error_of_a_model_without_a_table_names_the_setting() -> None:
    plain = model(table=None, covariance=None, inference=None)
    with pytest.raises(ValueError, match="inference=True"):
        Regression.of(plain)
    assert "encoded" in plain.summary()
    with pytest.raises(ValueError, match="logistic"):
        _ = model(link="identity").regression.ratios
