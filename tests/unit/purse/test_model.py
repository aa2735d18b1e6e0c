"""A model in people's hands: names, summary, the frames that it predicts from, other libraries' copies of it."""

import re
import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from app.sources.ingest import Reading, encoded
from purse import Model, predict
from purse.frames import as_csv, columns
from purse.prediction import UnsupportedCategory, encode, margins_of
from purse.terms import expand
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.files import Dialect
from purse.wire.models import EncodedMeans
from purse.wire.terms import Factor, MergedLevel, Term
from tests.support.models import model_document

NUMBER = {"name": "age", "type": "number", "lower": 0.0, "upper": 50.0, "default": 10.0}
FROM_ZERO = {"name": "stays", "type": "number", "lower": -2.0, "upper": 7.0, "origin": 0.0, "scale": 5.0}
CATEGORY = {"name": "sex", "type": "category", "categories": ["f", "m"]}
WITH_DEFAULT = {"name": "town", "type": "category", "categories": ["a", "b", "c"], "default": "b"}
FEATURES = [NUMBER, FROM_ZERO, CATEGORY, WITH_DEFAULT]
ROWS: list[dict[str, object]] = [
    {"age": 25.0, "stays": 0.0, "sex": "f", "town": "a"},
    {"age": 80.0, "stays": -9.0, "sex": "m", "town": "c"},
    {"age": float("nan"), "stays": float("nan"), "sex": "?", "town": "?"},
    {"age": 0.1, "stays": 6.9, "sex": "", "town": "b"},
]


def _model(link: str) -> Model:
    weights = np.random.default_rng(5).normal(size=(3, 2 + 3 + 4))
    several = link == "softmax"
    target: dict[str, Any] = {"name": "y", "type": "category", "categories": ["low", "mid", "high"]}
    if link == "identity":
        target = {"name": "y", "type": "number", "lower": -10.0, "upper": 35.0}
    if link == "log":
        target = {"name": "y", "type": "number", "lower": 0.0, "upper": 2.0}
    document = model_document(
        coefficients=weights.tolist() if several else weights[0].tolist(),
        intercept=[0.1, -0.3, 0.2] if several else 0.1,
        features=FEATURES,
        link=link,
        classes={"identity": None, "log": None, "softmax": target.get("categories")}.get(link, ["low", "high"]),
        target=target,
    )
    return Model.model_validate(document)


LINKS = ("logistic", "softmax", "sign", "identity", "log")


def test_coefficients_have_names_and_are_in_the_summary() -> None:
    model = _model("logistic")
    assert isinstance(model.coefficients[0], float)
    assert list(model.named) == [
        *("age", "stays", "sex = f", "sex = m", "sex = (other)"),
        *("town = a", "town = b", "town = c", "town = (other)", "intercept"),
    ]
    assert list(model.named.values()) == [*model.coefficients, 0.1]
    for line in ("predicts", "privacy    epsilon 0.5 at delta 1e-07", f"sex = m         {model.coefficients[3]:.4g}"):
        assert line in model.summary()
    assert (repr(model), str(model)) == ("<model of y by 4 columns, epsilon 0.5 at delta 1e-07>", model.summary())
    several = _model("softmax")
    assert {name: told["intercept"] for name, told in several.named.items() if isinstance(told, dict)} == {
        "low": 0.1,
        "mid": -0.3,
        "high": 0.2,
    }
    summary = several.summary()
    assert re.findall(r"^Coefficients of class (\w+)$", summary, re.M) == several.classes
    assert len(re.findall(r"^age( +-?\d\S*){2}", summary, re.M)) == 3
    assert summary.count("compare the columns") == 1


def test_the_error_about_an_unknown_or_missing_column_names_it() -> None:
    model = _model("logistic")
    with pytest.raises(ValueError, match=r"Missing columns: stays\."):
        predict(model, [{"age": 1, "sex": "f", "town": "a"}])
    with pytest.raises(ValueError, match=r"model: Age, height\."):
        predict(model, [{**ROWS[0], "Age": 3, "height": 2}])
    with pytest.raises(ValueError, match="columns: town"):
        predict(model, [ROWS[0], {key: value for key, value in ROWS[1].items() if key != "town"}])
    assert predict(model, [{**ROWS[0], "y": "high"}]) == predict(model, ROWS[:1])  # the target may be there
    assert predict(model, []).shape == (0,)
    with pytest.raises(ValueError, match="a list"):
        predict(model, ROWS[0])  # type: ignore[arg-type]


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(ROWS),
    "polars": lambda: pytest.importorskip("polars").DataFrame(ROWS),
    "arrow": lambda: pa.Table.from_pylist(ROWS),
    "arrow batch": lambda: pa.RecordBatch.from_pylist(ROWS),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_predicts_as_its_rows_do_and_is_uploaded_as_a_file(kind: str) -> None:
    frame = FRAMES[kind]()
    assert _model("softmax").predict(frame).tolist() == predict(_model("softmax"), ROWS).tolist()
    assert [held[0] for held in columns(frame).values()] == list(ROWS[0].values())
    with as_csv(frame) as file:
        assert file.read().decode().split("\r\n") == [
            "age,stays,sex,town",
            "25,0,f,a",
            "80,-9,m,c",
            ",,?,?",
            "0.1,6.9,,b",
            "",
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "dialect",
    [Dialect(), Dialect(delimiter=";", encoding="latin-1", decimal=",", quote="'", date_format="%d.%m.%Y %H:%M")],
    ids=["plain", "German"],
)
def test_a_frame_is_uploaded_in_the_declarations_dialect(dialect: Dialect, tmp_path: Path) -> None:
    """The server reads the frame's days, times and fractions. A time that the date format would cut is not a date."""
    days = {"source": "seen", "type": "number", "lower": 0.0, "upper": 20000.0, "date": "days"}
    declared: list[Column] = [
        NumberColumn.model_validate(days | {"name": "day"}),
        NumberColumn(name="x", type="number", lower=-2.0, upper=2.0),
        CategoryColumn(name="town", type="category", categories=["Köln; Süd", "'s Hage"]),
    ]
    towns = ["Köln; Süd", "'s Hage", None, None]
    pd = pytest.importorskip("pandas")
    times = pd.to_datetime(["1970-01-11", None, "2011-01-26", "2011-01-26 10:30"], format="ISO8601")
    x = pd.Series([np.float32(0.5), -1.25, None, 1.5e-7], dtype=object)
    with as_csv(pd.DataFrame({"seen": times, "x": x, "town": towns}), dialect) as file:
        (tmp_path / "file.csv").write_bytes(file.read())
    codes = np.vstack(list(encoded(tmp_path / "file.csv", Reading(declared, dialect))))
    assert codes[:, 0] == pytest.approx([-0.999, 0, 0.5, 0 if dialect == Dialect() else 0.5], abs=1e-12)
    assert codes[:, 1] == pytest.approx([0.25, -0.625, 0, 7.5e-8], rel=1e-12)
    assert codes[:, 2].tolist() == [0, 1, 2, 2]


def test_categories_that_are_not_text_are_encoded_as_in_an_uploaded_frame() -> None:
    """Fractions have the dialect's decimal mark and days have its date format. They were once encoded as "other"."""
    german = Dialect(decimal=",", delimiter=";", date_format="%d.%m.%Y")
    column = CategoryColumn(name="c", type="category", categories=["1,5", "04.07.2030", "2.5"])
    values = [1.5, np.float32(1.5), date(2030, 7, 4), datetime(2030, 7, 4), 2.5, None, "1.5", 3.5]
    assert encode(column, values, german).tolist() == [0, 0, 1, 1, 2, 3, 3, 3]


def test_predictions_read_dates_as_training_did() -> None:
    """Dates may be text in the dialect, values of Python, NumPy or pandas, or the part that the column uses."""
    year = {"name": "year", "type": "number", "lower": 2000.0, "upper": 2040.0, "source": "seen", "date": "year"}
    season = {"name": "month", "type": "category", "categories": ["1", "7"], "source": "seen", "date": "month"}
    fields = _model("identity").model_dump() | {"features": [year, season], "coefficients": [0.1, -0.2, 0.3, -0.4]}
    model, german = Model.model_validate(fields), Dialect(date_format="%d.%m.%Y")
    times = [date(2030, 7, 4), datetime(2030, 7, 4, 23, tzinfo=UTC), np.datetime64("2030-07-04"), "2030-07-04"]
    predictions = predict(model, [{"seen": time} for time in times])
    assert predictions == pytest.approx(12.5 + 22.5 * (0.1 + 0.05 + 0.3), rel=1e-12)
    assert predict(model, [{"seen": "04.07.2030"}], german) == pytest.approx(predictions[:1], rel=1e-12)
    assert predict(model, [{"year": 2030, "month": 7}]) == pytest.approx(predictions[:1], rel=1e-12)
    pd = pytest.importorskip("pandas")
    in_frame = predict(model, pd.DataFrame({"seen": pd.to_datetime(["2030-07-04"])}))
    assert in_frame == pytest.approx(predictions[:1], rel=1e-12)
    unread = predict(model, [{"seen": "04.07.2030"}])  # no date in the default dialect
    assert unread == pytest.approx(12.5 + 22.5 * (0.1 + 0 - 0.4), rel=1e-12)


@pytest.mark.parametrize(
    ("dialect", "text"), [(Dialect(encoding="latin-1"), "Łódź"), (Dialect(quote=""), "a,b")], ids=["encoding", "quotes"]
)
def test_a_frame_that_the_dialect_cannot_say_is_refused_with_its_line(dialect: Dialect, text: str) -> None:
    pd = pytest.importorskip("pandas")
    for frame, line in ((pd.DataFrame({"town": ["x", text]}), 3), (pd.DataFrame({text: ["x"]}), 1)):
        with pytest.raises(ValueError, match=f"^line {line} of the frame has text"):
            as_csv(frame, dialect)


@pytest.mark.slow
def test_missing_values_of_pandas_are_missing() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: frames of it are not tried")
    frame = pandas.DataFrame({"n": pandas.array([1, None], dtype="Int64"), 2: ["x", None]})
    assert columns(frame) == {"n": [1, None], "2": ["x", None]}
    with pytest.raises(ValueError, match="same name"):
        columns(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_scikit_learn_predicts_the_same(link: str) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: its copy of a model is not tried")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: its frames are not tried")
    model = _model(link)
    pipeline = model.to_sklearn()
    frame, ours = pandas.DataFrame(ROWS), model.predict(ROWS)
    if link in ("sign", "identity", "log"):
        _assert_close(pipeline.predict(frame), ours)
    else:
        probabilities = pipeline.predict_proba(frame)
        _assert_close(probabilities if link == "softmax" else probabilities[:, 1], ours)
        assert set(pipeline.predict(frame)) <= set(model.classes or ())


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
def test_onnxruntime_predicts_the_same(link: str) -> None:
    reason = "onnxruntime is not installed: a model as a graph is not tried"
    runtime = pytest.importorskip("onnxruntime", reason=reason)
    onnx = pytest.importorskip("onnx", reason=reason)
    model = _uncertain() if link == "identity" else _model(link)
    model = model.model_copy(update={"intercept": 1.0}) if link == "identity" else model  # some are clipped
    graph = model.to_onnx()
    onnx.checker.check_model(onnx.load_model_from_string(graph), full_check=True)
    values = columns(ROWS)
    kinds: dict[str, Any] = {"number": np.float64, "category": object}
    inputs = {c.name: np.array(values[c.name], kinds[c.type]).reshape(-1, 1) for c in model.features}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedCategory)
        predictions = model.predict(ROWS)
    [outputs] = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"]).run(["prediction"], inputs)
    _assert_close(outputs, predictions)


def _with_terms() -> Model:
    """A model with a power, splines, merged levels, interactions and a category of two columns."""
    model = _model("identity")
    [merged] = [column for column in model.features if column.name == "town"]
    assert isinstance(merged, CategoryColumn)
    new = MergedLevel(level="both", categories=merged.categories[:2])
    products = [
        *([Factor(column=column.name)] for column in model.features),
        [Factor(column="age", center=20.0, scale=10.0, power=3)],
        [Factor(column="age", knots=[20.0, 30.0])],
        [Factor(column="age", knots=[25.0], degree=1), Factor(column="sex")],
        [Factor(column="age"), Factor(column="sex"), Factor(column="town", merge=[new])],
        [Factor(column="sex"), Factor(column="town")],
    ]
    terms = [Term(factors=own) for own in products]
    features = [feature.column for feature in expand(model.features, terms)]
    weights = np.random.default_rng(6).normal(size=sum(column.code_count for column in features)).tolist()
    update = {"features": features, "inputs": model.features, "terms": terms, "coefficients": weights}
    return model.model_copy(update=update)


@pytest.mark.slow
def test_a_model_with_terms_is_exported_to_scikit_learn() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: its copy of a model is not tried")
    model = _with_terms()
    _assert_close(model.to_sklearn().predict(ROWS), model.predict(ROWS))


@pytest.mark.slow
def test_onnxruntime_computes_the_terms_of_a_model() -> None:
    reason = "onnxruntime is not installed: a model as a graph is not tried"
    runtime, onnx = (pytest.importorskip(name, reason=reason) for name in ("onnxruntime", "onnx"))
    model, rows = _with_terms(), columns(ROWS)
    target = model.target.model_copy(update={"lower": -1e6, "upper": 1e6})
    wide = model.model_copy(update={"target": target})
    kinds: dict[str, Any] = {"number": np.float64, "category": object}
    inputs_of_graph = {c.name: np.array(rows[c.name], kinds[c.type]).reshape(-1, 1) for c in model.row_columns}
    for own in (model, wide):
        graph = own.to_onnx()
        onnx.checker.check_model(onnx.load_model_from_string(graph), full_check=True)
        [predictions] = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"]).run(
            ["prediction"], inputs_of_graph
        )
        _assert_close(predictions, own.predict(ROWS))
    assert len(set(np.round(predictions, 3))) > len(ROWS) / 2


def _uncertain() -> Model:
    """A model in which no released number tells "f", the missing sex and "c" from categories without rows."""
    shares = [0.1, 0.2, 0.019, 0.9, -0.01, 0.5, 0.3, 0.0, 0.2]
    return _model("identity").model_copy(update={"means": EncodedMeans(values=shares, noise_std=0.01)})


def test_categories_without_released_support_are_named_and_warned_of_once() -> None:
    model = _uncertain()
    assert model.unsupported_categories == {"sex": ["f", "(other)"], "town": ["c"]}
    assert _model("identity").unsupported_categories == {}
    assert "in sex, town" in model.summary()
    with pytest.warns(UnsupportedCategory, match="sex, town") as warned:
        model.predict(ROWS)
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict([{"age": 25.0, "stays": 0.0, "sex": "m", "town": "a"}])


def test_predictions_of_a_number_lie_in_its_declared_range() -> None:
    steep = _model("identity").model_copy(update={"intercept": 50.0})
    assert steep.predict(ROWS).tolist() == [35.0] * len(ROWS)
    assert steep.model_copy(update={"intercept": -50.0}).predict(ROWS).tolist() == [-10.0] * len(ROWS)


@pytest.mark.parametrize("link", ["logistic", "identity", "softmax"])
def test_coefficients_in_units_make_the_same_margin(link: str) -> None:
    model = _model(link)
    value: dict[str, Any] = {"age": 13.0, "stays": 4.0, "sex": "m", "town": "b"}
    in_units = model.coefficients_in_units
    margins: list[Any] = [in_units[name] for name in model.classes or ()] if link == "softmax" else [in_units]
    terms = {"age": 13.0, "stays": 4.0, "sex = m": 1.0, "town = b": 1.0, "intercept": 1.0}
    sums = [sum(margin[term] * x for term, x in terms.items()) for margin in margins]
    expected = margins_of(model, [value])[0]
    middle, half = (12.5, 22.5) if link == "identity" else (0.0, 1.0)
    assert sums == pytest.approx(middle + half * expected, rel=1e-12)


def test_a_wide_model_prints_its_largest_coefficients() -> None:
    categories = [f"c{i}" for i in range(4000)]
    wide = {"name": "town", "type": "category", "categories": categories}
    weights = [0.001] * 4001
    weights[17], weights[3999] = 5.0, -7.0
    fields = _model("logistic").model_dump() | {"features": [wide], "coefficients": weights}
    model = Model.model_validate(fields)
    assert len(model.named) == 4002
    for text in (str(model), repr(model.named), repr(model.coefficients_in_units)):
        assert "and 3,991 more" in text
        assert "c17" in text
        assert "c3999" in text
        assert len(text) < 2000
    html = model._repr_html_()
    assert "and 3,982 more" in html
    assert len(html) < 5000
    pytest.importorskip("pandas", reason="pandas is not installed: a model's frame is not tried")
    frame = model.to_frame()
    assert list(frame.columns) == ["input", "encoded", "per unit of the file"]
    assert len(frame) == 4002


def test_html_escapes_declared_names() -> None:
    column = {"name": "<b>", "type": "number", "lower": 0.0, "upper": 1.0}
    model = Model.model_validate(_model("logistic").model_dump() | {"features": [column], "coefficients": [1.0]})
    assert "<b>" not in model._repr_html_()
    assert "&lt;b&gt;" in model._repr_html_()


def _assert_close(predictions: NDArray[Any], ours: NDArray[Any]) -> None:
    """Compare to 1e-12: both are sums of nine products of order 1, then a function of slope at most 45."""
    assert predictions.shape == ours.shape
    if ours.dtype.kind == "f":
        assert predictions == pytest.approx(ours, rel=1e-12, abs=1e-12)
    else:
        assert predictions.tolist() == ours.tolist()
