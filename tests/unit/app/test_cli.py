"""The command line against a real service: what it prints for people, for machines, and when it is refused."""

import ast
import gzip
import io
import itertools
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
import typer

from app.calculation import calculators
from app.cli import late, main, tokens
from app.cli.commands import EVERY, program
from app.cli.failures import fail
from app.cli.late import MODULES
from app.cli.table import COMMANDS, SECTIONS, SUMMARIES, Command
from purse import Client
from purse.wire import tokens as wire_tokens
from purse.wire.inference import EXPECTED_IF
from tests.support import cli
from tests.support.live import Live, live
from tests.support.patience import PATIENCE
from tests.support.service import SPEC as PEOPLE
from tests.support.workbook import workbook

SPEC = PEOPLE | {"budget": {"epsilon": 2.0, "delta": 1e-6}}

Run = Callable[..., tuple[int, str, str]]
_AGES = itertools.count()  # the same values are a dataset once


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("cli") / "home") as running:
        yield running


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `purse` in this process: (exit code, stdout, stderr)."""
    return partial(cli.purse, capsys)


@pytest.fixture(autouse=True)
def named(service: Live, monkeypatch: pytest.MonkeyPatch) -> Live:
    """The service as PURSE_URL and PURSE_TOKEN name it."""
    monkeypatch.setenv("PURSE_URL", service.url)
    monkeypatch.setenv("PURSE_TOKEN", service.token)
    return service


@pytest.fixture
def people(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path, str]:
    """A file, its spec, and a name of its own."""
    name = re.sub(r"\W", "-", str(request.node.name))
    lines = [f"{20 + i % 60},{'fm'[i % 2]},{['low', 'high'][i % 60 > 30]}" for i in range(400)]
    file, spec = tmp_path / "people.csv", tmp_path / "people.json"
    file.write_text("\n".join(["age,sex,income", *lines, f"{next(_AGES) / 1000},?,?"]) + "\n")
    spec.write_text(json.dumps(SPEC | {"name": name}))
    return file, spec, name


@pytest.fixture
def name(run: Run, people: tuple[Path, Path, str]) -> str:
    """The name of a dataset that is registered from the file."""
    file, spec, name = people
    assert run("upload", str(file), "--spec", str(spec))[0] == 0
    return name


def _document(result: tuple[int, str, str], code: int = 0) -> Any:
    assert result[0] == code, result
    return json.loads(result[1])


def _walk(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child in group.commands.items():
        if hasattr(child, "commands"):
            yield from _walk(child, (*path, name))
        else:
            yield (*path, name), child


PROGRAM: Any = typer.main.get_command(program(EVERY))
COMMANDS_BY_WORDS = {" ".join(path): command for path, command in _walk(PROGRAM)}
CONTRACT = (
    *("serve", "fit", "quote", "budget", "jobs list", "receipt verify", "token create", "worker run", "server migrate"),
    *("audit", "upload", "submit", "model"),
)


def test_every_command_of_the_table_and_of_the_contract_exists() -> None:
    assert sorted(COMMANDS_BY_WORDS) == sorted(command.words for command in COMMANDS)
    assert set(CONTRACT) <= set(COMMANDS_BY_WORDS)


def test_the_overview_fits_one_screen_and_has_every_command_that_is_not_hidden(run: Run) -> None:
    code, out, err = run("--help")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert len(lines) <= 48
    assert max(map(len, lines)) < 60
    assert "..." not in out
    command_names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(command_names) == sorted(name for name, command in PROGRAM.commands.items() if not command.hidden)
    assert [line for line in lines if line in SECTIONS] == list(SECTIONS)


def test_a_summary_fits_its_line() -> None:
    assert [words for words, summary in SUMMARIES.items() if len(summary) >= 60] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_the_help_of_a_command_begins_with_an_example_and_then_its_summary(command: Command, run: Run) -> None:
    code, out, _ = run(*command.words.split(), "--help")
    assert code == 0
    usage, _, help_text = out.partition("\n\n")
    assert usage.startswith(f"Usage: purse {command.words} ")
    assert re.match(r" +Examples?:\n", help_text)
    assert f"  purse {command.words}" in help_text
    assert command.summary in " ".join(help_text.split())
    assert "--json" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_help_states_the_bounds_of_a_number_in_words(run: Run) -> None:
    for words, bounds in (("server start", "[1 to 65535]"), ("tune", "[1 or more]")):
        assert bounds in run(*words.split(), "--help")[1]


def test_every_option_and_argument_has_a_help() -> None:
    parameters = [(words, each) for words, command in COMMANDS_BY_WORDS.items() for each in command.params]
    assert [f"{words} {each.name}" for words, each in parameters if not each.help] == []


def test_an_error_names_the_option_and_not_the_place_in_a_request(run: Run) -> None:
    for words, field in ((("budget", "nowhere"), "not_found"), (("jobs", "--since", "yesterday"), " since: must")):
        code, _, err = run(*words)
        assert (code, field in err, "query." in err or "pattern" in err) == (1, True, False)


@pytest.mark.parametrize("words", ["stats", "dataset", "dataset sample", "server", "ledger", "worker"])
def test_the_help_of_a_group_begins_with_examples(words: str, run: Run) -> None:
    code, out, _ = run(*words.split(), "--help")
    assert code == 0
    assert re.match(rf"Usage: .*\n\n  Examples:\n +purse (?:{words}|serve) ", out)
    assert SUMMARIES[words] in out


@pytest.mark.slow
def test_results_for_machines_are_json_documents(run: Run, people: tuple[Path, Path, str], tmp_path: Path) -> None:
    """`tests/docs/test_sessions.py` compares what these commands print for people."""
    file, spec, name = people
    dataset = _document(run("upload", str(file), "--spec", str(spec), "--json"))
    assert (dataset["name"], dataset["rows"]) == (name, 401)
    options = (name, "--target", "income", "--epsilon", "0.5", "--method", "dp_gd")
    job = _document(run("submit", *options, "--wait", "--json"))
    assert job["state"] == "done"
    assert _document(run("budget", dataset["id"], "--json"))["jobs"] == 1
    (job_line,) = (line for line in run("jobs", "list")[1].splitlines() if line.startswith(job["id"]))
    assert job_line.split()[-4:] == ["done", "0.5", f"{100 * job['share']:.3g}", "%"]
    assert name in job_line
    assert _document(run("jobs", "wait", job["id"], "--json"))["state"] == "done"
    chosen = ("--state", "done", "--dataset", name, "--method", job["quote"]["method"]["name"], "--oldest-first")
    assert [item["id"] for item in _document(run("jobs", *chosen, "--json"))] == [job["id"]]
    assert _document(run("jobs", "--dataset", name, "--until", "2024-02-29", "--json")) == []
    assert [item["id"] for item in _document(run("datasets", "--state", "open", "--json"))].count(dataset["id"]) == 1
    assert _document(run("token", "list", "--role", "auditor", "--json")) == []
    folder = tmp_path / "kept"
    model = _document(run("model", job["id"], "--out", str(folder / "model.json"), "--json"))
    assert model == json.loads((folder / "model.json").read_text())
    receipt = _document(run("receipt", "get", job["id"], "--out", str(folder), "--json"))
    assert receipt == json.loads((folder / "receipt.json").read_text())
    verification = _document(run("receipt", "verify", str(folder / "receipt.json"), "--json"))
    assert (verification["holds"], verification["recomputed_epsilon"] <= 0.5) == (True, True)


def test_a_sheet_of_a_workbook_is_checked_and_registered(
    run: Run, people: tuple[Path, Path, str], tmp_path: Path
) -> None:
    pytest.importorskip("python_calamine", reason="python-calamine is not installed: no workbook is read")
    file, spec, _ = people
    rows = [line.split(",") for line in file.read_text().splitlines()]
    cells = [[float(age), sex, income] for age, sex, income in rows[1:]]
    book = workbook(tmp_path / "people.xlsx", {"notes": [["x"]], "2025": [rows[0], *cells]})
    code, _, err = run("check", str(book), "--spec", str(spec))
    assert (code, "'notes', '2025'" in err) == (1, True)
    arguments = (str(book), "--sheet", "2025", "--spec", str(spec))
    report = _document(run("check", *arguments, "--json"))
    assert report == _document(run("check", str(file), "--spec", str(spec), "--json"))
    assert _document(run("check", str(book), "--sheet", "2025", "--propose"))["columns"][1]["categories"] == ["f", "m"]
    dataset = _document(run("upload", *arguments, "--json"))
    assert (dataset["rows"], dataset["report"]) == (401, {k: report[k] for k in dataset["report"]})
    code, _, err = run("upload", str(file), "--spec", str(spec))
    assert (code, "duplicate_dataset" in err or "name_taken" in err) == (1, True)
    public = workbook(tmp_path / "public.xlsx", {"notes": [["x"]], "2019": [rows[0], *cells[::-1]]})
    sample = ("dataset", "sample", "set", dataset["id"], str(public), "--published", "2019", "--spec", str(spec))
    assert "several sheets" in run(*sample)[2]
    assert _document(run(*sample, "--sheet", "2019", "--json"))["rows"] == 401


def test_an_import_that_the_operator_has_not_allowed_is_refused_with_the_setting(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "census.json"
    spec.write_text(json.dumps(SPEC))
    code, _, error = run("dataset", "import", "2026/census.csv", "--spec", str(spec))
    assert (code, "PURSE_IMPORT_URL" in error) == (1, True)


def test_a_dataset_without_uploaded_rows_is_declared_and_its_sessions_rule_changed(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "registry.json"
    spec.write_text(json.dumps({"name": "registry", "rows": 5000, "budget": SPEC["budget"]}))
    dataset = _document(run("dataset", "declare", "--spec", str(spec), "--json"))
    assert (dataset["data"], dataset["rows"], dataset["sessions"]) == ("elsewhere", 5000, "refund")
    amended = run("dataset", "amend", "registry", "--sessions", "no_refund", "--json")
    assert _document(amended)["sessions"] == "no_refund"
    assert _document(run("dataset", "amend", "registry", "--sessions", "refused", "--json"))["sessions"] == "refused"
    assert run("dataset", "amend", "registry", "--sessions", "never")[0] == 2
    code, out, _ = run("datasets", "registry")
    assert (code, "elsewhere" in out, "refused" in out) == (0, True, True)
    code, _, err = run("stats", "count", "registry", "age", "--epsilon", "0.1")
    assert (code, err.startswith("purse: data_elsewhere")) == (1, True)
    spec.write_text(spec.read_text().replace('"rows"', '"data": "elsewhere", "rows"'))
    assert run("check", str(spec), "--spec", str(spec))[0] == 1
    assert _document(run("dataset", "erase", "registry", "--yes", "--json"))["data"] == "withdrawn"


@pytest.mark.slow
def test_a_session_is_opened_recorded_closed_and_receipted(run: Run, tmp_path: Path) -> None:
    spec, plan = tmp_path / "clinic.json", tmp_path / "plan.json"
    spec.write_text(json.dumps({"name": "clinic", "rows": 5000, "budget": SPEC["budget"]}))
    assert run("dataset", "declare", "--spec", str(spec))[0] == 0
    session = _document(
        run("sessions", "open", "clinic", "--gaussian", "40", "--count", "12", "--title", "a", "--json")
    )
    assert [session["state"], session["plan"][0]["count"], session["title"]] == ["open", 12, "a"]
    session_id = session["id"]
    assert _document(run("sessions", "record", session_id, "--steps", "5", "--json"))["plan"][0]["recorded"] == 5
    assert run("sessions", "record", session_id, "--steps", "8")[2].startswith("purse: session_exhausted")
    code, out, _ = run("sessions", "show", session_id)
    assert (code, "5 of 12" in out, "Gaussian 40" in out) == (0, True, True)
    assert run("sessions", "receipt", session_id, "--out", str(tmp_path))[2].startswith("purse: session_open")
    assert _document(run("sessions", "close", session_id, "--json"))["state"] == "closed"
    assert run("sessions", "record", session_id)[2].startswith("purse: session_ended")
    assert (
        _document(run("sessions", "receipt", session_id, "--out", str(tmp_path), "--json"))["receipt"]["session"]
        == session_id
    )
    assert _document(run("receipt", "verify", str(tmp_path / "receipt.json"), "--json"))["holds"]
    target = ("--epsilon", "0.3", "--count", "20", "--rate", "0.1")
    sampled = _document(run("sessions", "open", "clinic", *target, "--json"))
    assert sampled["noise_multiplier"] == sampled["plan"][0]["event"]["event"]["noise_multiplier"]
    plan.write_text(json.dumps([{"type": "LaplaceDpEvent", "noise_multiplier": 30.0}]))
    assert _document(run("sessions", "open", "clinic", "--events", str(plan), "--lifetime", "60", "--json"))["id"]
    code, printed, _ = run("sessions", "--dataset", "clinic")
    assert (code, printed.count("sess_"), "5 of 12" in printed) == (0, 3, True)


@pytest.mark.parametrize("options", [(), ("--epsilon", "1", "--gaussian", "4"), ("--gaussian", "4", "--delta", "1e-6")])
def test_a_session_needs_one_description_of_its_answers(run: Run, options: tuple[str, ...]) -> None:
    assert run("sessions", "open", "clinic", *options)[0] == 1


@pytest.mark.slow
def test_forecasts_and_twins_spend_nothing(run: Run, people: tuple[Path, Path, str], tmp_path: Path) -> None:
    file, spec, name = people
    run("upload", str(file), "--spec", str(spec))
    steps = tmp_path / "steps.json"
    steps.write_text('{"method": {"name": "dp_gd", "steps": 5}}')
    ways = ("-t", "income", "-e", "0.5", "-e", "2", "--runs", "3", "--with", str(steps), "--wanted", "0.99")
    forecast = _document(run("forecast", name, *ways, "--json"))
    assert [each["epsilon"] for each in forecast["at"]] == [0.5, 2.0]
    assert forecast["wanted"] == {"score": 0.99, "epsilon": None}
    assert _document(run("forecast", name, *ways, "--signal", "0.3", "--json"))["signal"] == 0.3
    code, table, err = run("forecast", name, *ways)
    assert (code, err) == (0, "")
    assert re.search(r"^0\.5 +\d", table, re.M)
    here = ("forecast", "--spec", str(spec), "--records", "401", *ways)
    assert "public sample" in run(*here, "--sample", str(file))[1]
    assert _document(run(*here, "--json"))["at"][0]["method"] == "dp_gd"
    assert run(*here, "--preparation", "nonsense")[2].startswith("purse: invalid_request: ")
    assert run(*here, "--slope-limit", "1.5")[2].startswith("purse: out_of_range: slope_limit")
    for wrong in ((name, "--records", "9"), ("--spec", str(spec)), (name, "--from", "data")):
        assert run("forecast", "-t", "income", *wrong)[0] == (2 if "--from" in wrong else 1)
    twin = tmp_path / "twin.csv"
    assert _document(run("dataset", "twin", name, "--rows", "20", "--out", str(twin), "--json"))["rows"] == 20
    assert run("check", str(twin), "--spec", str(spec))[0] == 0
    sample = _document(run("dataset", "sample", "set", name, str(twin), "--published", "Census 2019", "--json"))
    assert (sample["rows"], sample["published"]) == (20, "Census 2019")
    assert "Census 2019" in run("dataset", "sample", "show", name)[1]
    assert _document(run("forecast", name, *ways, "--from", "sample", "--json"))["source"] == "sample"
    assert _document(run("dataset", "sample", "delete", name, "--json"))["deleted"]
    assert run("dataset", "sample", "show", name)[0] == 1
    assert _document(run("budget", name, "--json"))["jobs"] == 0


@pytest.mark.slow
def test_statistics_are_priced_released_printed_drawn_and_receipted(run: Run, name: str, tmp_path: Path) -> None:
    price = _document(run("stats", "count", name, "age", "--bins", "4", "--epsilon", "0.1", "--quote", "--json"))
    assert (price["method"], price["fits"]) == ({"name": "counts", "bins": 4}, True)
    out, drawing = tmp_path / "counts.json", tmp_path / "ages.svg"
    code, printed, _ = run(
        "stats", "count", name, "age", "--bins", "4", "--epsilon", "0.1", "--out", str(out), "--svg", str(drawing)
    )
    assert (code, printed.count("█") > 0, printed.count(" to ")) == (0, True, 4)
    root = ElementTree.parse(drawing).getroot()
    assert len(root.findall("{*}circle")) == 4
    job = json.loads(out.read_text())["job"]
    receipt = tmp_path / "receipt"
    _document(run("receipt", "get", job, "--out", str(receipt), "--json"))
    assert _document(run("receipt", "verify", str(receipt / "receipt.json"), "--model", str(out), "--json"))["holds"]
    code, printed, _ = run("stats", "table", name, "sex", "income", "--epsilon", "0.1")
    assert (code, printed.count("(other)")) == (0, 2)
    code, printed, _ = run("stats", "means", name, "--epsilon", "0.1")
    assert (code, "age" in printed, "sex" in printed) == (0, True, True)
    quantiles = _document(run("stats", "quantiles", name, "age", "--share", "0.5", "--epsilon", "0.1", "--json"))
    assert [q["share"] for q in quantiles["result"]["columns"][0]["quantiles"]] == [0.5]
    code, printed, _ = run("stats", "quantiles", name, "age", "--epsilon", "0.1")
    assert (code, len(re.findall(r"\bage\b", printed))) == (0, 3)  # an identifier may hold these letters
    code, printed, _ = run("stats", "covariance", name, "age", "--epsilon", "0.1")
    assert code == 0
    assert re.search(r"^age +1$", printed, re.MULTILINE), "a correlation with itself is exact"
    groups = ("stats", "table1", name, "age", "income", "--by", "sex", "--epsilon", "0.2")
    code, printed, _ = run(*groups, "--where", "age >= 30")
    assert (code, "age >= 30" in printed, "income = high" in printed) == (0, True, True)
    assert "interval width" in run(*groups, "--quote")[1]
    assert run(*groups, "--where", "age")[0] == 2


@pytest.mark.slow
def test_a_model_is_evaluated_on_the_holdout_set(
    run: Run, people: tuple[Path, Path, str], tmp_path: Path, service: Live
) -> None:
    file, spec, name = people
    spec.write_text(json.dumps(SPEC | {"name": name, "holdout": 0.25}))
    dataset = _document(run("upload", str(file), "--spec", str(spec), "--json"))
    assert dataset["rows"] + 100 == 401
    assert re.search(r"^sessions +refused.* holdout", run("datasets", name)[1], re.M)
    with Client(service.url, service.token) as client:
        trained = client.jobs.submit(dataset=name, target="income", privacy=0.5)
        trained.wait(progress=False)
        price = _document(run("evaluate", trained.id, "--epsilon", "0.5", "--bins", "10", "--quote", "--json"))
        assert (price["dataset"], price["rows"], price["fits"]) == (dataset["holdout"], 100, True)
        out = tmp_path / "evaluation.json"
        code, text, _ = run("evaluate", trained.id, "--epsilon", "0.5", "--bins", "10", "--out", str(out))
        assert (code, [word in text for word in ("AUC", "log loss", "noise alone", "threshold")]) == (0, [True] * 4)
        aged = client.jobs.submit(dataset=name, target="age", privacy=0.5)
        aged.wait(progress=False)
        code, text, _ = run("evaluate", aged.id, "--epsilon", "0.5")
        assert (code, [word in text for word in ("mean squared error", "mean absolute error")]) == (0, [True] * 2)
        evaluation = trained.evaluate(privacy=0.5, bins=10).evaluation(progress=False)
        assert (evaluation.dataset, evaluation.model, evaluation.result.name) == (
            dataset["holdout"],
            trained.id,
            "two_classes",
        )
        quote = client.quote(model=trained.id, privacy=0.5, bins=10)
    assert (quote.dataset, quote.share) == (price["dataset"], price["share"])


@pytest.mark.slow
def test_candidates_of_a_tuning_are_named_and_then_those_of_a_file(run: Run, name: str, tmp_path: Path) -> None:
    candidates = tmp_path / "candidates.json"
    candidates.write_text('[{"method": {"name": "output_perturbation"}, "preparation": {"name": "declared"}}]')
    arguments = ("tune", name, "--target", "income", "--epsilon", "0.5")
    chosen = ("--method", "dp_gd", "--candidates", str(candidates), "--repeats", "1")
    price = _document(run(*arguments, *chosen, "--quote", "--json"))
    assert [trial["method"]["name"] for trial in price["method"]["trials"]] == ["dp_gd", "output_perturbation"]
    code, _, err = run(*arguments)
    assert (code, "name a candidate" in err) == (2, True)


@pytest.mark.slow
def test_a_profile_is_priced_released_read_and_used(run: Run, name: str, tmp_path: Path) -> None:
    code, _, err = run("stats", "profile", name)
    assert (code, err.count("\n")) == (1, 1)
    price = _document(run("stats", "profile", name, "--epsilon", "0.4", "--bins", "5", "--quote", "--json"))
    assert (price["method"], price["fits"]) == ({"name": "profile", "bins": 5}, True)
    profile = _document(
        run("stats", "profile", name, "--epsilon", "0.4", "--bins", "5", "--out", str(tmp_path / "p.json"), "--json")
    )
    assert (
        profile == json.loads((tmp_path / "p.json").read_text()) == _document(run("stats", "profile", name, "--json"))
    )
    arguments = (name, "--target", "income", "--epsilon", "0.5", "--method", "dp_gd", "--preparation")
    for preparation in ("profile", f"profile:{profile['job']}"):
        quote = _document(run("quote", *arguments, preparation, "--json"))
        assert quote["preparation"]["profile"]["job"] == profile["job"]
        assert [query["name"] for query in quote["queries"]] == ["gradient"]
    code, text, _ = run("quote", *arguments, "profile", "--slope-limit", "0.4")
    assert (code, f"profile {profile['job']}:" in text, "clipped to 0.4 of" in text) == (0, True, True)
    job = _document(run("submit", *arguments, "profile", "--wait", "--json"))
    assert job["state"] == "done"
    _document(run("model", job["id"], "--out", str(tmp_path / "m.json"), "--json"))
    for released, other_file, model_file in ((profile["job"], "m", "p"), (job["id"], "p", "m")):
        folder = tmp_path / model_file
        code, text, _ = run("receipt", "get", released, "--out", str(folder))
        assert (code, re.search(rf"^scaled by +{profile['job']}$", text, re.M) is not None) == (0, model_file == "m")
        against = ("receipt", "verify", str(folder / "receipt.json"), "--model")
        assert _document(run(*against, str(tmp_path / f"{model_file}.json"), "--json"))["holds"]
        assert "another model" in run(*against, str(tmp_path / f"{other_file}.json"))[2]


def test_a_warning_about_the_declaration_and_the_file_is_printed_once(run: Run, people: tuple[Path, Path, str]) -> None:
    file, spec, name = people
    file.write_text(file.read_text().replace("age", "patient_id"))
    spec.write_text(json.dumps(SPEC | {"name": name}).replace("age", "patient_id"))
    code, out, err = run("upload", str(file), "--spec", str(spec))
    assert (code, (out + err).count("looks like")) == (0, 1)


@pytest.mark.slow
def test_commands_print_tables_for_people(run: Run, people: tuple[Path, Path, str], tmp_path: Path) -> None:
    file, spec, name = people
    run("upload", str(file), "--spec", str(spec))
    code, out, _ = run("quote", name, "-t", "income", "-e", "20", "--inference")
    assert (code, EXPECTED_IF in " ".join(out.split())) == (0, True)
    job = _document(run("submit", name, "-t", "income", "-e", "0.5", "--wait", "--json"))["id"]
    for released in (job, str(tmp_path / "m.json")):
        run("model", job, "--out", str(tmp_path / "m.json"))
        code, out, _ = run("predict", released, str(file))
        assert (code, out.split("\n")[0], out.count("\n")) == (0, "prediction", 402)
    assert "rows of P(" in run("predict", job, str(file), "--out", str(tmp_path / "p.csv"))[2]
    assert (tmp_path / "p.csv").read_text() == out
    (tmp_path / "odd.csv").write_text("age,sex,height\n20,f,3\n")
    for odd, says in ((tmp_path / "odd.csv", "not in the model: height"), (spec, "has no row under a header")):
        code, _, err = run("predict", job, str(odd))
        assert (code, says in err) == (1, True), err
    dialect = {"dialect": {"delimiter": ";", "encoding": "latin-1", "decimal": ","}}
    (tmp_path / "spec.json").write_text(json.dumps(json.loads(spec.read_text()) | dialect))
    with_spec = ["--spec", str(tmp_path / "spec.json")]
    foreign, plain = tmp_path / "foreign.csv", tmp_path / "plain.csv"
    foreign.write_bytes("age;sex;ort\n20,5;f;Köln\n".encode("latin-1"))
    for options, says in (([], "is not encoded as utf-8"), (with_spec, "not in the model: ort")):
        code, _, err = run("predict", job, str(foreign), *options)
        assert (code, says in err) == (1, True), err
    foreign.write_bytes(gzip.compress(b"age;sex\n20,5;f\n"))
    plain.write_text("age,sex\n20.5,f\n")
    assert run("predict", job, str(foreign), *with_spec)[:2] == run("predict", job, str(plain))[:2]
    foreign.write_bytes(gzip.compress(b"age;sex\n20,5;f\n")[:-9])
    code, _, err = run("predict", job, str(foreign), *with_spec)
    assert (code, "cannot be unpacked" in err) == (1, True), err
    code, _, err = run("predict", "nowhere.json", str(file))
    assert (code, "job's id" in err) == (1, True), err
    code, out, _ = run("datasets", name)
    assert (code, re.search(r"^sex +category +f, m +-$", out, re.M) is not None) == (0, True)
    code, out, _ = run("server", "health", "--metrics")
    assert (code, "# TYPE" in out) == (0, True)
    run("receipt", "get", job, "--out", str(tmp_path))
    assert _document(run("receipt", "ask", str(tmp_path / "receipt.json"), "--json"))["chain"]
    out = run("jobs", "show", job)[1]
    assert re.search(r"^title .*\bincome$", out, re.M)
    assert re.search(rf"^dataset +{name}$", out, re.M)
    for arguments, words in ((("budget",), name), (("token", "list"), "bootstrap")):
        code, out, err = run(*arguments)
        assert (code, err, words in out) == (0, "", True)


@pytest.mark.slow
def test_grants_and_allotments_of_a_dataset(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = _document(run("token", "create", "alice", "--role", "analyst", "--json"))["token"]

    def as_alice(*arguments: str) -> tuple[int, str, str]:
        with monkeypatch.context() as her:
            her.setenv("PURSE_TOKEN", token)
            return run(*arguments)

    assert as_alice("budget", name)[0] == 1
    assert run("grant", "set", name, "alice")[2] == f"alice may see {name} and spend its budget\n"
    assert re.search(r"^alice +idn_\w+ +bootstrap +20", run("grant", "list", name)[1], re.M)
    code, out, _ = run("allot", "set", name, "alice", "--share", "0.25", "--reserved")
    assert (code, re.search(r"^alice +reserved +25 % .* 0 %$", out, re.M) is not None) == (0, True)
    assert run("allot", "list", name)[1] == out
    assert out in run("budget", name)[1]
    assert out in as_alice("budget", name)[1]
    assert not re.search(r"\byour\b", run("budget", name)[1])
    assert re.search(r"\byour\b", as_alice("budget", name)[1])
    code, _, err = run("allot", "set", name, "alice", "--share", "0.2", "--epsilon", "1")
    assert (code, err.startswith("purse: ")) == (1, True)
    assert _document(run("allot", "revoke", name, "alice", "--json"))["revoked"]
    assert _document(run("grant", "revoke", name, "alice", "--json"))["revoked"]
    assert as_alice("budget", name)[0] == 1


@pytest.mark.slow
def test_a_refusal_is_one_line_with_its_code_and_what_remains(run: Run, name: str) -> None:
    code, out, err = run("submit", name, "--target", "income", "--epsilon", "3")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("purse: budget_exhausted: ")
    problem = _document(run("submit", name, "--target", "income", "--epsilon", "3", "--json"), 1)
    assert (problem["code"], problem["status"]) == ("budget_exhausted", 409)
    assert problem["remaining"]["epsilon"] > 0
    assert _document(run("budget", name, "--json"))["jobs"] == 0


@pytest.mark.parametrize(
    ("detail", "printed"),
    [
        ("body.privacy.epsilon: must be a number", "epsilon: must be a number."),
        ("body: must be an object", "must be an object."),
        ("Unknown field `x` in the request body. Known fields: y.", None),
    ],
)
def test_an_error_names_a_field_without_its_place_and_is_otherwise_unchanged(
    detail: str, printed: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        fail(ValueError(detail), "purse quote")
    assert capsys.readouterr().err.rstrip().endswith(printed or detail)


def test_a_token_may_have_each_scope_of_the_service() -> None:
    assert [each.value for each in tokens.Scope] == list(get_args(wire_tokens.Scope))


@pytest.mark.slow
def test_without_token_or_with_another_role(run: Run, named: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    created = _document(run("token", "create", "carol", "--role", "auditor", "--json"))
    assert created["token"] not in run("token", "list")[1]
    monkeypatch.setenv("PURSE_TOKEN", created["token"])
    assert run("jobs", "list")[0] == 0
    code, _, err = run("token", "list")
    assert (code, err.startswith("purse: forbidden: ")) == (1, True)
    monkeypatch.setenv("PURSE_TOKEN", named.token)
    assert run("token", "revoke", created["id"])[0] == 0
    monkeypatch.delenv("PURSE_TOKEN")
    code, _, err = run("budget")
    assert (code, err.startswith("purse: unauthenticated: ")) == (1, True)
    assert "PURSE_TOKEN" in err


def test_a_token_is_the_servers_that_is_named(
    run: Run, named: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Review: without PURSE_TOKEN and PURSE_URL it was made in ./purse-data, a home of nobody's."""
    monkeypatch.delenv("PURSE_TOKEN")
    monkeypatch.delenv("PURSE_URL")
    monkeypatch.delenv("PURSE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("token", "create", "eve", "--role", "analyst", "--url", named.url)
    assert (code, out, err.startswith("purse: unauthenticated: ")) == (1, "", True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_jobs_that_wait_are_cancelled_and_refunded(run: Run, named: Live, name: str) -> None:
    named.engine.gate.clear()
    try:
        arguments = ("submit", name, "--target", "income", "--epsilon", "0.2", "--json")
        jobs = [_document(run(*arguments))["id"] for _ in range(named.engine.slots + 1)]
        assert _document(run("jobs", "cancel", jobs[-1], "--json"))["state"] == "cancelled"
        assert _document(run("budget", name, "--json"))["jobs"] == named.engine.slots
    finally:
        named.engine.gate.set()
    code, _, err = run("jobs", "cancel", jobs[-1])
    assert (code, err.startswith("purse: already_finished: ")) == (1, True)
    code, _, err = run("jobs", "wait", jobs[-1])
    assert (code, "is cancelled" in err) == (1, True)


@pytest.mark.slow
def test_the_same_idempotency_key_charges_once(run: Run, name: str) -> None:
    arguments = ("submit", name, "--target", "income", "--idempotency-key", f"key-{name}", "--json", "--epsilon")
    assert _document(run(*arguments, "0.2"))["id"] == _document(run(*arguments, "0.2"))["id"]
    assert _document(run(*arguments, "0.3"), 1)["code"] == "idempotency_conflict"
    assert _document(run("budget", name, "--json"))["jobs"] == 1


def test_the_command_line_is_wrong(run: Run, people: tuple[Path, Path, str]) -> None:
    assert run("submit")[0] == 2
    assert run("nonsense")[0] == 2
    assert run("upload", "/nowhere.csv", "--spec", "/nowhere.json")[0] == 2
    people[1].write_text("{not json")
    assert run("upload", str(people[0]), "--spec", str(people[1]))[0] == 2
    code, _, err = run("budget", "no such dataset")
    assert (code, err.startswith("purse: not_found: ")) == (1, True)


def test_a_file_of_additions_must_hold_an_object(run: Run, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text("[]")
    arguments = ("quote", "people", "--target", "income", "--epsilon", "1", "--with", str(tmp_path / "more.json"))
    code, out, err = run(*arguments)
    assert (code, out, "JSON object" in " ".join(err.split())) == (2, "", True)
    (tmp_path / "more.json").write_text('{"losss": "hinge"}')
    code, out, err = run(*arguments)
    assert (code, out, "Unknown field `losss`" in err, "mean `loss`?" in err) == (2, "", True, True)


@pytest.mark.slow
def test_a_formula_names_the_columns_of_a_model(run: Run, people: tuple[Path, Path, str]) -> None:
    pytest.importorskip("formulaic", reason="formulaic is not installed: formulas are not parsed")
    file, spec, name = people
    run("upload", str(file), "--spec", str(spec))
    arguments = ("quote", name, "--target", "income", "--epsilon", "0.5", "--json", "--formula")
    assert _document(run(*arguments, "income ~ age + I(age**2) + age:sex"))["dimension"] == 5 - 1
    for text in ("sex ~ age", "income ~ log(age)", "income ~ 0 + age"):
        code, out, err = run(*arguments, text)
        assert (code, out, "--formula" in err) == (2, "", True)


@pytest.mark.slow
def test_a_formula_is_parsed_in_a_process_of_its_own() -> None:
    """The parser needs pandas, which other commands do not load."""
    pytest.importorskip("formulaic", reason="formulaic is not installed: formulas are not parsed")
    command = ("quote", "people", "--target", "y", "--epsilon", "1", "--formula", "y ~ log(x)")
    process = [sys.executable, "-c", "from app.cli import main; main()", *command]
    result = subprocess.run(process, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (result.returncode, "pandas" in result.stderr, "log(x)" in result.stderr) == (2, False, True)


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version") == (0, f"{version('privy-purse')}\n", "")


@pytest.mark.slow
def test_health(run: Run, named: Live) -> None:
    assert _document(run("server", "health", "--json")) == {"url": named.url, "live": True, "ready": True}
    health = _document(run("server", "health", "--url", "http://127.0.0.1:9", "--json"), 1)
    assert (health["live"], health["ready"]) == (False, False)


@pytest.mark.slow
def test_the_state_of_a_home_without_a_server(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURSE_TOKEN", raising=False)
    monkeypatch.setenv("PURSE_HOME", str(tmp_path / "home"))
    assert _document(run("server", "migrate", "--json"))["migrated"]
    created = _document(run("token", "create", "me", "--role", "steward", "--local", "--json"))
    assert (created["name"], created["role"], len(created["token"]) > 40) == ("me", "steward", True)
    assert (tmp_path / "home").stat().st_mode & 0o077 == 0
    with live(tmp_path / "home") as running:
        monkeypatch.setenv("PURSE_TOKEN", created["token"])
        tokens = _document(run("token", "list", "--url", running.url, "--json"))
        assert "me" in [token["name"] for token in tokens]
    monkeypatch.setenv("PURSE_LEASE_SECONDS", "nan")
    code, _, err = run("server", "migrate")
    assert (code, "PURSE_LEASE_SECONDS" in err) == (1, True)


@pytest.mark.slow
def test_a_bar_is_for_terminals_only(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("submit", name, "--target", "income", "--epsilon", "0.5", "--wait")
    assert run(*arguments)[2] == ""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    assert run(*arguments)[0] == 0
    assert "done" in terminal.getvalue()
    assert re.search(r"(\d+)/\1", terminal.getvalue())


_LOADED = "; print(*{'pandas', 'httpx._main'} & set(sys.modules))"
_ARROW = "import pyarrow; assert pyarrow.array(['a']).to_pylist() == ['a']; import httpx; httpx.Client()"
_HELP = """
sys.argv = ["purse", "--version"]
try:
    app.cli.main()
except SystemExit as ended:
    assert ended.code == 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("first_command", ["", _HELP])
def test_a_command_does_not_load_modules_that_no_command_uses(first_command: str) -> None:
    """Arrow loads pandas, if installed, to convert the first list to a column; httpx loads its own command line."""
    code = f"import sys, app.cli\n{first_command}\n{_ARROW}{_LOADED}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    there = {name for name in ("pandas", "httpx._main") if find_spec(name.partition(".")[0]) is not None}
    assert set(result.stdout.splitlines()[-1].split()) == (set() if first_command else there)


@pytest.mark.slow
def test_loops_are_loaded_without_libraries_that_no_loop_calls() -> None:
    """Numba looks for BLAS and for a parser of C. The one job of a fit loads only the loops that it uses."""
    watched = {"scipy.linalg", "cffi", "solvers.kernels.steps", "solvers.kernels.unfolded"}
    code = (
        "import sys; from app.calculation import process\n"
        f"process.load(every=False); from solvers import kernels; assert kernels.weighted_sum\n"
        f"print(*{watched} & set(sys.modules))\n"
        f"process.load(every=True); print(*sorted({watched} & set(sys.modules))); import scipy.linalg, cffi"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert result.stdout == "\nsolvers.kernels.steps solvers.kernels.unfolded\n"


@pytest.mark.slow
def test_a_server_starts_without_modules_that_it_rarely_needs() -> None:
    """`purse serve` starts the calculating process before it loads anything else."""
    late = {"alembic", "distributed", "dp_accounting", "numba", "opentelemetry.sdk", "pyarrow", "scipy.optimize"}
    late |= {"solvers.compiled", "app.pages.routers", "jinja2"}  # pages: those that people look at import them
    code = (
        "import sys, app.cli; print(*{'numpy', 'pydantic', 'fastapi', 'typer'} & set(sys.modules))\n"
        f"import app.cli.commands, app.main, app.cli.serving; print(*{late} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert result.stdout == "\n\n"


@pytest.mark.slow
def test_commands_load_the_modules_that_type_checkers_read() -> None:
    nodes = ast.walk(ast.parse(Path(late.__file__).read_text()))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module in MODULES]
    names = [f"{node.module}.{alias.name}" for node in imports for alias in node.names]
    assert [getattr(late, name.rpartition(".")[2]).__name__ for name in names] == names
    assert len(names) == sum(map(len, MODULES.values()))
    with pytest.raises(AttributeError, match="nothing"):
        assert late.nothing


@pytest.mark.slow
def test_a_server_with_invalid_settings_leaves_no_calculating_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calculator = calculators.begin()
    monkeypatch.setattr(calculators, "begin", lambda: calculator)
    monkeypatch.setenv("PURSE_WORKERS", "none")
    with pytest.raises(SystemExit) as exit_info:
        main(["serve", "--home", str(tmp_path / "home")])
    assert exit_info.value.code == 1
    assert isinstance(calculator.process, subprocess.Popen)
    assert calculator.process.poll() is not None


@pytest.mark.slow
def test_a_port_in_use_is_reported_before_a_token_is_made(tmp_path: Path) -> None:
    """With a log of JSON objects the refusal is one of them. tests/service covers other refused starts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-m", "app.cli", "serve", "--home", str(tmp_path / "home"), "--port", port]
        environment = os.environ | {"PURSE_LOG_FORMAT": "json"}
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment)
    refusal = json.loads(result.stderr)
    assert (result.returncode, result.stdout, refusal["level"]) == (1, "", "critical")
    assert f"127.0.0.1:{port}" in refusal["message"]
    assert "--port" in refusal["message"]
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
def test_the_neighbor_relation_is_explained_only_on_request(run: Run, name: str) -> None:
    for words in (("datasets", name), ("budget", name), ("quote", name, "-t", "income", "-e", "0.5")):
        plain, explained = run(*words)[1], run(*words, "--explain")[1]
        assert re.search("^neighbors +replace_one$", plain, re.M)
        assert "zero_out" not in plain
        assert "zero_out" in explained
        assert max(map(len, plain.splitlines() + explained.splitlines())) <= 100


@pytest.mark.slow
def test_a_steward_amends_freezes_and_erases_a_dataset(run: Run, people: tuple[Path, Path, str]) -> None:
    file, spec, name = people
    dataset = _document(run("upload", str(file), "--spec", str(spec), "--json"))["id"]
    nothing = "purse: Nothing to change. Give --name, --epsilon, --delta or --sessions.\n"
    assert run("dataset", "amend", name)[::2] == (1, nothing)
    out = run("dataset", "amend", name, "--name", "persons", "--epsilon", "3")[1]
    assert re.findall(r"^guarantee +epsilon (\d) at delta 1e-06 since \S+$", out, re.M) == ["2", "3"]
    assert re.search("^frozen ", run("dataset", "freeze", "persons")[1], re.M)
    assert re.search("^frozen ", run("budget", "persons")[1], re.M)
    refused = run("submit", dataset, "--target", "income", "--epsilon", "0.5", "--json")
    assert _document(refused, 1)["code"] == "dataset_frozen"
    assert not _document(run("dataset", "unfreeze", dataset, "--json"))["budget"]["frozen"]
    assert "--yes" in run("dataset", "erase", dataset)[2]
    assert re.search("^values +withdrawn$", run("dataset", "erase", dataset, "--yes")[1], re.M)
    assert _document(run("budget", "persons", "--json"), 1)["code"] == "not_found"


@pytest.mark.slow
def test_the_calculator_and_an_external_charge(run: Run, name: str, tmp_path: Path) -> None:
    target = ("--epsilon", "0.5", "--delta", "1e-6", "--count", "12")
    noise = _document(run("calibrate", "gaussian", *target, "--json"))["noise_multiplier"]
    assert re.search(r"^epsilon +0\.\d+\ndelta +1e-06$", run("calibrate", "poisson_gaussian",
        "--rate", "0.1", "--neighbors", "zero_out", *target)[1], re.M)  # fmt: skip
    arguments = ("dataset", "charge", name, "--label", "report", "--gaussian", str(noise))
    charge = _document(run(*arguments, "--count", "12", "--json"))
    assert charge["budget"]["spent"]["epsilon"] == pytest.approx(0.5, rel=0.5)
    assert "exceeds    no" in run(*arguments, "--count", "12")[1]
    (tmp_path / "event.json").write_text(json.dumps(charge["event"]))
    repeated = _document(
        run("dataset", "charge", name, "--label", "report", "--event", str(tmp_path / "event.json"), "--json")
    )
    assert repeated == charge
    assert "exactly one of" in run(*arguments, "--pure", "0.1")[2]
    sampled = ("dataset", "charge", name, "--label", "sampled", "--gaussian", "0.1", "--rate", "0.5", "--count", "9")
    assert _document(run(*sampled, "--json"), 1)["code"] == "budget_exhausted"
    assert re.search("^exceeds +yes", run(*sampled, "--exceeds")[1], re.M)
    assert re.search("^exceeded ", run("budget", name)[1], re.M)
