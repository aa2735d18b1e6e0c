"""The code of a value depends on the value and the declaration alone."""

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sources import encoding
from app.sources.batch import locate
from app.sources.encoding import Encoder, NumberEncoder, encoder
from app.sources.errors import Mismatch
from purse.prediction import encode
from purse.wire.columns import CategoryColumn, Column, NumberColumn


def number(lower: float = 0.0, upper: float = 10.0, default: float | None = None, name: str = "x") -> NumberColumn:
    return NumberColumn(name=name, type="number", lower=lower, upper=upper, default=default)


def category(*categories: str, default: str | None = None, name: str = "c") -> CategoryColumn:
    return CategoryColumn(name=name, type="category", categories=list(categories), default=default)


def codes(column_encoder: Encoder, values: Any, kind: pa.DataType | None = None) -> list[float]:
    return column_encoder.read(pa.array(values, kind))[0].tolist()


X = encoder(number())
C = encoder(category("red", "dark blue", "7"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0", -1.0),
        ("10", 1.0),
        ("5", 0.0),
        ("2.5", -0.5),
        ("7.5e0", 0.5),
        ("+75E-1", 0.5),
        (".5", -0.9),
        ("5.", 0.0),
        (" \t5\r\n", 0.0),
        ("-3", -1.0),
        ("1e308", 1.0),
        ("-1e308", -1.0),
        ("1e-400", -1.0),
        ("0" * 400 + "5", 0.0),
    ],
)
def test_a_number_in_text_is_clamped_and_scaled(text: str, code: float) -> None:
    assert codes(X, [text]) == [code]


@pytest.mark.parametrize(
    ("coding", "value", "code"),
    [
        ({"origin": 0.0}, "0", 0.0),
        ({"origin": 0.0}, "10", 1.0),
        ({"origin": 0.0}, "2.5", 0.25),
        ({"origin": 4.0}, "10", 1.0),
        ({"origin": 4.0}, "0", -4 / 6),
        ({"origin": 0.0, "scale": 4.0}, "2", 0.5),
        ({"origin": 0.0, "scale": 4.0}, "9", 1.0),
        ({"origin": 0.0, "scale": 40.0}, "99", 0.25),
        ({"origin": 0.0}, "", 0.5),
        ({"origin": 0.0, "default": 1.0}, "", 0.1),
    ],
)
def test_a_number_with_an_origin_is_coded_from_there(coding: dict[str, Any], value: str, code: float) -> None:
    column = NumberColumn(name="x", type="number", lower=0.0, upper=10.0, **coding)
    assert codes(encoder(column), [value]) == [code]
    low, high = column.code_range
    assert low <= code <= high
    assert codes(encoder(column), ["-1e308", "1e308"]) == [low, high]


@pytest.mark.parametrize(("value", "code"), [(5e-324, 0.0), (-1e-310, 0.0), (1e-91, 0.0), (1e-90, 1e-90), (-1.0, -1.0)])
def test_very_small_codes_become_0(value: float, code: float) -> None:
    """Products with subnormal numbers are slow: such a record once took twenty times as long as others."""
    column = NumberColumn(name="x", type="number", lower=-1.0, upper=1.0, origin=0.0)
    assert codes(encoder(column), [repr(value)]) == encode(column, [value]).tolist() == [code]


def test_an_origin_outside_the_bounds_or_a_scale_without_one_is_refused() -> None:
    wrongs: list[dict[str, Any]] = [{"origin": -1.0}, {"origin": 11.0}, {"scale": 2.0}, {"origin": 1.0, "scale": 0.0}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"origin|scale"):
            NumberColumn(name="x", type="number", lower=0.0, upper=10.0, **wrong)


def test_a_new_column_of_zeros_and_ones_is_coded_from_its_lower_end() -> None:
    settled = [number(*ends).settled() for ends in ((0.0, 1.0), (4.0, 5.0), (0.0, 2.0), (0.5, 1.5), (-1.0, 1.0))]
    assert [column.coding for column in settled] == [(0.0, 1.0), (4.0, 1.0), None, None, None]
    assert number(0.0, 1.0).code_range == (-1.0, 1.0)  # the coding of older datasets
    older = NumberColumn(name="x", type="number", lower=0.0, upper=1.0, origin=0.5)
    assert older.settled() == older


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "nan", "NaN", "+nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1.8e308", "0x10", "1_0", "1,5"),
        *("1 2", "--1", "+-1", "1e", "e1", ".", "-", "1e5.0", "1d5", "٣", "½", "1\0", "true", "NA", "null", "5\u00a0"),
        *("5%", "$5", "1e99999999999999999999", "Inf", "1f", "1L", "(5)", "5-"),
    ],
)
def test_text_that_is_not_a_finite_decimal_becomes_the_default(text: str) -> None:
    assert codes(X, [text]) == [0.0]
    assert codes(encoder(number(default=2.5)), [text]) == [-0.5]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["red", "dark blue", " red\t", "7", "Red", "", None, "green"], pa.string(), [0, 1, 0, 2, 3, 3, 3, 3]),
        ([7, 8, None], pa.int64(), [2, 3, 3]),
        ([7.0, 7.5, math.nan, math.inf], pa.float64(), [2, 3, 3, 3]),
        ([Decimal("7")], pa.decimal128(3, 0), [2]),
        ([None], pa.null(), [3]),
    ],
)
def test_a_category_is_its_position_and_other_comes_last(
    values: list[Any], kind: pa.DataType, expected: list[float]
) -> None:
    assert codes(C, values, kind) == expected


def test_the_default_of_a_category_replaces_other() -> None:
    assert codes(encoder(category("a", "b", default="b")), ["a", "b", "x", None]) == [0, 1, 1, 1]


def test_booleans_are_the_words_true_and_false() -> None:
    assert codes(encoder(category("false", "true")), [True, False, None], pa.bool_()) == [1, 0, 2]


def test_white_space_is_ignored_unless_it_was_declared() -> None:
    assert codes(encoder(category("a", " a")), ["a", " a", "a ", "  a"]) == [0, 1, 0, 0]


def test_infinity_in_words_is_a_category_like_any_other() -> None:
    assert codes(encoder(category("inf", "nan")), ["nan", "inf"]) == [1, 0]


_FLOATS = st.floats(-1e150, 1e150)
_BOUNDS = st.tuples(_FLOATS, _FLOATS).filter(lambda pair: pair[0] < pair[1])


@pytest.mark.slow
@given(_BOUNDS, st.lists(st.floats(), min_size=1, max_size=20))
def test_every_code_of_a_number_lies_in_the_unit_interval(bounds: tuple[float, float], values: list[float]) -> None:
    column_encoder = NumberEncoder(number(*bounds))
    encoded = column_encoder.read(pa.array(values))[0]
    assert np.all(np.abs(encoded) <= 1.0)
    assert column_encoder.read(pa.array(bounds))[0].tolist() == [-1.0, 1.0]
    finite = sorted(value for value in values if math.isfinite(value))
    assert np.all(np.diff(column_encoder.read(pa.array(finite, pa.float64()))[0]) >= 0)


@pytest.mark.parametrize("bounds", [(-1e150, 1e150), (0.0, 5e-324), (1e149, math.nextafter(1e149, math.inf))])
def test_extreme_bounds_neither_overflow_nor_leave_the_interval(bounds: tuple[float, float]) -> None:
    with np.errstate(all="raise", under="ignore"):
        assert codes(encoder(number(*bounds)), [*bounds, -1e308, 1e308]) == [-1.0, 1.0, -1.0, 1.0]


_NUMBERISH = st.text(st.sampled_from("0123456789+-.eE naif_x\t,"), max_size=12)


@pytest.mark.slow
@given(_NUMBERISH)
def test_text_is_read_as_the_grammar_and_correct_rounding_say(text: str) -> None:
    trimmed = text.strip(" \t")
    value = float(trimmed) if re.fullmatch(encoding.NUMBER_PATTERN, trimmed) else math.nan
    expected = encoder(number(-1e150, 1e150)).read(pa.array([value]))[0]
    assert encoder(number(-1e150, 1e150)).read(pa.array([text]))[0] == expected


def test_a_dictionary_may_hold_null_and_more_values_than_its_index_type_can_name_one_more_of() -> None:
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 127], pa.int8()), pa.array([*(str(i) for i in range(127)), None], pa.string())
    )
    assert X.read(values)[0].tolist() == [-1.0, 0.0, 0.0]


def test_columns_are_found_by_exact_name_first_and_by_trimmed_name_then() -> None:
    columns: list[Column] = [category("x", name="b"), number(name="a")]
    assert locate(["a", "b"], columns) == [1, 0]
    assert locate([" a", "b\t", "c"], columns) == [1, 0]
    assert locate(["a ", "a", "b"], columns) == [2, 1]


@pytest.mark.parametrize(
    ("names", "index", "message"),
    [(["a"], 0, "is not in"), (["b"], 1, "is not in"), (["a", "b", "a"], 1, "once"), (["a", "b ", " b"], 0, "once")],
)
def test_the_error_names_a_column_that_is_missing_or_repeated(names: list[str], index: int, message: str) -> None:
    with pytest.raises(Mismatch, match=message) as caught:
        locate(names, [category("x", name="b"), number(name="a")])
    assert caught.value.index == index
    assert repr("ba"[index]) in caught.value.detail


def test_one_column_of_the_file_serves_one_declaration() -> None:
    with pytest.raises(Mismatch, match="same column") as caught:
        locate([" a"], [number(name=" a"), number(name="a")])
    assert caught.value.index == 1


def test_categories_are_distinct_and_a_default_is_one_of_them() -> None:
    assert category("a", "b", default="b").default == "b"
    with pytest.raises(ValueError, match="default"):
        category("a", "b", default="c")
    with pytest.raises(ValueError, match="must be distinct"):
        category("a", "b", "a")
