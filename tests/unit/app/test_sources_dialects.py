"""A file in any dialect says what it says in the default one; every refusal names its line."""

import csv
import datetime as dt
import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sources import csv as records
from app.sources import dates
from app.sources.encoding import Fate, encoder
from app.sources.errors import TooLarge, Unparsed, Unreadable
from app.sources.ingest import Reading, encoded
from purse.dates import numbers, part
from purse.frames import as_csv
from purse.prediction import encode
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from purse.wire.files import Dialect, FileReport

X = NumberColumn(name="x", type="number", lower=-10.0, upper=10.0)
COLUMNS: list[Column] = [X, CategoryColumn(name="c", type="category", categories=["red", "dört; büş", "say 'no'"])]


def read(file: Path, content: bytes, **dialect: Any) -> list[list[float]]:
    """The codes of a file's records."""
    file.write_bytes(content)
    blocks = encoded(file, Reading(COLUMNS, Dialect(**dialect)))
    return [row for block in blocks for row in block.tolist()]


EXPECTED = [[0.25, 1.0], [-1.0, 0.0], [0.0, 3.0]]


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ({"delimiter": ";"}, 'x;c\n2.5;"dört; büş"\n-10;red\n;\n'),
        ({"delimiter": "\t"}, "x\tc\n2.5\tdört; büş\n-10\tred\n\t\n"),
        ({"delimiter": "|", "quote": "'"}, "x|c\n2.5|'dört; büş'\n-10|'red'\n|''\n"),
        ({"delimiter": "^", "quote": ""}, 'x^c\n2.5^dört; büş\n-10^red\n"^\n'),
        ({"delimiter": "\\"}, "x\\c\n2.5\\dört; büş\n-10\\red\n\\\n"),
        ({"decimal": ","}, 'x,c\n"2,5",dört; büş\n-10,red\n2.5,blue\n'),
        ({"nulls": ["NA", "-99"]}, "x,c\n2.5,dört; büş\n-10, red\n -99 ,NA\n"),
    ],
)
def test_a_file_in_any_dialect_is_read_as_in_the_default_one(
    tmp_path: Path, dialect: dict[str, Any], text: str
) -> None:
    assert read(tmp_path / "file", text.encode(), **dialect) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-15", "gb18030"])
def test_a_file_is_decoded_before_it_is_parsed(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_BYTES", 31)
    text = "x,c\n2.5,dört; büş\n-10,red\n,\n".replace("ş", "ş" if encoding != "iso-8859-15" else "s")
    rows = read(tmp_path / "file", text.encode(encoding), encoding=encoding)
    assert rows == (EXPECTED if encoding != "iso-8859-15" else [[0.25, 3.0], *EXPECTED[1:]])


@pytest.mark.parametrize("text", ["x", "x,c\n2.5,red\n"])
def test_utf_16_without_a_byte_order_mark_is_refused(tmp_path: Path, text: str) -> None:
    """A file without the mark is refused like a file in another encoding."""
    with pytest.raises(Unreadable, match="UTF-16"):
        read(tmp_path / "file", text.encode("utf-16-le"), encoding="utf-16")


@pytest.mark.parametrize("pack", [gzip.compress, lambda text: pa.compress(text, "zstd", asbytes=True)])
def test_a_packed_file_is_unpacked_up_to_the_size_limit(tmp_path: Path, pack: Any) -> None:
    text = "x,c\n" + "2.5,dört; büş\n-10,red\n,\n" * 5000
    assert read(tmp_path / "file", pack(text.encode())) == EXPECTED * 5000
    reading = Reading(COLUMNS, most_bytes=len(text.encode()) - 1)
    with pytest.raises(TooLarge, match=f"decompresses to more than {len(text.encode()) - 1:,} bytes"):
        list(encoded(tmp_path / "file", reading))


@pytest.mark.parametrize(
    ("dialect", "text", "value"),
    [
        ({"decimal": ","}, "1,5", 1.5),
        ({"decimal": ","}, "1.5", None),
        ({"decimal": ","}, "1,5,2", None),
        ({"decimal": ","}, "-1,5e1", -15.0),
        ({"thousands": ","}, "1,234.5", 1234.5),
        ({"thousands": ","}, "12,34", None),
        ({"thousands": ","}, "1234", 1234.0),
        ({"thousands": ",", "decimal": "."}, "1,234,56", None),
        ({"thousands": ".", "decimal": ","}, "-1.234.567,89", -1234567.89),
        ({"thousands": ".", "decimal": ","}, "1.23", None),
        ({"thousands": ".", "decimal": ","}, "1.234,567.890", None),
        ({"thousands": ".", "decimal": ","}, "1.234", 1234.0),
        ({"thousands": "'"}, "1'000", 1000.0),
        ({"thousands": " ", "decimal": ","}, "1\u202f234\u00a0567,5", 1234567.5),
        ({"thousands": "_"}, "1_0", None),
        ({"thousands": ","}, "inf", None),
        ({"thousands": ","}, "1!5", None),
    ],
)
def test_a_number_is_written_as_declared_and_no_other_way(
    dialect: dict[str, Any], text: str, value: float | None
) -> None:
    column = NumberColumn(name="x", type="number", lower=-1e7, upper=1e7)
    [code], [fate] = encoder(column, Dialect(**dialect)).read(pa.array([text]))
    assert fate == (Fate.UNPARSED if value is None else Fate.PARSED)
    assert code == (0.0 if value is None else pytest.approx(value / 1e7, rel=1e-14))


_NUMBERISH = st.text(st.sampled_from("0123456789+-.,e '\u00a0"), max_size=10)
_DIALECTS = st.sampled_from(
    [
        Dialect(),
        Dialect(decimal=","),
        Dialect(thousands=","),
        Dialect(thousands=".", decimal=","),
        Dialect(nulls=["1", "-"]),
    ]
)


@pytest.mark.slow
@settings(max_examples=50)
@given(_DIALECTS, st.lists(st.none() | _NUMBERISH | st.dates().map(str), max_size=8))
def test_in_any_dialect_a_code_does_not_depend_on_other_values_and_equals_that_of_a_prediction(
    dialect: Dialect, values: list[str | None]
) -> None:
    day = X.model_copy(update={"date": "day"})
    for column in (X, COLUMNS[1], day):
        column_encoder = encoder(column, dialect)
        alone = [tuple(part[0] for part in column_encoder.read(pa.array([value], pa.string()))) for value in values]
        for company in (pa.array(values, pa.string()), pa.array(values, pa.string()).dictionary_encode()):
            assert list(zip(*column_encoder.read(company), strict=True)) == alone
        assert encode(column, values, dialect).tolist() == [code for code, _ in alone]


@pytest.mark.parametrize(
    ("form", "text", "moment"),
    [
        ("%Y-%m-%d", "2024-02-29", dt.datetime(2024, 2, 29)),
        ("%Y-%m-%d", "2023-02-29", None),
        ("%Y-%m-%d", "2024-2-9", dt.datetime(2024, 2, 9)),
        ("%Y-%m-%d", "24-02-09", None),
        ("%Y-%m-%d", "2024-02-09 10:00", None),
        ("%d.%m.%Y %H:%M", "31.12.1969 23:59", dt.datetime(1969, 12, 31, 23, 59)),
        ("%d.%m.%Y %H:%M", "31.12.1969 24:00", None),
        ("%Y%m%d", "20240229", dt.datetime(2024, 2, 29)),
        ("%Y%m%d", "2024229", None),
        ("%Y", "2024", dt.datetime(2024, 1, 1)),
        ("%Y-%m", "2024-13", None),
        ("%Y-%m-%dT%H:%M:%SZ", "2024-01-02T03:04:05.678Z", dt.datetime(2024, 1, 2, 3, 4, 5)),
        ("%Y.%m.%d", "2024x01x02", None),
        ("%Y-%m-%d", "٢٠٢٤-01-02", None),
    ],
)
def test_a_date_is_an_existing_day_in_the_declared_format(form: str, text: str, moment: dt.datetime | None) -> None:
    assert Dialect(date_format=form).date_format == form
    [parsed_time] = dates.parsed(pa.array([text]), form)
    assert np.isnat(parsed_time) if moment is None else parsed_time == np.datetime64(moment)
    [seconds] = numbers([text], form, "seconds")
    assert math.isnan(seconds) if moment is None else seconds == parsed_time.astype(np.int64)


@pytest.mark.slow
@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))
def test_parts_of_a_date_are_those_of_the_calendar(moment: dt.datetime) -> None:
    moment = moment.replace(microsecond=0)
    day = (moment.date() - dt.date(1970, 1, 1)).days
    expected = {
        "days": day,
        "seconds": 86400 * day + 3600 * moment.hour + 60 * moment.minute + moment.second,
        "year": moment.year,
        "month": moment.month,
        "day": moment.day,
        "weekday": moment.isoweekday(),
        "hour": moment.hour,
        "minute": moment.minute,
    }
    text = dates.parsed(pa.array([moment.isoformat(), "no"]), "%Y-%m-%dT%H:%M:%S")
    typed = pa.array([moment, None], pa.timestamp("s")).to_numpy(zero_copy_only=False)
    for part_name, value in expected.items():
        own_part = numbers([moment, None], "%Y", part_name)  # type: ignore[arg-type]
        for parts in (part(text, part_name), part(typed, part_name), own_part):  # type: ignore[arg-type]
            assert parts[0] == value
            assert math.isnan(parts[1])


def test_values_that_are_not_valid_times_are_missing() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: its NaT is not tried")
    east, west = (dt.timezone(dt.timedelta(hours=hours)) for hours in (3, -3))
    none = [
        pandas.NaT,
        np.datetime64("NaT"),
        dt.datetime.min.replace(tzinfo=east),
        dt.datetime.max.replace(tzinfo=west),
    ]
    last = dt.datetime(2019, 12, 31, 23, tzinfo=west)
    assert np.isnan(numbers(none, "%Y-%m-%d", "days")).all()
    assert numbers([*none, last], "%Y-%m-%d", "year")[-1] == 2020
    frame = pandas.DataFrame({"at": [none[2], last, none[3]], "x": [1, 2, 3]})
    assert as_csv(frame).read() == b"at,x\r\n,1\r\n2020-01-01T02:00:00,2\r\n,3\r\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"delimiter": '"'},
        {"delimiter": "a"},
        {"delimiter": ";;"},
        {"delimiter": "\n"},
        {"decimal": ",", "thousands": ","},
        {"encoding": "rot13"},
        {"date_format": "%d.%m"},
        {"date_format": "%Y %Y"},
        {"date_format": "%Y-%d"},
        {"date_format": "%y-%m-%d"},
        {"date_format": "%"},
    ],
)
def test_a_contradictory_dialect_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Dialect(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"targets": ["z"]}, "must name declared columns"),
        ({"max_unparsed": {"z": 0.5}}, "must name declared columns"),
        ({"max_clamped": {"z": 0.5}}, "must name declared number columns"),
        ({"max_clamped": {"c": 0.5}}, "must name declared number columns"),
        ({"dialect": {"nulls": ["red"]}}, "must not be one of the dialect"),
        ({"unit": {"column": "who", "max_rows": 2}}, "must not be stored"),
    ],
)
def test_a_spec_whose_file_options_do_not_fit_its_columns_is_refused(wrong: dict[str, Any], message: str) -> None:
    columns = [X.model_copy(update={"source": "who"}), COLUMNS[1]]
    fields: dict[str, Any] = {"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}}
    with pytest.raises(ValueError, match=message):
        DatasetSpec.model_validate(fields | wrong)


@pytest.mark.parametrize(
    ("bound", "dialect", "message"),
    [
        (
            "100.000",
            {"decimal": ",", "thousands": "."},
            r"columns.0.number.upper\s+is ambiguous: .* 100000 in",
        ),
        ("1,000", {"thousands": ","}, r"columns.0.number.upper\s+must be a number, not text. Write 1000 as"),
        ("12,5", {"decimal": ","}, r"columns.0.number.upper\s+must be a number, not text. Write 12.5 as"),
        ("12.5", {}, r"columns.0.number.upper\s+must be a number, not text. Write 12.5 as"),
    ],
)
def test_a_bound_written_as_text_is_refused_with_its_readings(
    bound: str, dialect: dict[str, Any], message: str
) -> None:
    columns = [{"name": "x", "type": "number", "lower": 0, "upper": bound}]
    fields: dict[str, Any] = {"name": "d", "columns": columns, "budget": {"epsilon": 1.0, "delta": 1e-6}}
    with pytest.raises(ValueError, match=message) as refused:
        DatasetSpec.model_validate(fields | {"dialect": dialect, "budget": {"epsilon": "2,5", "delta": 1e-6}})
    assert "budget.epsilon" in str(refused.value)


@pytest.mark.parametrize(
    ("stored", "date_format", "written", "iso"),
    [
        ("days", "%d.%m.%Y", "31.01.2021", "2021-01-31"),
        ("days", "%Y-%m-%d", "2021-1-31", "2021-01-31"),
        ("seconds", "%d.%m.%Y %H:%M", "31.01.2021 12:30", "2021-01-31T12:30:00"),
    ],
)
def test_a_bound_in_the_files_date_format_is_refused_with_its_iso_date(
    stored: str, date_format: str, written: str, iso: str
) -> None:
    column = {"name": "day", "type": "number", "lower": written, "upper": written, "date": stored}
    fields: dict[str, Any] = {"name": "d", "columns": [column], "budget": {"epsilon": 1.0, "delta": 1e-6}}
    with pytest.raises(ValueError, match="2 validation errors") as refused:
        DatasetSpec.model_validate(fields | {"dialect": {"date_format": date_format}})
    assert str(refused.value).count(f"must be a number or an ISO date. Write {iso} [") == 2
    column |= {"lower": iso, "upper": "2022-01-31"}
    assert DatasetSpec.model_validate(fields | {"dialect": {"date_format": date_format}}).columns[0].name == "day"


def test_a_category_that_is_written_as_a_number_may_be_the_default() -> None:
    column = {"name": "coinsurance", "type": "category", "categories": ["0", "25"], "default": "0"}
    spec = DatasetSpec.model_validate({"name": "d", "columns": [column], "budget": {"epsilon": 1.0, "delta": 1e-6}})
    assert spec.columns == [CategoryColumn.model_validate(column)]


@pytest.mark.parametrize(
    ("date", "text", "number"),
    [
        ("days", "2020-01-01", 18262),
        ("days", "0001-01-01", -719_162),
        ("days", "9999-12-31", 2_932_896),
        ("seconds", "1970-01-02", 86_400),
        ("seconds", "2020-02-29T12:30", 1_582_979_400),
        ("seconds", "1969-12-31T23:59:59", -1),
    ],
)
def test_a_bound_given_as_a_date_is_the_number_of_that_date(date: str, text: str, number: int) -> None:
    """The column equals the one declared by the number, and a value of that date is read as the number."""
    declared = {"name": "x", "type": "number", "lower": -1e6 * 86_400, "upper": 1e7 * 86_400, "date": date}
    ends = ("lower", "upper", "default", "origin")
    for end in ends:
        columns = [
            NumberColumn.model_validate_json(json.dumps(declared | {end: v}), strict=True) for v in (text, number)
        ]
        assert columns[0].model_dump_json() == columns[1].model_dump_json()
        assert getattr(columns[0], end) == number
    form = "%Y-%m-%d" + ("T%H:%M:%S" if text.count(":") == 2 else "T%H:%M" if "T" in text else "")
    assert dates.read([text], form, columns[0].date or "days").tolist() == [number]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"date": "days", "lower": "2020-13-01"}, "lower must be a number or an ISO date"),
        ({"date": "days", "upper": "18262"}, "upper must be a number or an ISO date"),
        ({"date": "days", "lower": "2020-W01-1"}, "lower must be a number or an ISO date"),
        ({"date": "seconds", "lower": "2020-01-01T00:00+01:00"}, "lower must be a number or an ISO date"),
        ({"date": "days", "default": "2020-01-01T12:00"}, "default must be a date without a time"),
        (
            {"date": "year", "lower": "2020-01-01"},
            "lower must be a number. It may be a date only if `date` is days or seconds",
        ),
        ({"lower": "2020-01-01"}, "lower must be a number. It may be a date only"),
        ({"date": "days", "lower": "2021-01-01", "upper": "2020-01-01"}, "lower must be below upper"),
    ],
)
def test_a_bound_that_is_not_a_date_is_refused(fields: dict[str, Any], message: str) -> None:
    declared = {"name": "x", "type": "number", "lower": 0, "upper": 20_000} | fields
    with pytest.raises(ValueError, match=message):
        NumberColumn.model_validate_json(json.dumps(declared), strict=True)


def test_columns_that_say_nothing_of_their_file_are_written_as_they_ever_were() -> None:
    """Digests of specs, models and stored columns of earlier versions stand."""
    assert set(X.model_dump()) == {"name", "type", "lower", "upper", "default", "origin", "scale"}
    assert set(COLUMNS[1].model_dump()) == {"name", "type", "categories", "default"}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'x;c\n1;red\n\n"2\n";red\n3\n', 6),
        ("x;c\r\n1;red\r\n\r\n2;gr\u00fcn\r\n".encode("utf-8")[:-4] + b"\x81\r\n", 4),
        (b"x;c\r1;red\r2;\0\r", 3),
        (b'x;c\n1;red\n2;"red\n3;red\n', 3),
    ],
)
@pytest.mark.parametrize("size", [64, 2**20])
def test_errors_of_a_file_name_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, line: int, size: int
) -> None:
    encoding = "windows-1252" if b"\x81" in content else "utf-8"
    monkeypatch.setattr(records, "BLOCK_BYTES", size)
    with pytest.raises(Unreadable, match=rf"[Ll]ine {line} "):
        read(tmp_path / "file", content, delimiter=";", encoding=encoding)


def counted(file: Path, content: str | None, **fields: Any) -> FileReport:
    """Return the report of a file with this content, or of the file as it is."""
    if content is not None:
        file.write_text(content)
    budget = {"epsilon": 1.0, "delta": 1e-6}
    spec = DatasetSpec.model_validate({"name": "d", "columns": COLUMNS, "budget": budget, "max_unparsed": 1.0} | fields)
    reading, tally = Reading.of(spec)
    for _ in encoded(file, reading):
        pass
    return tally.report


@pytest.mark.parametrize(
    ("limit", "is_refused"), [(None, False), (0.5, False), (0.4, True), ({"x": 0.4}, True), ({}, False), (0, True)]
)
def test_too_many_clamped_values_refuse_the_file(tmp_path: Path, limit: object, is_refused: bool) -> None:
    content = "x,c\n11,red\n12,red\n1,red\n1,red\n,red\n"
    if not is_refused:
        assert counted(tmp_path / "file", content, max_clamped=limit).columns[0].clamped == 0.5
        return
    with pytest.raises(Unparsed) as refusal:
        counted(tmp_path / "file", content, max_clamped=limit)
    assert [column.name for column in refusal.value.report.refused] == ["x"]
    assert all(part in refusal.value.detail for part in ("50 %", "'x'", "line 2"))


@pytest.mark.parametrize(
    ("name", "is_suspect"),
    [("PatientenID", True), ("patient_id", True), ("USERID", True), ("ssn", True), ("user id", True), ("paid", False)],
)
def test_a_header_like_a_persons_identifier_is_reported_unless_persons_are_protected(
    tmp_path: Path, name: str, is_suspect: bool
) -> None:
    content = f"x,c,{name}\n1,red,4711\n"
    warnings = counted(tmp_path / "file", content).warnings
    assert [repr(name) in warning for warning in warnings] == [True] * is_suspect
    assert not any("4711" in warning for warning in warnings)
    assert not counted(tmp_path / "file", content, unit={"column": name, "max_rows": 2}).warnings
    pq.write_table(pa.table({"x": [1.0], "c": ["red"], name: ["4711"]}), tmp_path / "file")
    assert counted(tmp_path / "file", None).warnings == warnings


def test_each_value_has_one_fate(tmp_path: Path) -> None:
    rows = ["1,red", "11,red", '"-1e9","say \'no\'"', " ,", "nan,blue", "1e999,Red", '"two', 'lines",red', "-10,\u00a0"]
    report = counted(tmp_path / "file", "x,c\n" + "\n".join(rows) + "\n")
    assert report.records == 8
    x, c = report.columns
    assert (x.parsed, c.parsed) == (2, 4)
    assert [(o.what, o.count, o.line, o.examples) for o in x.outcomes] == [
        ("clamped", 2, 3, ["11", "-1e9"]),
        ("missing", 1, 5, []),
        ("not_a_number", 3, 6, ["nan", "1e999", "two\nlines"]),
    ]
    assert [(o.what, o.count, o.line, o.examples) for o in c.outcomes] == [
        ("missing", 1, 5, []),
        ("not_declared", 3, 6, ["blue", "Red", "\u00a0"]),
    ]
    assert (x.unparsed, c.unparsed) == (3 / 7, 3 / 7)


@pytest.mark.parametrize(
    ("values", "cure"),
    [
        (["Red", "RED"], "Declare these categories, or write red instead."),
        (["pink"], "Declare these categories. Otherwise they count as other, up to the share in `max_unparsed`."),
        (["n/a"], "Add texts that mean a missing value to the dialect's `nulls`."),
    ],
)
def test_each_cure_states_what_to_do(tmp_path: Path, values: list[str], cure: str) -> None:
    [_, column] = counted(tmp_path / "file", "x,c\n" + "".join(f"1,{value}\n" for value in values)).columns
    assert column.outcomes[0].cure == f"The file contains {' and '.join(values)}. {cure}"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("2024-01-02", "`date`"),
        ("1,5", "',' as the dialect's `decimal`"),
        ("1 234", "' ' as the dialect's `thousands`"),
        ("1.234,5", "'.' as the dialect's `thousands`, and ',' as its `decimal`"),
        ("12 kg", "Write plain numbers"),
    ],
)
def test_the_cure_of_an_unparsed_number_names_the_dialect_option(tmp_path: Path, value: str, hint: str) -> None:
    [column, _] = counted(tmp_path / "file", f'x,c\n"{value}",red\n').columns
    assert hint in (column.outcomes[0].cure or "")


@pytest.mark.parametrize(
    ("missing", "declared", "is_suggested"), [(2, {}, True), (1, {}, False), (2, {"default": 1.0}, False)]
)
def test_many_missing_numbers_without_a_declared_default_have_a_cure(
    tmp_path: Path, missing: int, declared: dict[str, float], is_suggested: bool
) -> None:
    number = {"name": "x", "type": "number", "lower": 0, "upper": 6} | declared
    content = "x,c\n" + ",red\n" * missing + "4,red\n" * (20 - missing)
    [column, _] = counted(tmp_path / "file", content, columns=[number, COLUMNS[1]], max_unparsed=0.05).columns
    [outcome] = column.outcomes
    assert ("They count as 3, the middle of the range." in (outcome.cure or "")) == is_suggested


_CELLS = st.tuples(
    st.floats(-20, 20).map(lambda x: round(x, 3)) | st.none(),
    st.sampled_from(["red", "dört; büş", "say 'no'", "blue", "a\nb", '"', "", ","]),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(_CELLS, min_size=1, max_size=12),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(['"', "'"]),
    st.sampled_from(["utf-8", "utf-16", "gb18030"]),
    st.sampled_from([".", ","]),
    st.sampled_from(["", "NA"]),
)
def test_a_table_in_any_dialect_is_the_table_in_the_default_one(
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[tuple[float | None, str]],
    delimiter: str,
    quote: str,
    encoding: str,
    decimal: str,
    null: str,
) -> None:
    def written(delimiter: str, quote: str, encoding: str, decimal: str, null: str) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter, quotechar=quote, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(("x", "c"))
        for x, c in cells:
            writer.writerow((null if x is None else str(x).replace(".", decimal), c))
        return text.getvalue().encode(encoding)

    file = tmp_path_factory.mktemp("file") / "file"
    plain = read(file, written(",", '"', "utf-8", ".", ""))
    fields = {"delimiter": delimiter, "quote": quote, "encoding": encoding, "decimal": decimal, "nulls": ["NA"]}
    assert read(file, written(delimiter, quote, encoding, decimal, null), **fields) == plain
