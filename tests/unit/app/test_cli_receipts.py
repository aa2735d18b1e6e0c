"""`purse receipt verify` from files alone: which keys it trusted, and that a model's file is the one released."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.records import receipt
from accounting.records.documents import canonical
from app.cli import main
from purse import Model
from purse.receipts import NotVerified, load
from tests.support.cli import purse
from tests.support.models import model_document
from tests.support.receipts import KEY, KEYS, make

MODEL = Model.model_validate(model_document(job="j1", intercept=0.1)).model_dump(mode="json")  # whole, as released
TEXT = json.dumps(MODEL)
OTHERS = {
    "what it has beside": json.dumps(MODEL | {"accuracy": 0.99}),
    "a promise it does not make": json.dumps(MODEL | {"privacy": MODEL["privacy"] | {"certified_epsilon": 0.001}}),
    "a number as text": json.dumps(MODEL | {"intercept": "0.1"}),
    "another number": json.dumps(MODEL | {"intercept": 0.2}),
    "a repeated key": TEXT.replace('"intercept": 0.1', '"intercept": 99.0, "intercept": 0.1'),
    "no number": TEXT.replace('"intercept": 0.1', '"intercept": NaN'),
    "no model": "[]",
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A receipt of the model, its keys, and the model, indented as `purse model` writes it."""
    built = make(model_sha256=hashlib.sha256(canonical(MODEL)).hexdigest())
    (tmp_path / "receipt.json").write_text(json.dumps({"receipt": built, "signature": receipt.sign(built, KEY)}))
    (tmp_path / "keys.json").write_text(json.dumps(KEYS))
    (tmp_path / "model.json").write_text(json.dumps(MODEL, indent=2, ensure_ascii=False))
    return tmp_path


def verified(folder: Path, *more: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["receipt", "verify", str(folder / "receipt.json"), *more])
    return int(ended.value.code or 0)


def test_it_says_which_key_signed_and_what_made_it_trusted(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key file that lies beside the receipt came, perhaps, from where the receipt did."""
    assert verified(kept) == 0
    beside = f"valid, by key {KEY.private.thumbprint()} of {kept / 'keys.json'}"
    assert beside in " ".join(capsys.readouterr().out.split())
    (kept / "keys.json").rename(kept / "of-march.json")
    assert verified(kept, "--keys", str(kept / "of-march.json")) == 0
    assert str(kept / "of-march.json") in capsys.readouterr().out


def test_a_file_is_the_model_released_with_all_that_it_holds(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(kept, "--model", str(kept / "model.json"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["holds"]


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_a_file_that_says_more_or_otherwise_is_not_the_one_released(
    kept: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """As the browser's check has it: what is hashed is the file's own value, and not what a model reads of it."""
    (kept / "other.json").write_text(text)
    assert verified(kept, "--model", str(kept / "other.json")) == 1
    assert capsys.readouterr().out == ""


def test_a_receipt_takes_a_model_as_its_file_holds_it(kept: Path) -> None:
    found = load(kept / "receipt.json", kept / "keys.json")
    found.verify_signature(model=MODEL)
    for wrong in (MODEL | {"accuracy": 0.99}, MODEL | {"rows": 2**60}):
        with pytest.raises(NotVerified):
            found.verify_signature(model=wrong)


def test_warnings_of_predictions_are_notes_and_stated_once(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def predict(*_: object) -> Any:
        for _repeated in range(2):
            warnings.warn("Some rows are odd.", UserWarning, stacklevel=1)
        return np.zeros(1)

    monkeypatch.setattr(Model, "predict", predict)
    (kept / "rows.csv").write_text("age\n30\n")
    code, out, err = purse(capsys, "predict", str(kept / "model.json"), str(kept / "rows.csv"))
    assert (code, out, err) == (0, "prediction\n0.0\n", "warning: Some rows are odd.\n")
