"""`purse fit` on small files: the real server inside the process, real workers, and a budget that outlives it."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.calculation import calculators
from app.calculation.calculators import CalculatingProcess
from app.calculation.process import WARM
from app.cli.fit import default_delta
from app.cli.specs import read_spec
from app.http.lists import Paging
from app.persistence.session import Database
from app.settings import Settings
from app.sources.ingest import Reading, count, header
from app.worker import forked
from purse import load, text
from purse.wire.files import Dialect
from purse.wire.models import Model
from tests.support import cli, hospital
from tests.support.console import steps
from tests.support.kept import kept
from tests.support.session import Session
from tests.support.workbook import workbook

ROOT = Path(__file__).parents[2]
SCHEMA: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 18, "upper": 90},
    {"name": "sex", "type": "category", "categories": ["f", "m"]},
    {"name": "income", "type": "category", "categories": ["low", "high"]},
]

Fit = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def process() -> Iterator[CalculatingProcess]:
    """The process of every fit here: each fit would start its own."""
    process = calculators.begin("app.worker.forked")
    assert process.channel.recv(1) == WARM
    yield process
    process.end()


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch, process: CalculatingProcess) -> None:
    monkeypatch.setattr(forked, "begin", lambda: kept(process))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rows = [f"{18 + i % 70},{'fm'[i % 2]},secret{i},{['low', 'high'][i % 70 > 35]}" for i in range(1500)]
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,note,income", *rows]) + "\n")
    return tmp_path / "people.csv"


@pytest.fixture
def purse(capsys: pytest.CaptureFixture[str]) -> Fit:
    """`purse ...` in this process: (exit code, stdout, stderr)."""
    return partial(cli.purse, capsys)


@pytest.fixture
def fit(people: Path, monkeypatch: pytest.MonkeyPatch, purse: Fit) -> Fit:
    """`purse fit people.csv --target income ...` in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("PURSE_HOME", str(people.parent / "home"))
    monkeypatch.setenv("PURSE_WORKERS", "1")  # more would start for nothing

    return lambda *more: purse("fit", str(people), "--target", "income", *more)


def test_without_a_schema_there_is_a_template_and_only_the_header_is_read(people: Path, fit: Fit) -> None:
    people.write_bytes(b'\xef\xbb\xbf"age",sex,income\n30,f,low\n\xff\xfe\x00 not even text\n')
    code, out, err = fit("--epsilon", "1")
    template = json.loads(out)
    assert code == 2
    assert [column["name"] for column in template] == ["age", "sex", "income"]
    assert template[0] == {"name": "age", "type": "number", "lower": None, "upper": None}
    assert template[2] == {"name": "income", "type": "category", "categories": []}
    assert "--schema" in err
    (people.parent / "template.json").write_text(out)
    code, out, err = fit("--epsilon", "1", "--schema", str(people.parent / "template.json"))
    assert (code, out) == (1, "")
    assert "declaration" in err
    assert not (people.parent / "home").exists()


@pytest.mark.parametrize("content", [b"\xff\xfe\x00 no text\n", b"PAR1 and no more"], ids=str)
def test_a_file_without_a_header_has_no_template(people: Path, fit: Fit, content: bytes) -> None:
    people.write_bytes(content)
    code, out, err = fit("--epsilon", "1")
    assert (code, out) == (1, "")
    assert "column names" in err


def test_a_schema_may_be_a_spec_with_a_budget_or_without_one(people: Path) -> None:
    path = people.parent / "schema.json"
    assert [column.name for column in read_spec(path)[0].columns] == ["age", "sex", "income"]
    for budget in (None, {"epsilon": 0.75, "delta": 1e-7}):
        path.write_text(json.dumps({"columns": SCHEMA} | ({"budget": budget} if budget else {})))
        declared, has_budget = read_spec(path)
        assert [column.name for column in declared.columns] == ["age", "sex", "income"]
        stated = {"epsilon": declared.budget.epsilon, "delta": declared.budget.delta} if has_budget else None
        assert stated == budget


def test_parquet_has_a_header_and_a_count_too(people: Path) -> None:
    path = people.with_suffix(".parquet")
    pq.write_table(pa.table({"age": [1, 2, 3], "income": ["low", "high", "low"]}), path)
    declared, _ = read_spec(people.parent / "schema.json")
    assert header(path) == ["age", "income"]
    reading = Reading(declared.columns, declared.dialect)
    assert (count(path, reading), count(people, reading)) == (3, 1500)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_default_delta_follows_from_the_number_of_records(people: Path, ends: str, packed: bool) -> None:
    """delta is min(1e-6, 1/(10 n)): 1e-6 for up to 100,000 records, however many those are."""
    declared, _ = read_spec(people.parent / "schema.json")
    for rows, delta in ((10, 1e-6), (125_000, 8e-7)):
        path = people.with_suffix(".csv.gz" if packed else ".many.csv")
        text = ends.join(["age,sex,income", *["30,female,low"] * rows]).encode()
        path.write_bytes(gzip.compress(text, 1) if packed else text)
        assert default_delta(path, declared) == pytest.approx(delta, rel=1e-12)
    declared = declared.model_copy(update={"dialect": Dialect(encoding="utf-16")})
    path.write_bytes((ends.join(["age,sex,income", *["30,female,low"] * 125_000])).encode("utf-16"))
    assert default_delta(path, declared) == pytest.approx(8e-7, rel=1e-12)


def test_fits_of_one_file_share_one_budget(people: Path, fit: Fit) -> None:
    schema, output_folder, home = people.parent / "schema.json", people.parent / "kept", people.parent / "home"
    options = ["--epsilon", "0.5", "--schema", str(schema)]
    code, out, err = fit(*options, "--budget", "0.8", "--out", str(output_folder), "--json")
    assert code == 0, err
    assert "epsilon 0.8 at" in err
    document = json.loads(out)
    assert document["dataset"]["rows"] == 1500
    assert re.fullmatch(r"file-[0-9a-f]{64}", document["dataset"]["name"])
    assert "note" not in [column["name"] for column in document["dataset"]["columns"]]
    assert document["model"]["privacy"]["epsilon"] <= 0.5
    model = Model.model_validate_json((output_folder / "model.json").read_bytes())
    assert load(output_folder / "receipt.json", output_folder / "keys.json").verify(model=model).holds

    again = people.parent / "again"
    code, out, err = fit("--epsilon", "0.3", "--schema", str(schema), "--method", "dp_svrg", "--out", str(again))
    assert code == 0, err
    assert f"wrote model.json, receipt.json and keys.json into {again}" in err
    assert sorted(path.name for path in again.iterdir()) == ["keys.json", "model.json", "receipt.json"]
    assert "first fit" not in err
    assert re.search(r"^verified ", out, re.MULTILINE)
    assert re.search(r"^remaining  epsilon 0\.\d+ at delta 1e-06", out, re.MULTILINE)

    code, out, err = fit(*options, "--json")
    assert (code, json.loads(out)["code"]) == (1, "budget_exhausted")

    schema.write_text(json.dumps([SCHEMA[0] | {"upper": 100}, *SCHEMA[1:]]))
    code, out, err = fit(*options)
    assert (code, "another schema" in err) == (1, True)
    schema.write_text(json.dumps(SCHEMA))
    code, out, err = fit(*options, "--budget", "5")
    assert (code, "epsilon 0.8" in err) == (1, True)
    _only_the_first_token_is_left(home)


@pytest.mark.slow
def test_a_column_of_zeros_and_ones_keeps_its_schema_at_the_next_fit(people: Path, fit: Fit) -> None:
    """The dataset states the origin of such a column, which the schema may omit."""
    schema = people.parent / "schema.json"
    people.write_text("flag,income\n" + "\n".join(f"{i % 2},{['low', 'high'][i % 3 > 1]}" for i in range(200)) + "\n")
    schema.write_text(json.dumps([{"name": "flag", "type": "number", "lower": 0, "upper": 1}, SCHEMA[-1]]))
    for _ in range(2):
        code, _, err = fit("--epsilon", "0.2", "--schema", str(schema), "--budget", "1")
        assert code == 0, err


def test_fits_of_a_workbooks_sheet_share_one_budget_however_it_is_saved(
    people: Path, purse: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("python_calamine", reason="python-calamine is not installed: no workbook is read")
    monkeypatch.setenv("PURSE_HOME", str(people.parent / "home"))
    monkeypatch.setenv("PURSE_WORKERS", "1")
    lines = [line.split(",") for line in people.read_text().splitlines()[:200]]
    cells: list[list[object]] = [[*lines[0]], *([float(age), *values] for age, *values in lines[1:])]
    schema, book = people.parent / "schema.json", workbook(people.with_suffix(".xlsx"), {"a": [["x"]], "b": cells})
    options = ["--target", "income", "--epsilon", "0.5"]
    code, out, _ = purse("fit", str(book), "--sheet", "b", *options)
    assert (code, [column["name"] for column in json.loads(out)]) == (2, lines[0])
    options += ["--schema", str(schema), "--json"]
    code, _, err = purse("fit", str(book), *options)
    assert (code, "'a', 'b'" in err) == (1, True)
    code, out, err = purse("fit", str(book), "--sheet", "b", *options)
    assert code == 0, err
    assert json.loads(out)["dataset"]["rows"] == 199
    saved = workbook(people.with_name("saved.xlsx"), {"only": cells})
    code, out, _ = purse("fit", str(saved), *options)
    assert (code, json.loads(out)["code"]) == (1, "budget_exhausted")
    schema.write_text(json.dumps({"columns": SCHEMA, "dialect": {"delimiter": ";"}}))
    code, _, err = purse("fit", str(saved), *options)
    assert (code, "--unit, --max-rows" in err) == (1, True)


def test_a_fit_may_protect_persons(people: Path, fit: Fit) -> None:
    people.write_bytes(people.read_bytes().replace(b"secret", b"p").replace(b"note", b"who"))
    people.write_text(re.sub(r"p([0-9]+)", lambda match: f"p{int(match[1]) % 400}", people.read_text()))
    options = ["--epsilon", "0.5", "--schema", str(people.parent / "schema.json"), "--json"]
    code, out, err = fit(*options, "--unit", "who", "--max-rows", "3")
    assert code == 0, err
    document = json.loads(out)
    person = {"name": "person", "max_rows": 3}
    assert [document["dataset"][name] for name in ("rows", "persons", "unit")] == [None, 400, person]
    assert [document["receipt"]["receipt"][name] for name in ("persons", "unit")] == [400, person]
    whole_numbers: list[str] = []
    json.loads(out, parse_int=whole_numbers.append)
    assert "1500" not in [*whole_numbers, *re.findall(r"[\w,.-]+", err)]  # the number of rows; ids may contain it
    code, out, err = fit(*options)
    assert (code, "3 rows" in err) == (1, True)
    code, out, err = fit(*options, "--unit", "zip", "--max-rows", "3")  # another column says who is who: other persons
    assert (code, "with other persons" in err) == (1, True)
    code, out, err = fit(*options, "--unit", "who")
    assert (code, "both or neither" in err) == (1, True)


@pytest.mark.slow
def test_a_hospitals_file_as_it_is(fit: Fit, people: Path, purse: Fit) -> None:
    """Drafted, filled in, checked, mended and fitted: semicolons, latin-1, decimal commas, dates, several rows each."""
    spec = people.with_name("stays.json")
    people.write_bytes(hospital.stays(intensive="{}.0"))
    code, out, err = purse("check", str(people), "--propose")
    assert (code, "'name'" in err) == (0, True)
    assert max(map(len, err.splitlines())) <= text.WIDTH
    draft = json.loads(out)
    assert draft["dialect"] == hospital.DIALECT
    bounds = {column["name"]: column for column in hospital.COLUMNS}
    for column in draft["columns"]:
        assert [column.get(end) for end in ("lower", "upper")] == [None, None]
        assert column.get("date") == bounds.get(column["name"], {}).get("date")
    spec.write_text(out)
    code, _, err = purse("check", str(people), "--spec", str(spec))
    assert (code, "'alter'.lower" in err) == (1, True)

    spec.write_text(json.dumps({"columns": hospital.COLUMNS, "dialect": hospital.DIALECT, "unit": hospital.UNIT}))
    code, out, _ = purse("check", str(people), "--spec", str(spec), "--json")
    assert (code, json.loads(out)["refused"]) == (1, ["intensiv"])
    code, out, _ = purse("check", str(people), "--spec", str(spec))
    assert "0.0 and 1.0" in out
    options = ("--target", "intensiv", "--epsilon", "1", "--schema", str(spec), "--json")
    code, out, err = fit(*options)
    assert (code, json.loads(out)["code"]) == (1, "unparsed_values")

    people.write_bytes(gzip.compress(hospital.stays()))
    assert purse("check", str(people), "--spec", str(spec), "--target", "intensiv")[0] == 0
    code, out, err = fit(*options)
    assert code == 0, err
    dataset = json.loads(out)["dataset"]
    assert (dataset["persons"], dataset["columns"][0]["date"], "report" in dataset) == (300, "days", False)


def _only_the_first_token_is_left(home: Path) -> None:
    from app.identity import service

    database = Database(Settings(home=home).database)
    try:
        assert [token.name for token in service.page(database, Paging()).items] == ["first steward"]
        assert (home / "steward-token").stat().st_mode & 0o777 == 0o600
    finally:
        database.close()


@pytest.mark.slow
def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").symlink_to(ROOT / "app")
    monkeypatch.setenv("PURSE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("PURSE_TOKEN", raising=False)
    monkeypatch.delenv("PURSE_HOME", raising=False)
    session = Session(capsys)
    for command, output in steps(ROOT / "docs/how-to/fit.md"):
        session.run(command, output)
    assert Path("predictions.csv").read_text().count("\n") == 3
    assert Path("purse-data").is_dir()
