"""purse receipt get, purse receipt verify."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from accounting.errors import CodecError
from accounting.privacy import Unit
from accounting.records.documents import parse
from accounting.records.signing import named_key
from app.cli.common import DEFAULT_URL, Job, Json, Refusal, Url, connect, emit, facts, percent
from app.cli.ledger import Heads, read_entries, read_head
from purse import Receipt, load
from purse.receipts import AsWritten, Released, read_document
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.models import Model
from purse.wire.neighbors import lines
from purse.wire.profiles import DatasetProfile
from purse.wire.receipts import KeySet
from purse.wire.statistics import ReleasedStatistic

group = typer.Typer(no_args_is_help=True, help="Save receipts, and verify them without a server.")


@group.command("get")
def get(
    job: Job,
    folder: Annotated[Path, typer.Option("--out", "-o", help="The folder for receipt.json and keys.json.")] = Path(),
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Save a job's receipt, and beside it the keys that the server publishes now.

    \b
    Example:
      purse receipt get job_abc --out receipts/job_abc
    """
    with connect(url) as client:
        receipt = client.jobs.receipt(job)
    written = receipt.save(folder)
    emit(receipt.document, json, lambda: show(receipt, written))


@group.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The receipt.")],
    keys: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="The keys to trust; keys.json beside the receipt.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Also check that it is for this model.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Also check that this exported ledger holds it.")
    ] = None,
    heads: Heads = None,
    json: Json = False,
) -> None:
    """Check signature and spend from the file alone, without a server. A key inside a receipt is never trusted.

    With an exported ledger also: that it holds by itself and contains the heads that are given, and that it records
    this release, for a charge of what the receipt states.

    \b
    Examples:
      purse receipt verify receipts/job_abc/receipt.json
      purse receipt verify receipt.json --keys keys-of-march.json --model model.json
      purse receipt verify receipt.json --keys keys-of-march.json --ledger census.jsonl --head 41:7630f44b...
    """
    trusted = keys or file.parent / "keys.json"
    if not trusted.exists():
        raise typer.BadParameter(f"no keys to trust: {trusted} is not there; name a file with --keys")
    released = None if model is None else _written(model)
    entries = None if ledger is None else read_entries(ledger)
    receipt = load(file, trusted)
    found = receipt.verify(model=released, ledger=entries, heads=[read_head(given, trusted) for given in heads or ()])
    emit(
        asdict(found),
        json,
        lambda: facts(
            [
                ("signature", f"holds, by key {named_key(receipt.document.signature)} of {trusted}"),
                ("stated", f"epsilon {found.stated_epsilon:.6g}"),
                ("recomputed", f"epsilon {found.recomputed_epsilon:.6g} by {found.accountant}"),
                *([] if model is None else [("model", "is the one released")]),
                *([] if ledger is None else [("ledger", "holds, and holds this release")]),
                ("head", receipt.head),
            ]
        ),
    )


@group.command("ask")
def ask(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The receipt.")],
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """What the server finds of a receipt, its ledger looked up; exit code 1 if it is not valid. Needs no token.

    \b
    Example:
      purse receipt ask receipt.json
    """
    with connect(url) as client:
        found = client.verify(Receipt(read_document(file), KeySet(keys=[])))
    emit(found, json, lambda: facts([(name, "-" if value is None else value) for name, value in found]))
    if not found.valid:
        raise typer.Exit(1)


def _written(file: Path) -> AsWritten:
    """A model, a profile, a statistic or an evaluation, with all that its file holds."""
    try:
        document = parse(file.read_bytes())
    except CodecError as error:
        raise Refusal(f"--model {file}: {error}") from None
    found: tuple[type[Released], ...] = (DatasetProfile, ReleasedStatistic, ReleasedEvaluation)
    kinds = dict(zip(("profile", "statistic", "evaluation"), found, strict=True))
    kind = kinds.get(str(document.get("kind")) if isinstance(document, dict) else "", Model)
    try:
        kind.model_validate(document, strict=False, extra="ignore")
    except ValidationError:
        raise Refusal(f"--model {file}: no model, profile, statistic or evaluation as a job released it") from None
    return dict(document)


def show(receipt: Receipt, written: tuple[Path, Path] | None = None) -> None:
    """A receipt for people."""
    said = receipt.facts
    unit = Unit(**said.get("unit", {}))
    facts(
        [
            ("receipt", said["id"]),
            ("dataset", f"{said['dataset_name']} ({said[f'{unit.name}s']} {unit.name}s)"),
            ("protected", unit),
            ("analyst, job", f"{said['analyst']}, {said['job']}"),
            ("privacy", f"epsilon {said['epsilon']:.6g} at delta {said['delta']:.3g}"),
            *lines(said["neighbors"], said["epsilon"], said["delta"]),
            *([("takes", f"{percent(said['share'])} of the budget")] if "share" in said else []),
            ("method", said["method"]["name"]),
            *([("standardised by", said["profile"]["job"])] if "profile" in said else []),
            ("accountant", f"{said['accountant']} {said['accountant_version']}"),
            ("head", receipt.head),
            ("issued", said["issued_at"]),
            *([] if written is None else [("written", " and ".join(str(path) for path in written))]),
        ]
    )
