"""purse ledger."""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from accounting.errors import AccountingError
from accounting.records.chain import Entry, Head, from_lines, to_lines
from app.cli import entries, late
from app.cli.entries import EntryFilter
from app.cli.options import Dataset, Home, Json, OptionalFile, OutFile
from app.cli.output import Output, Refusal, note, read_json, write_json
from purse import Client, text

Heads = Annotated[list[str] | None, typer.Option("--head")]


def show(client: Client, json: Json, dataset: Dataset, selection: EntryFilter) -> Output:
    """Show the entries of a dataset's ledger.

    The oldest entry comes first. The share of a charge is its part of the budget. The shares of all charges
    that were not refunded add up to the spent part.

    \b
    Examples:
      purse ledger show census
      purse ledger show census --analyst ada --kind charged --since 2026-11-01
    """
    ledger = _fetch(client, dataset)
    selected = selection.among(ledger)
    return Output([entry.to_json() for entry in selected], "" if json else entries.as_table(ledger, selected))


def export(
    client: Client,
    json: Json,
    dataset: Dataset,
    selection: EntryFilter,
    form: Annotated[Literal["jsonl", "csv"], typer.Option("--format")] = "jsonl",
    out: OutFile = None,
) -> Output | None:
    """Write a dataset's ledger to a file.

    Without --out, the entries are written to stdout. A whole ledger as JSON lines can be verified by itself.

    Parameters
    ----------
    form : jsonl can be verified later, csv is for reading.
    out : Write the entries to this file instead.

    \b
    Examples:
      purse ledger export census --out census.jsonl
      purse ledger export census --format csv --since 2026-11-01 > november.csv
    """
    ledger = _fetch(client, dataset)
    selected = selection.among(ledger)
    content = entries.as_csv(ledger, selected) if form == "csv" else to_lines(selected)
    if form == "jsonl" and not selection.is_all:
        note("This is a part of the ledger. Only a whole ledger can be verified by itself.")
    if out is None and not json:
        sys.stdout.buffer.write(content)
        return None
    if out is not None:
        out.write_bytes(content)
    facts = {"file": None if out is None else str(out), "entries": len(selected), "head": str(ledger[-1].head)}
    return Output(facts | ({"exported": content.decode()} if out is None else {}), text.facts(facts.items()))


def head(client: Client, dataset: Dataset, out: OutFile = None) -> Output:
    """Show the newest entry's number and hash.

    Keep the head where the server cannot change it. If a later ledger does not contain it, entries were removed or
    rewritten. The file of --out is signed.

    \b
    Examples:
      purse ledger head census
      purse ledger head census --out heads/census-2026-11-22.json
    """
    newest = client.ledger_head(dataset)
    if out is not None:
        write_json(out, newest)
    return Output(newest, f"{Head(newest.sequence, newest.hash)}\n")


def verify(
    file: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False)] = None,
    heads: Heads = None,
    keys: OptionalFile = None,
    home: Home = None,
) -> Output:
    """Verify an exported ledger, or all ledgers of a server.

    The exit code is 1 if a ledger is not valid. The chain must be whole and contain every given head, and no charge may
    exceed the budget. Without a file, every ledger under PURSE_HOME is compared with the stored state, the epoch and
    the values of the datasets. The server may run meanwhile.

    Parameters
    ----------
    file : An exported ledger. Default: all ledgers under --home.
    heads : A head that the ledger must contain: SEQUENCE:HASH, or the file of a head or receipt. Repeatable.
    keys : The keys to trust, for files of heads and receipts.

    \b
    Examples:
      purse ledger verify census.jsonl --head 41:7630f44b...
      purse ledger verify census.jsonl --head receipt.json --keys keys.json
      purse ledger verify --home /srv/purse
    """
    known_heads = [read_head(head, keys) for head in heads or ()]
    if file is None:
        return _verify_home(home, known_heads)
    ledger = read_entries(file)
    try:
        state = late.offline.verify_ledger(ledger, known_heads)
    except AccountingError as error:
        raise Refusal(f"{file} is not valid: {error}") from None
    budget = state.filter.privacy
    document: dict[str, Any] = {
        "dataset": ledger[0].body["dataset"],
        "entries": len(ledger),
        "head": str(ledger[-1].head),
        "jobs": state.charges,
        "share": sum(late.offline.shares(ledger, state).values()),
        "state": ", ".join(name for name in ("rolled_back", "frozen") if getattr(state, name)) or "open",
    }
    epsilons = {
        "budget": budget.epsilon,
        "spent": late.ledger.spent_epsilon(state),
        "remaining": late.ledger.remaining_epsilon(state),
    }
    facts = document | {name: text.loss(epsilon, budget.delta) for name, epsilon in epsilons.items()}
    facts |= {"share": text.percent(document["share"])}
    document |= {name: {"epsilon": epsilon, "delta": budget.delta} for name, epsilon in epsilons.items()}
    contained = [("contains", str(each)) for each in known_heads]
    return Output(document, text.facts([("ledger", "valid"), *facts.items(), *contained]))


def new_key(is_lost: bool = False, home: Home = None) -> Output:
    """Create a new signing key after the loss of the old one.

    Existing receipts can then be verified only with keys that were saved earlier.

    Parameters
    ----------
    is_lost : Confirm that the old key is in no backup.

    \b
    Example:
      purse ledger new-key --is-lost --home /srv/purse
    """
    settings = late.state.settings_of_home(home)
    file = settings.home / late.keys.KEY_FILE
    if file.exists():
        raise Refusal(f"{file} exists. To replace a key that is not lost, use `purse keys rotate`.")
    if not is_lost:
        raise Refusal("No key was created. Restore the key from a backup, or confirm its loss with --is-lost.")
    late.lives.check_free(settings)
    late.keys.SigningKeys(settings.make_home())
    return Output({"key": str(file)}, notes=[f"Created {file}. Keep a copy of it."])


def accept_rollback(reason: Annotated[str, typer.Option()], home: Home = None) -> Output:
    """Continue from an older copy of the database.

    Use it if the newest database is lost. Charges since the copy are unknown. Each ledger that lost entries records the
    reason and is frozen. Its open jobs fail and stay charged. Open sessions that lost recorded answers, or whose ledger
    lost entries, expire and stay charged. Afterwards a steward charges what may be lost, by `purse dataset charge`, and
    unfreezes the dataset, or leaves it frozen.

    Parameters
    ----------
    reason : What happened, in 1 to 256 characters. The ledgers record it.

    \b
    Example:
      purse ledger accept-rollback --reason "disk lost" --home /srv/purse
    """
    settings = late.state.settings_of_home(home)
    late.lives.check_free(settings)
    with closing(late.home.open_database(settings)) as database:
        rollback = late.rollback.accept(database, settings, reason)
    if not rollback.ledgers and not rollback.missing and not rollback.sessions:
        raise Refusal("Every ledger contains the head that was published of it, so there is nothing to accept.")
    rows = [(name, "unknown" if head is None else str(head), "frozen") for name, head in rollback.ledgers.items()]
    missing = "missing: if registered again, it needs an external charge"
    rows += [(name, str(head), missing) for name, head in rollback.missing.items()]
    rows += [(name, "recorded answers", "expired, and charged as a whole") for name in rollback.sessions]
    document = [{"ledger": name, "lacks": head, "is": state} for name, head, state in rows]
    return Output(document, text.table(("ledger", "missing head", "now"), rows))


def read_entries(file: Path) -> list[Entry]:
    """Return the entries in an exported file, unverified. Raise `Refusal` if the file is not an exported ledger."""
    try:
        return from_lines(file.read_bytes())
    except AccountingError as error:
        raise Refusal(f"{file} is not an exported ledger in JSON lines: {error}") from None


def read_head(head: str, keys: Path | None) -> Head:
    """Return the head SEQUENCE:HASH, or the head in a file, which a trusted key must have signed."""
    try:
        if not Path(head).is_file():
            return Head.parse(head)
        if keys is None:
            raise Refusal(f"--head {head} is a signed file. Name the keys to trust with --keys.")
        return late.heads.read_head(Path(head).read_bytes(), read_json(keys))
    except AccountingError as error:
        raise Refusal(f"--head {head}: {error}") from None


def _fetch(client: Client, dataset: str) -> list[Entry]:
    return [Entry.from_json(entry.model_dump()) for entry in client.ledger(dataset)]


def _verify_home(home: Path | None, heads: Sequence[Head]) -> Output:
    settings = late.state.settings_of_home(home)
    with closing(late.home.open_database(settings)) as database:
        names = late.state.dataset_names(database)
        faults = late.audit.verify(database)
        is_whole = late.values.verify(database, settings.home)
        missing = late.audit.lacking(database, heads)
        behind = late.epoch.shortfall(settings, database)
    for dataset in (dataset for dataset, whole in is_whole.items() if not whole):
        faults[dataset] = faults.get(dataset) or "its values are not the ones that were stored"
    faults |= {dataset: faults.get(dataset) or fault for dataset, fault in behind.items()}
    faults |= {f"head {head}": "no ledger contains it: one was cut or rewritten" for head in missing}
    lines = []
    for key, fault in faults.items():
        finding = "valid" if fault is None else f"{key}: {fault}" if key in names else fault
        lines.append((names.get(key, key), finding))
    return Output(faults, text.table(("dataset", "ledger"), lines), exit_code=1 if any(faults.values()) else 0)
