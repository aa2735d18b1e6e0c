"""What a command refuses of what it was given: one line, in words of ours, that says what to give instead."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support.cli import purse

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 0, "upper": 100},
    {"name": "income", "type": "category", "categories": ["low", "high"]},
]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "check people.csv --spec schema.json --target incme",
            "--target incme is not a declared column. Declared columns: age, income.",
        ),
        ("check people.csv", "Give either --spec FILE or --propose."),
        ("check people.csv --propose --spec schema.json", "Give either --spec FILE or --propose."),
        (
            "receipt verify people.csv --keys schema.json --model schema.json",
            "--model schema.json: not a model, profile, statistic or evaluation.",
        ),
        ("upload people.csv --spec schema.json", "schema.json is not a spec."),
        (
            "token create ada --role analyst --scope manage --local",
            "scopes must be some of this role's: read, quote, submit, session",
        ),
    ],
)
def test_each_refusal_states_what_to_enter(
    command: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Review: three of these errors were pydantic's own texts, with a link to its website."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,income\n40,low\n")
    Path("schema.json").write_text(json.dumps(COLUMNS))
    code, out, err = purse(capsys, *command.split())
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"purse: {says}")


def test_a_draft_asks_to_check_the_texts_that_mean_a_missing_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("balance,income\n-99,low\n7,high\n8,low\n9,high\n")
    code, _, err = purse(capsys, "check", "people.csv", "--propose")
    assert (code, "`nulls`" in err, "'-99'" in err) == (0, True, True)
    Path("people.csv").write_text("balance,income\n6,low\n7,high\n8,low\n9,high\n")
    assert "`nulls`" not in purse(capsys, "check", "people.csv", "--propose")[2]


def test_a_fit_whose_service_does_not_answer_advises_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def silent(*_: object) -> Iterator[tuple[str, str]]:
        yield "http://127.0.0.1:9", "token"

    monkeypatch.setattr("app.cli.serving.serving", silent)
    monkeypatch.setattr("app.worker.forked.begin", Mock())
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,income\n40,low\n")
    Path("schema.json").write_text(json.dumps(COLUMNS))
    code, _, err = purse(
        capsys, *["fit", "people.csv", "--target", "income", "--epsilon", "1", "--schema", "schema.json"]
    )
    assert (code, "PURSE_URL" in err) == (1, False)


def test_an_unknown_field_of_a_spec_is_named_with_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,income\n40,low\n")
    spec = {"columns": [COLUMNS[0] | {"uper": 4711}, COLUMNS[1]], "dialekt": {"delimiter": "4711"}}
    Path("spec.json").write_text(json.dumps(spec))
    code, _, err = purse(capsys, "check", "people.csv", "--spec", "spec.json")
    assert code == 1
    assert "'age'.uper: " in err
    assert "`upper`?" in err
    assert "dialekt: " in err
    assert "4711" not in err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"columns": [1]}, "columns.0: must be an object"),
        ({"columns": [{"name": "age", "type": "numbr"}]}, "`type` must be one of: number, category"),
        ({"budget": {"epsilon": -1, "delta": 0}}, "budget.epsilon: must be at least 0.001"),
        ({"budget": {"epsilon": 1}}, "budget.delta: is required"),
        ({"max_unparsed": "much"}, "must be a number, such as 0.5"),
        ({"targets": "age"}, "targets: must be a list"),
    ],
)
def test_a_wrong_field_is_reported_without_words_of_a_library(
    changes: dict[str, Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,income\n40,low\n")
    Path("spec.json").write_text(json.dumps({"columns": COLUMNS} | changes))
    code, _, err = purse(capsys, "check", "people.csv", "--spec", "spec.json")
    assert code == 1
    assert says in err
    assert not re.search(r"valid|Input|\btag\b|\bparse\b|constrained", err)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("quote census --target income --epsilon 0,5", "'--epsilon' / '-e': must be a number, such as 0.5."),
        ("jobs --state finished", "'--state': must be one of: queued, running, done, failed, cancelled."),
        ("serve --port 99999", "'--port': must be a whole number, at least 1 and at most 65535."),
        ("tune census --target income --epsilon 1 --repeats few", "'--repeats': must be a whole number, at least 1."),
        (
            "ledger show census --since tomorrow",
            "'--since': must be a day such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z.",
        ),
        (
            "ledger show census --kind charge",
            "'--kind': must be one of: opened, joined, promised, frozen, unfrozen, renamed, session_rule, deleted, "
            "withdrawn, external, rolled_back, charged, started, refunded, released, failed, cancelled, reserved, "
            "settled.",
        ),
        ("check missing.csv --propose", "File 'missing.csv' does not exist."),
        ("quote census --target income", "Missing option '--epsilon' / '-e'."),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_the_values_that_are_accepted(
    command: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = purse(capsys, *command.split())
    assert (code, out) == (2, "")
    assert err.rstrip().endswith(says)
