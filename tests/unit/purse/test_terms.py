"""Columns of terms: names, declared bounds and codes, row by row."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from purse.errors import DesignError
from purse.number_functions import Codes
from purse.prediction import encode
from purse.terms import MAX_NUMBERS, Feature, expand
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.terms import Factor, Term

AGE = NumberColumn(name="age", type="number", lower=17, upper=90)
DOSE = NumberColumn(name="dose", type="number", lower=-3, upper=5, origin=0, scale=4)
WARD = CategoryColumn(name="ward", type="category", categories=["A", "B", "C"])
SEX = CategoryColumn(name="sex", type="category", categories=["M", "F"], default="F")
COLUMNS: list[Column] = [AGE, DOSE, WARD, SEX]
ROWS: dict[str, list[object]] = {
    "age": [17, 90, 50, None, float("nan"), float("inf"), -1e300],
    "dose": [0, 5, -3, 1e-320, None, 4, float("-inf")],  # 5 is beyond the scale, and becomes 4
    "ward": ["A", "B", "C", None, "Z", "C", "B"],
    "sex": ["M", "F", "F", None, "X", "M", "F"],
}


def term(*factors: str | dict[str, Any]) -> Term:
    return Term(factors=[Factor(column=f) if isinstance(f, str) else Factor.model_validate(f) for f in factors])


def power(column: str, power: int = 2, **settings: float) -> dict[str, Any]:
    return {"column": column, "power": power} | settings


def merged(*categories: str) -> dict[str, Any]:
    return {"column": "ward", "merge": [{"level": "x", "categories": list(categories)}]}


def codes_of(rows: Mapping[str, list[object]] = ROWS) -> Codes:
    return {column.name: encode(column, rows[column.name]) for column in COLUMNS}


def values(feature: Feature, rows: Mapping[str, list[object]] = ROWS) -> list[object]:
    """The values of a feature: numbers, or levels with None for "other"."""
    codes = feature.codes(codes_of(rows))
    if isinstance(feature.column, NumberColumn):
        middle, half = feature.column.middle_and_half
        return [pytest.approx(value, abs=1e-9) for value in middle + half * codes]
    return [[*feature.column.categories, None][int(code)] for code in codes]


ALL_TERMS = [
    term("age"),
    term("ward"),
    term("sex"),
    term(power("age", center=50)),
    term(power("age", 3, center=50, scale=10)),
    term("age", "dose"),
    term("age", "ward"),
    term("ward", "sex"),
    term("age", "dose", "sex"),
    term({"column": "age", "knots": [30.0, 60.0]}, "ward"),
    term({"column": "dose", "knots": [], "degree": 2}),
]


def test_a_term_of_one_column_is_that_column() -> None:
    for column, feature in zip(COLUMNS, expand(COLUMNS, [term(c.name) for c in COLUMNS]), strict=True):
        assert feature.column == column
        assert np.array_equal(feature.codes(codes_of()), codes_of()[column.name])


@pytest.mark.parametrize(
    ("factors", "name", "bounds", "expected"),
    [
        ([power("age")], "age^2", (289, 8100), [289, 8100, 2500, 53.5**2, 53.5**2, 53.5**2, 289]),
        ([power("age", center=50.0)], "(age - 50)^2", (0, 1600), [1089, 1600, 0, 12.25, 12.25, 12.25, 1089]),
        ([power("dose", 3, center=-1.0)], "(dose + 1)^3", (-8, 125), [1, 125, -8, 1, 8, 125, 8]),
        ([power("dose", 1, scale=2.0)], "(dose / 2)", (-1.5, 2), [0, 2, -1.5, 0, 0.5, 2, 0.5]),
        (["age", "dose"], "age:dose", (-270, 360), [0, 360, -150, 0, 53.5, 214, 17]),
    ],
    ids=str,
)
def test_bounds_of_powers_and_products_follow_from_those_of_columns(
    factors: list[Any], name: str, bounds: tuple[float, float], expected: list[float]
) -> None:
    (feature,) = expand(COLUMNS, [term(*factors)])
    assert isinstance(feature.column, NumberColumn)
    assert feature.column.name == name
    assert (feature.column.lower, feature.column.upper) == pytest.approx(bounds)
    assert values(feature) == expected


def test_an_interaction_without_its_columns_has_a_level_for_each_combination() -> None:
    (feature,) = expand(COLUMNS, [term("ward", "sex")])
    assert isinstance(feature.column, CategoryColumn)
    assert feature.column.name == "ward:sex"
    assert feature.column.categories == ["A:M", "A:F", "B:M", "B:F", "C:M", "C:F"]
    assert values(feature) == ["A:M", "B:F", "C:F", None, None, "C:M", "B:F"]


def test_an_interaction_beside_its_columns_compares_levels_with_the_references() -> None:
    *_, feature = expand(COLUMNS, [term("ward"), term("sex"), term("ward", "sex")])
    assert isinstance(feature.column, CategoryColumn)
    assert feature.column.categories == ["(reference)", "B:F", "C:F"]
    assert values(feature) == ["(reference)", "B:F", "C:F", None, None, "(reference)", "B:F"]
    *_, feature = expand(COLUMNS, [term("ward"), term("ward", "sex")])
    assert isinstance(feature.column, CategoryColumn)
    assert feature.column.categories == ["(reference)", "A:F", "B:F", "C:F"]


def test_a_number_and_a_category_make_one_number_for_each_level() -> None:
    whole = expand(COLUMNS, [term("age", "sex")])
    assert [feature.column.name for feature in whole] == ["age:sex=M", "age:sex=F"]
    age, only = expand(COLUMNS, [term("age"), term("age", "sex")])
    assert (age.column.name, only.column.name) == ("age", "age:sex=F")
    assert isinstance(only.column, NumberColumn)
    assert (only.column.lower, only.column.upper, only.column.origin) == (0, 90, 0)
    assert values(only) == [0, 90, 50, 53.5, 53.5, 0, 17]


def test_levels_are_merged_and_the_reference_comes_first() -> None:
    factor = {"column": "ward", "merge": [{"level": "rest", "categories": ["A", "C"]}], "reference": "B"}
    (feature,) = expand(COLUMNS, [term(factor)])
    assert isinstance(feature.column, CategoryColumn)
    assert (feature.column.name, feature.column.categories) == ("ward", ["B", "rest"])
    assert values(feature) == ["rest", "B", "rest", None, None, "rest", "B"]


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_splines_are_those_of_scipy(degree: int) -> None:
    x = np.array([17, 20, 30, 31.7, 59, 60, 89, 90.0])
    places = np.array([*[17.0] * (degree + 1), 30, 60, *[90.0] * (degree + 1)])
    features = expand(COLUMNS, [term({"column": "age", "knots": [30.0, 60.0], "degree": degree})])
    assert [feature.column.name for feature in features] == [f"bs(age)[{i}]" for i in range(1, degree + 3)]
    own = np.column_stack([feature.codes({"age": encode(AGE, x)}) for feature in features])
    expected = BSpline.design_matrix(x, places, degree).toarray()[:, 1:]
    assert own == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ([term("weight")], "terms.0.factors.0.column"),
        ([term("age"), term("age")], "terms"),
        ([term("age", power("age"))], "terms.0.factors"),
        ([term({"column": "age", "merge": [{"level": "x", "categories": ["A"]}]})], "terms.0.factors.0"),
        ([term(power("ward"))], "terms.0.factors.0"),
        ([term(merged("A", "A"))], "terms.0.factors.0.merge"),
        ([term(merged("Z"))], "terms.0.factors.0.merge"),
        ([term(merged("A") | {"reference": "A"})], "terms.0.factors.0.reference"),
        ([term({"column": "age", "knots": [30.0, 30.0]})], "terms.0.factors.0.knots"),
        ([term({"column": "age", "knots": [17.0]})], "terms.0.factors.0.knots"),
        ([term({"column": "dose", "knots": [0.0, 1e-308]})], "terms.0.factors.0.knots"),
        ([term({"column": "age", "knots": [float(k)]}, "sex") for k in range(18, 50)], "terms"),
        ([term({"column": "age", "knots": [30.0]}, "many", "ward")], "terms.0"),
        ([term("wide", "many", "ward")], "terms"),
        ([term(power("age", 3, scale=1e-50))], "terms.0"),
        ([term(power("huge", scale=1e-50))], "terms.0.factors.0"),
        ([term(power("huge", 1, scale=1e-50), power("dose", 6, scale=1e-50), "age")], "terms.0"),
        ([term("one", "sex"), term("one"), term("sex")], "terms.0"),
    ],
    ids=[
        "unknown", "twice", "power of itself", "merged number", "power of a category", "merged twice",
        "merged unknown", "reference that was merged", "equal knots", "knot at a bound", "knots too close",
        "same names",
        "too many numbers", "too many combinations", "too large", "infinite", "infinite product", "nothing left",
    ],
)  # fmt: skip
def test_terms_that_do_not_fit_the_declaration_are_refused(terms: list[Term], field: str) -> None:
    many = CategoryColumn(name="many", type="category", categories=[f"c{i}" for i in range(MAX_NUMBERS // 3)])
    wide = CategoryColumn(name="wide", type="category", categories=[f"w{i}" for i in range(300)])
    constant = CategoryColumn(name="one", type="category", categories=["only"])
    huge = NumberColumn(name="huge", type="number", lower=-1e150, upper=1e150)
    with pytest.raises(DesignError) as raised:
        expand([*COLUMNS, many, wide, constant, huge], terms)
    assert raised.value.field == field


number = st.floats(allow_nan=True, allow_infinity=True) | st.none() | st.sampled_from([17, 90, 50, 0, -3, 5, 5e-324])
rows = st.lists(
    st.tuples(number, number, st.sampled_from(["A", "B", "C", "Z", None]), st.sampled_from(["M", "F", "", None])),
    min_size=1,
    max_size=6,
)


def as_columns(drawn: list[tuple[object, ...]]) -> dict[str, list[object]]:
    return {name: list(own) for name, own in zip(("age", "dose", "ward", "sex"), zip(*drawn, strict=True), strict=True)}


@given(rows)
def test_every_code_lies_in_the_range_that_its_column_declares(drawn: list[tuple[object, ...]]) -> None:
    for feature in expand(COLUMNS, ALL_TERMS):
        codes = feature.codes(codes_of(as_columns(drawn)))
        if isinstance(feature.column, NumberColumn):
            low, high = feature.column.code_range
            assert (low <= codes).all()
            assert (codes <= high).all()
        else:
            assert set(codes.tolist()) <= set(range(len(feature.column.categories) + 1))


@settings(max_examples=25)
@given(rows)
def test_codes_of_a_row_do_not_depend_on_other_rows(drawn: list[tuple[object, ...]]) -> None:
    features = expand(COLUMNS, ALL_TERMS)
    together = [feature.codes(codes_of(as_columns(drawn))) for feature in features]
    for index, row in enumerate(drawn):
        alone = [feature.codes(codes_of(as_columns([row])))[0] for feature in features]
        assert [codes[index] for codes in together] == alone


SIZES = [1e-90, 1e-30, 1.0, 1e12, 1e25, 1e90]
CODES = [0.0, 2.0**-126, 2.0**-100, 2.0**-91, 1e-15, 1e-3, 0.3, 1.0]


@st.composite
def numeric_factors(draw: st.DrawFn, name: str) -> tuple[NumberColumn, dict[str, Any]]:
    """A column and a factor of it, of any size."""
    size = draw(st.sampled_from(SIZES))
    lower = draw(st.sampled_from([-1.0, 0.0, 1e-52])) * size
    origin = draw(st.sampled_from([None, lower, size]))
    column = NumberColumn(name=name, type="number", lower=lower, upper=size, origin=origin)
    if draw(st.booleans()):
        knots = draw(st.sampled_from([[], [0.5], [0.5, 0.5 + 1e-5], [1e-308, 2e-308], [1e-320, 0.5]]))
        return column, {"column": name, "knots": [knot * size for knot in knots], "degree": draw(st.integers(1, 3))}
    center, scale = draw(st.sampled_from([0.0, lower, size / 2])), draw(st.sampled_from([1.0, size, size * 1e-8]))
    limited = {"center": float(np.clip(center, -1e50, 1e50)), "scale": float(np.clip(scale, 1e-50, 1e50))}
    return column, power(name, draw(st.integers(1, 6)), **limited)


@settings(max_examples=100)
@given(numeric_factors("a"), numeric_factors("b"), st.booleans())
def test_no_feature_overflows_or_is_subnormal(
    a: tuple[NumberColumn, dict[str, Any]], b: tuple[NumberColumn, dict[str, Any]], is_single: bool
) -> None:
    """A feature that is not a number, and a subnormal number, would let the time of a job depend on a record."""
    drawn = [a] if is_single else [a, b]
    try:
        features = expand([column for column, _ in drawn], [term(*(factor for _, factor in drawn))])
    except DesignError:
        return
    signed = np.array([*CODES, *(-code for code in CODES)])
    pairs = np.array(list(itertools.product(signed, signed)))
    codes = {column.name: np.clip(own, *column.code_range) for (column, _), own in zip(drawn, pairs.T, strict=False)}
    with np.errstate(all="raise"):
        for feature in features:
            own = feature.codes(codes)
            assert isinstance(feature.column, NumberColumn)
            ends = np.array([*own, feature.column.lower, feature.column.upper])
            assert np.isfinite(ends).all()
            assert ((ends == 0) | (np.abs(ends) >= np.finfo(float).smallest_normal)).all()


def test_names_of_combinations_of_levels_are_limited() -> None:
    columns = [
        CategoryColumn(name=name, type="category", categories=[f"{i}" for i in range(levels)])
        for name, levels in {"a": 45, "b": 45, "c": 20, "d": 20, "e": 50}.items()
    ]

    def long(*names: str) -> Term:
        """An interaction whose levels have names of about 480 characters."""
        levels = {column.name: column.categories for column in columns}
        own = [[{"level": level + "x" * 240, "categories": [level]} for level in levels[name]] for name in names]
        return term(*({"column": name, "merge": merge} for name, merge in zip(names, own, strict=True)))

    assert len(expand(columns, [long("a", "b"), term("e")])) == 2
    for terms, field in (([long("a", "e")], "terms.0"), ([long("a", "b"), long("c", "d")], "terms.1")):
        with pytest.raises(DesignError) as raised:
            expand(columns, terms)
        assert raised.value.field == field


def test_damaged_codes_raise_no_error_and_reach_no_other_row() -> None:
    damaged = {
        "age": np.array([np.nan, np.inf, -np.inf, 7.0, 0.0]),
        "dose": np.array([np.nan, np.inf, 1e308, -9.0, 0.0]),
        "ward": np.array([np.nan, np.inf, -1.0, 255.0, 1.0]),
        "sex": np.array([np.nan, 1e18, -5.0, 2.0, 1.0]),
    }
    whole = {name: own[-1:] for name, own in damaged.items()}
    with np.errstate(all="ignore"):
        for feature in expand(COLUMNS, ALL_TERMS[3:]):
            codes = feature.codes(damaged)
            assert codes[-1] == feature.codes(whole)[0]
            if isinstance(feature.column, NumberColumn):
                low, high = feature.column.code_range
                assert (np.isnan(codes) | ((low <= codes) & (codes <= high))).all()
                assert np.isnan(codes[0])
            else:
                assert (codes[:4] == len(feature.column.categories)).all()
