"""purse receipt get, verify, ask."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, TypeAdapter, ValidationError

from accounting.errors import CodecError
from accounting.privacy import Unit
from accounting.records.documents import parse
from accounting.records.signing import named_key
from app.cli.ledger import Heads, read_entries, read_head
from app.cli.options import File, Job, OptionalFile
from app.cli.output import Output, Refusal, described
from purse import Client, Receipt, load, text
from purse.receipts import AsWritten, Released, read_document
from purse.wire.receipts import KeySet


def get(client: Client, job: Job, out: Path = Path()) -> Output:
    """Save a job's receipt and the server's keys.

    Parameters
    ----------
    out : The folder for receipt.json and keys.json.

    \b
    Example:
      purse receipt get job_abc --out receipts/job_abc
    """
    return saved(client.jobs.receipt(job), out)


def verify(
    file: File, keys: OptionalFile = None, model: OptionalFile = None, ledger: OptionalFile = None, heads: Heads = None
) -> Output:
    """Verify a receipt without a server.

    The command checks the signature and computes epsilon again. A key inside a receipt is never trusted. With an
    exported ledger, the command also verifies the ledger, looks for the given heads in it, and compares the charge of
    the release with the receipt.

    Parameters
    ----------
    file : The receipt.
    keys : The keys to trust. Default: keys.json beside the receipt.
    model : Also check that the receipt is for this model, or another result of a job.
    ledger : Also check that this exported ledger has the release.
    heads : A head that the ledger must contain: SEQUENCE:HASH, or the file of a head or receipt. Repeatable.

    \b
    Examples:
      purse receipt verify receipts/job_abc/receipt.json
      purse receipt verify receipt.json --keys march.json --model model.json
      purse receipt verify receipt.json --ledger census.jsonl --head 41:7630f4...
    """
    trusted = keys or file.parent / "keys.json"
    if not trusted.exists():
        raise typer.BadParameter(f"no keys to trust: {trusted} does not exist. Name a file with --keys")
    released = None if model is None else _released(model)
    entries = None if ledger is None else read_entries(ledger)
    receipt = load(file, trusted)
    checked = receipt.verify(model=released, ledger=entries, heads=[read_head(head, trusted) for head in heads or ()])
    findings = [
        ("signature", f"valid, by key {named_key(receipt.document.signature)} of {trusted}"),
        ("stated", f"epsilon {checked.stated_epsilon:.4g}"),
        ("recomputed", f"epsilon {checked.recomputed_epsilon:.4g} by {checked.accountant}"),
    ]
    if model is not None:
        findings.append(("model", "is the one released"))
    if ledger is not None:
        subject = "session" if "session" in receipt.facts else "release"
        findings.append(("ledger", f"valid, and has this {subject}"))
    return Output(asdict(checked), text.facts([*findings, ("head", receipt.head)]))


def ask(client: Client, file: File) -> Output:
    """Have the server verify a receipt.

    The server also looks up its ledger. The exit code is 1 if the receipt is not valid. No token is needed.

    Parameters
    ----------
    file : The receipt.

    \b
    Example:
      purse receipt ask receipt.json
    """
    report = client.verify(Receipt(read_document(file), KeySet(keys=[])))
    return Output(report, described(report, *type(report).model_fields), exit_code=0 if report.valid else 1)


def saved(receipt: Receipt, folder: Path) -> Output:
    """Save a receipt and the server's keys, and return them as the result of a command."""
    paths = receipt.save(folder)
    written = ("written", " and ".join(map(str, paths)))
    return Output(receipt.document, text.facts([*facts(receipt), written]))


def facts(receipt: Receipt) -> list[tuple[str, object]]:
    """Return the lines that describe a receipt."""
    stated = receipt.facts
    unit = Unit(**stated.get("unit", {}))
    lines: list[tuple[str, object]] = [
        ("receipt", stated["id"]),
        ("dataset", f"{stated['dataset_name']} ({stated[f'{unit.name}s']:,} {unit.name}s)"),
        ("protected", unit),
        _subject(stated),
        ("privacy", text.loss(stated["epsilon"], stated["delta"])),
        ("neighbors", stated["neighbors"]),
    ]
    if "share" in stated:
        lines.append(("used", f"{text.percent(stated['share'])} of the budget when charged"))
    if "session" in stated:
        lines += _session_facts(stated)
    else:
        lines.append(("method", stated["method"]["name"]))
    if "profile" in stated:
        lines.append(("scaled by", stated["profile"]["job"]))
    return [
        *lines,
        ("accountant", f"{stated['accountant']} {stated['accountant_version']}"),
        ("head", receipt.head),
        ("issued", stated["issued_at"]),
    ]


def _subject(stated: Mapping[str, Any]) -> tuple[str, str]:
    kind = "session" if "session" in stated else "job"
    return f"analyst, {kind}", f"{stated['analyst']}, {stated[kind]}"


def _session_facts(stated: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return the lines about the plan of a session, its end and its charge."""
    planned = [f"{uses['recorded']:,} of {uses['count']:,} {uses['event']['type']}" for uses in stated["plan"]]
    return [
        ("state", stated["state"]),
        ("recorded", f"{', '.join(planned)}: {stated['asserted']}"),
        ("charged", f"{stated['charged']}: {text.loss(stated['charged_epsilon'], stated['delta'])}"),
    ]


def _released(file: Path) -> AsWritten:
    """Return a model, profile, statistic or evaluation, with every field of its file."""
    released: TypeAdapter[Released] = TypeAdapter(Annotated[Released, Field(discriminator="kind")])
    try:
        document = parse(file.read_bytes())
        released.validate_python(document, strict=False, extra="ignore")
    except CodecError as error:
        raise Refusal(f"--model {file}: {error}") from None
    except ValidationError:
        raise Refusal(
            f"--model {file}: not a model, profile, statistic or evaluation. Use a file that `purse model --out` wrote."
        ) from None
    return dict(document)
