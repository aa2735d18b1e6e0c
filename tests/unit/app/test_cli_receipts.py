"""`purse receipt verify` from files alone: which keys it trusted, and that a model's file is the one released."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.records.documents import canonical
from accounting.records.signing import sign_json
from app.cli import main
from purse import Model
from purse.receipts import NotVerified, load
from tests.support.cli import purse
from tests.support.models import model_document
from tests.support.receipts import KEY, KEYS, make

MODEL = Model.model_validate(model_document(job="j1", intercept=0.1)).model_dump(mode="json")  # whole, as released
TEXT = json.dumps(MODEL)
CHANGED_DOCUMENTS = {
    "what it has beside": json.dumps(MODEL | {"accuracy": 0.99}),
    "a promise it does not make": json.dumps(MODEL | {"privacy": MODEL["privacy"] | {"certified_epsilon": 0.001}}),
    "a number as text": json.dumps(MODEL | {"intercept": "0.1"}),
    "another number": json.dumps(MODEL | {"intercept": 0.2}),
    "a repeated key": TEXT.replace('"intercept": 0.1', '"intercept": 99.0, "intercept": 0.1'),
    "no number": TEXT.replace('"intercept": 0.1', '"intercept": NaN'),
    "no model": "[]",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A receipt of the model, its keys, and the model, indented as `purse model` writes it."""
    built = make(model_sha256=hashlib.sha256(canonical(MODEL)).hexdigest())
    (tmp_path / "receipt.json").write_text(json.dumps({"receipt": built, "signature": sign_json(built, KEY)}))
    (tmp_path / "keys.json").write_text(json.dumps(KEYS))
    (tmp_path / "model.json").write_text(json.dumps(MODEL, indent=2, ensure_ascii=False))
    return tmp_path


def verified(folder: Path, *options: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        main(["receipt", "verify", str(folder / "receipt.json"), *options])
    return int(exit_info.value.code or 0)


def test_the_report_states_the_signing_key_and_the_file_that_made_it_trusted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key file in the receipt's folder may have the same, untrusted origin as the receipt."""
    assert verified(folder) == 0
    statement = f"valid, by key {KEY.private.thumbprint()} of {folder / 'keys.json'}"
    assert statement in " ".join(capsys.readouterr().out.split())
    (folder / "keys.json").rename(folder / "of-march.json")
    assert verified(folder, "--keys", str(folder / "of-march.json")) == 0
    assert str(folder / "of-march.json") in capsys.readouterr().out


def test_no_key_is_trusted_that_the_receipt_brings_along(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipt = json.loads((folder / "receipt.json").read_text())
    (folder / "receipt.json").write_text(json.dumps(receipt | {"keys": KEYS}))
    assert verified(folder) == 1
    (folder / "keys.json").unlink()
    assert verified(folder) == 2
    out, err = capsys.readouterr()
    assert (out, "--keys" in err) == ("", True)


def test_the_file_of_a_released_model_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(folder, "--model", str(folder / "model.json"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["holds"]


@pytest.mark.parametrize("text", CHANGED_DOCUMENTS.values(), ids=CHANGED_DOCUMENTS)
def test_a_changed_or_extended_file_is_not_the_released_model(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """The hash covers the document in the file, as in the browser's check, and not the parsed model."""
    (folder / "other.json").write_text(text)
    assert verified(folder, "--model", str(folder / "other.json")) == 1
    assert capsys.readouterr().out == ""


def test_a_receipt_verifies_a_model_as_its_file_contains_it(folder: Path) -> None:
    saved_receipt = load(folder / "receipt.json", folder / "keys.json")
    saved_receipt.verify_signature(model=MODEL)
    for wrong in (MODEL | {"accuracy": 0.99}, MODEL | {"rows": 2**60}):
        with pytest.raises(NotVerified):
            saved_receipt.verify_signature(model=wrong)


def test_warnings_of_predictions_are_notes_and_stated_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def predict(*_: object) -> Any:
        for _repeated in range(2):
            warnings.warn("Some rows are odd.", UserWarning, stacklevel=1)
        return np.zeros(1)

    monkeypatch.setattr(Model, "predict", predict)
    (folder / "rows.csv").write_text("age\n30\n")
    code, out, err = purse(capsys, "predict", str(folder / "model.json"), str(folder / "rows.csv"))
    assert (code, out, err) == (0, "prediction\n0.0\n", "warning: Some rows are odd.\n")
