"""`make story`: a hospital's file, from its check to a refusal, and the verification by an auditor.

Everything uses the public interface and commands. The file is computed by a rule, so it describes no real person. It
has the form of real files: semicolons, latin-1, decimal commas, and several rows of a patient.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from app.demo.server import serving
from purse import Client, ProblemError, load
from purse.wire.evaluations import TwoClasses
from purse.wire.statistics import CountsResult
from purse.wire.tokens import Role

EPSILONS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0)
TARGET: Final = "intensiv"
SPEC: Final[Mapping[str, Any]] = {
    "name": "Aufenthalte",
    "columns": [
        {"name": "alter", "type": "number", "lower": 0, "upper": 110},
        {"name": "kosten", "type": "number", "lower": 0, "upper": 20_000},
        {"name": "station", "type": "category", "categories": ["Chirurgie", "Geriatrie", "Säuglinge"]},
        {"name": TARGET, "type": "category", "categories": ["nein", "ja"]},
    ],
    "targets": [TARGET],
    "unit": {"column": "patient", "max_rows": 2},
    "budget": {"epsilon": 3.0, "delta": 1e-6},
    "holdout": 0.2,
    "dialect": {"delimiter": ";", "encoding": "windows-1252", "decimal": ",", "thousands": "."},
}
_MODEL: Final[dict[str, Any]] = {"target": TARGET, "positive": "ja", "privacy": {"epsilon": 2.0}}
_PEOPLE: Final[Mapping[str, Role]] = {"ada": "analyst", "bob": "analyst", "the auditor": "auditor"}


def stays(patients: int = 4000) -> bytes:
    """Return two stays of each patient. Older patients are more often in intensive care."""
    lines = ["patient;name;alter;kosten;station;intensiv"]
    for i in range(2 * patients):
        age, spread = i // 2 * 37 % 100, i * 7919 % 61
        station = "Säuglinge" if age < 3 else ("Chirurgie", "Geriatrie")[age > 65]
        cost = f"{1 + i % 9}.{i * 37 % 1000:03d},{i % 100:02d}"
        lines.append(f"P{i // 2};Müller {i // 2};{age};{cost};{station};{'ja' if age + spread > 80 else 'nein'}")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


def run(url: str, token: str, folder: Path, register: Callable[[Client, Path], str] | None = None) -> dict[str, Any]:
    """Run the story on a server, describe it on stdout, and return its figures.

    Parameters
    ----------
    url, token : of a server and of its steward
    folder : for files
    register : uploads the file and returns the dataset's id; the client's upload by default
    """
    file = folder / "aufenthalte.csv"
    file.write_bytes(stays())
    refused_columns = _checked(file, dict(SPEC) | {"dialect": {"delimiter": ";", "encoding": "windows-1252"}})
    print(f"purse check, with the decimal comma forgotten, would refuse the file for: {', '.join(refused_columns)}")
    print(f"  with the decimal comma declared, it would refuse: {', '.join(_checked(file, SPEC)) or 'nothing'}")
    with Client(url, token) as steward:
        uploaded = register(steward, file) if register else steward.datasets.upload(file, spec=SPEC).id
        dataset = steward.datasets.get(uploaded)
        people = {name: steward.tokens.create(name, role).token for name, role in _PEOPLE.items()}
        for name in ("ada", "bob"):
            steward.datasets.grant(dataset.id, name)
    print(
        f"{dataset.name}: {dataset.persons:,} patients to train on; a patient is the unit, and the budget is epsilon 3"
    )
    with Client(url, people["ada"]) as ada, Client(url, people["bob"]) as bob:
        expected = ada.forecast(dataset=dataset.id, target=TARGET, positive="ja", epsilons=EPSILONS, runs=5)
        print("accuracy to expect, tried on synthetic rows:")
        for at in expected.at:
            quote = ada.quote(dataset=dataset.id, **_MODEL | {"privacy": {"epsilon": at.epsilon}})
            score = f"{at.score.median:.3f}, between {at.score.low:.3f} and {at.score.high:.3f}"
            print(f"  epsilon {at.epsilon:g} uses {100 * quote.share:.1f} % of the budget; accuracy {score}")
        counted = bob.jobs.submit(dataset=dataset.id, method="counts", columns=["station"], privacy=0.3).statistic()
        assert isinstance(counted.result, CountsResult)
        counts = ", ".join(f"{count:,.0f}" for count in counted.result.counts)
        print(f"bob releases counts of the column station: {counts}")
        job = ada.jobs.submit(dataset=dataset.id, **_MODEL)
        model = job.result(progress=False)
        measured = job.evaluate(privacy=2.0).evaluation(progress=False).result
        assert isinstance(measured, TwoClasses)
        accuracy, auc = measured.accuracy, measured.auc
        print(f"ada trains a model at epsilon {_MODEL['privacy']['epsilon']:g}; on the holdout set it has")
        print(f"  accuracy {accuracy.value:.3f}, between {accuracy.low:.3f} and {accuracy.high:.3f} (95 %)")
        print(f"  AUC {auc.value:.3f}, between {auc.low:.3f} and {auc.high:.3f} (95 %)")
        job.receipt().save(folder)
        refused = _refused(ada, dataset.id)
    with Client(url, people["the auditor"]) as auditor:
        budget = auditor.datasets.budget(dataset.id)
        ledger = list(auditor.ledger(dataset.id))
    shares = {analyst.analyst: analyst.share for analyst in budget.analysts}
    checked = load(folder / "receipt.json", folder / "keys.json").verify(model=model, ledger=ledger)
    print(
        f"the auditor sees {', '.join(f'{name} {100 * share:.1f} %' for name, share in shares.items())} of the budget,"
    )
    print(
        f"  and recomputes ada's receipt without the server: epsilon {checked.recomputed_epsilon:.4g}, "
        f"by {checked.accountant}"
    )
    print(f"one more model is refused: {refused}")
    return {
        "dataset": dataset.id,
        "auditor": people["the auditor"],
        "wrong": refused_columns,
        "shares": shares,
        "expected": [at.score.median for at in expected.at],
        "accuracy": accuracy.model_dump(),
        "auc": auc.model_dump(),
        "recomputed": checked.recomputed_epsilon,
        "refused": refused,
    }


def _checked(file: Path, spec: Mapping[str, Any]) -> list[str]:
    """Return the columns for which `purse check` refuses the file."""
    declared = file.with_suffix(".json")
    declared.write_text(json.dumps(spec))
    command = [sys.executable, "-P", "-m", "app.cli", "check", str(file), "--spec", str(declared), "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    refused: list[str] = json.loads(process.stdout)["refused"]
    return refused


def _refused(analyst: Client, dataset: str) -> str:
    try:
        analyst.jobs.submit(dataset=dataset, **_MODEL)
    except ProblemError as error:
        return error.code
    raise RuntimeError("a job was admitted beyond the budget")


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory(prefix="purse-story-") as folder_name,
        serving(Path(folder_name)) as (server_url, steward_token),
    ):
        run(server_url, steward_token, Path(folder_name))
