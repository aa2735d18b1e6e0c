"""What a command refuses of what it was given: one line, in words of ours, that says what to give instead."""

import json
from pathlib import Path

import pytest

from tests.support.cli import purse

COLUMNS = [
    {"name": "age", "type": "number", "lower": 0, "upper": 100},
    {"name": "income", "type": "category", "categories": ["low", "high"]},
]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "check people.csv --spec schema.json --target incme",
            "--target incme: no declared column; there are age, income",
        ),
        ("check people.csv", "name either --spec FILE or --propose"),
        ("check people.csv --propose --spec schema.json", "name either --spec FILE or --propose"),
        (
            "receipt verify people.csv --keys schema.json --model schema.json",
            "--model schema.json: no model, profile, statistic or evaluation as a job released it",
        ),
        ("token create ada --role analyst --scope manage --local", "the scopes of this role are read, quote, submit"),
    ],
)
def test_it_says_what_to_give(
    command: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Review: three of these were pydantic's own pages, with an address of theirs."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,income\n40,low\n")
    Path("schema.json").write_text(json.dumps(COLUMNS))
    code, out, err = purse(capsys, *command.split())
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"purse: {says}")
