"""purse ledger verify, new-key."""

from typing import Annotated

import typer

from app.cli.common import Home, Json, Refusal, emit, note, table

group = typer.Typer(no_args_is_help=True, help="Look after the ledgers under PURSE_HOME, without a server.")


@group.command("verify")
def verify(home: Home = None, json: Json = False) -> None:
    """Replay every ledger, check every dataset's values; exit code 1 if one does not hold. A server may run.

    \b
    Example:
      purse ledger verify --home /srv/purse
    """
    from app.cli.state import opened, settings_of
    from app.datasets import values
    from app.ledger import audit

    settings = settings_of(home)
    with opened(settings) as database:
        found, whole = audit.verify(database), values.verify(database, settings.home)
    for dataset in (dataset for dataset, is_whole in whole.items() if not is_whole):
        found[dataset] = found.get(dataset) or "its values are not those that were stored"
    rows = [(dataset, "holds" if wrong is None else wrong) for dataset, wrong in found.items()]
    emit(found, json, lambda: table(("dataset", "ledger"), rows))
    if any(found.values()):
        raise typer.Exit(1)


@group.command("new-key")
def new_key(
    is_lost: Annotated[bool, typer.Option("--is-lost", help="The old key is gone and in no backup.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make another signing key where the old one is lost. Receipts so far verify only with keys saved beside them.

    \b
    Example:
      purse ledger new-key --is-lost --home /srv/purse
    """
    from app.cli.state import refuse_second, settings_of
    from app.ledger.keys import KEY_FILE, SigningKeys

    settings = settings_of(home)
    file = settings.home / KEY_FILE
    if file.exists() or not is_lost:
        raise Refusal(f"{file} is there" if file.exists() else "restore the key from a backup, or say --is-lost")
    refuse_second(settings)
    SigningKeys(settings.make_home())
    emit({"key": str(file)}, json, lambda: note(f"made {file}; keep a copy of it"))
