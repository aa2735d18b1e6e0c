"""purse ledger show, export, head, verify."""

import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from accounting.errors import AccountingError
from accounting.records.receipt import Entry, Head, from_lines
from app.cli import entries
from app.cli.common import (
    DEFAULT_URL,
    Dataset,
    Home,
    Json,
    Refusal,
    Url,
    connect,
    emit,
    facts,
    loss,
    note,
    percent,
    read_json,
    table,
    write_json,
)
from app.cli.entries import COLUMNS, Wanted

group = typer.Typer(no_args_is_help=True, help="Read ledgers, keep their heads, verify them with and without a server.")


class Format(StrEnum):
    """How a ledger is exported."""

    jsonl = "jsonl"
    csv = "csv"


Analyst = Annotated[str | None, typer.Option(help="Only what this analyst's jobs did.")]
Kind = Annotated[str | None, typer.Option(help="Only entries of this kind: charged, released, refunded ...")]
OfJob = Annotated[str | None, typer.Option("--job", help="Only this job's entries.")]
Since = Annotated[
    datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], help="Only what is not older, UTC.")
]
Heads = Annotated[
    list[str] | None,
    typer.Option(
        "--head", help="SEQUENCE:HASH, or a file: a saved head or a receipt; may be repeated. The ledger must hold it."
    ),
]
Keys = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="The keys to trust in files of heads and receipts.")
]


@group.command("show")
def show(
    dataset: Dataset,
    analyst: Analyst = None,
    kind: Kind = None,
    job: OfJob = None,
    since: Since = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A dataset's entries, oldest first: who was charged what, for which job, and what became of it.

    A charge's share is the part of the budget that it takes; those of all live charges add up to what is spent.

    \b
    Examples:
      purse ledger show census
      purse ledger show census --analyst ada --kind charged --since 2026-11-01
    """
    ledger = _fetched(url, dataset)
    chosen = Wanted(analyst, kind, job, since).among(ledger)
    emit([entry.to_json() for entry in chosen], json, lambda: table(COLUMNS, map(_told, entries.rows(ledger, chosen))))


@group.command("export")
def export(
    dataset: Dataset,
    form: Annotated[Format, typer.Option("--format", help="jsonl, which can be verified, or csv.")] = Format.jsonl,
    out: Annotated[Path | None, typer.Option("--out", "-o", dir_okay=False, help="The file; stdout if none.")] = None,
    analyst: Analyst = None,
    kind: Kind = None,
    job: OfJob = None,
    since: Since = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Write a dataset's entries to a file, or to stdout. Whole and as JSON lines, the file proves itself.

    \b
    Examples:
      purse ledger export census --out census.jsonl
      purse ledger export census --format csv --since 2026-11-01 > november.csv
    """
    wanted = Wanted(analyst, kind, job, since)
    ledger = _fetched(url, dataset)
    chosen = wanted.among(ledger)
    written = (entries.as_csv if form == Format.csv else entries.as_lines)(ledger, chosen)
    if out is None and not json:
        sys.stdout.buffer.write(written)
        return
    if out is not None:
        out.write_bytes(written)
    told = {"file": None if out is None else str(out), "entries": len(chosen), "head": str(ledger[-1].head)}
    emit(told | ({"exported": written.decode()} if out is None else {}), json, lambda: facts(told.items()))
    if form == Format.jsonl and not wanted.is_all:
        note("This is a part of the ledger: only a whole one can be verified by itself.")


@group.command("head")
def head(
    dataset: Dataset,
    out: Annotated[Path | None, typer.Option("--out", "-o", dir_okay=False, help="Also save it, signed.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """How far a ledger goes now, as SEQUENCE:HASH. Keep it where the service cannot reach: a ledger that lacks it later
    was cut or rewritten.

    \b
    Examples:
      purse ledger head census
      purse ledger head census --out heads/census-2026-11-22.json
    """
    with connect(url) as client:
        found = client.ledger_head(dataset)
    if out is not None:
        write_json(out, found)
    emit(found, json, lambda: typer.echo(Head(found.sequence, found.hash)))


@group.command("verify")
def verify(
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="An export; every ledger of the home if none.")
    ] = None,
    heads: Heads = None,
    keys: Keys = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Replay an exported ledger from the file alone; exit code 1 if it does not hold.

    Its chain must be whole and contain every head that is given, and no charge may pass the filter. Without a file:
    every ledger under PURSE_HOME, against what is stored of it, against the epoch and against every dataset's values; a
    server may run.

    \b
    Examples:
      purse ledger verify census.jsonl --head 41:7630f44b...
      purse ledger verify census.jsonl --head receipt.json --keys keys.json
      purse ledger verify --home /srv/purse
    """
    kept = [read_head(given, keys) for given in heads or ()]
    if file is None:
        _verify_home(home, kept, json)
        return
    from accounting.records.ledger import remaining_epsilon, spent_epsilon
    from accounting.records.offline import shares, verify_ledger
    from purse.wire.datasets import PrivacyLoss

    ledger = read_entries(file)
    try:
        state = verify_ledger(ledger, kept)
    except AccountingError as error:
        raise Refusal(f"{file} does not hold: {error}") from None
    promise = state.filter.privacy
    told = {
        "dataset": ledger[0].body["dataset"],
        "entries": len(ledger),
        "head": str(ledger[-1].head),
        "jobs": state.charges,
        "share": sum(shares(ledger, state).values()),
        "state": ", ".join(name for name in ("rolled_back", "frozen") if getattr(state, name)) or "open",
        **{
            name: {"epsilon": epsilon, "delta": promise.delta}
            for name, epsilon in {
                "budget": promise.epsilon,
                "spent": spent_epsilon(state),
                "remaining": remaining_epsilon(state),
            }.items()
        },
    }
    said = {name: loss(PrivacyLoss(**value)) if isinstance(value, dict) else value for name, value in told.items()}
    said["share"] = percent(told["share"])
    emit(told, json, lambda: facts([("ledger", "holds"), *said.items(), *[("contains", str(h)) for h in kept]]))


def read_entries(file: Path) -> list[Entry]:
    """The entries in an exported file, nothing of them checked yet; `Refusal` if it is none."""
    try:
        return from_lines(file.read_bytes())
    except AccountingError as error:
        raise Refusal(f"{file} is no exported ledger in JSON lines: {error}") from None


def read_head(given: str, keys: Path | None) -> Head:
    """SEQUENCE:HASH as it is written; or the head in a file, which a trusted key must have signed."""
    from accounting.records.heads import read_head as signed_head

    try:
        if not Path(given).is_file():
            return Head.parse(given)
        if keys is None:
            raise Refusal(f"whether {given} is genuine, keys tell: name a file of them with --keys")
        return signed_head(Path(given).read_bytes(), read_json(keys))
    except AccountingError as error:
        raise Refusal(f"--head {given}: {error}") from None


def _told(row: tuple[object, ...]) -> tuple[object, ...]:
    """A share in percent."""
    *said, share = row
    return (*said, percent(share) if isinstance(share, float) else share)


def _fetched(url: str, dataset: str) -> list[Entry]:
    with connect(url) as client:
        return [Entry.from_json(entry.model_dump()) for entry in client.ledger(dataset)]


def _verify_home(home: Path | None, heads: Sequence[Head], as_json: bool) -> None:
    from app.cli.state import opened, settings_of_home
    from app.datasets import values
    from app.ledger import audit, epoch

    settings = settings_of_home(home)
    with opened(settings) as database:
        found, whole = audit.verify(database), values.verify(database, settings.home)
        lacking, behind = audit.lacking(database, heads), epoch.shortfall(settings, database)
    for dataset in (dataset for dataset, is_whole in whole.items() if not is_whole):
        found[dataset] = found.get(dataset) or "its values are not those that were stored"
    found |= {of: found.get(of) or wrong for of, wrong in behind.items()}
    found |= {f"head {head}": "no ledger here contains it: one was cut or rewritten" for head in lacking}
    told: list[Any] = [(what, "holds" if wrong is None else wrong) for what, wrong in found.items()]
    emit(found, as_json, lambda: table(("dataset", "ledger"), told))
    if any(found.values()):
        raise typer.Exit(1)
