"""purse db copy."""

from typing import Annotated

import typer

from app.cli.common import Home, Json, Refusal, emit, note, table

group = typer.Typer(no_args_is_help=True, help="The database of an installation.")


@group.callback()
def _db() -> None:
    """A group, of one command so far."""


@group.command("copy")
def copy(
    source: Annotated[str | None, typer.Option("--from", help="The database to copy; the home's SQLite file.")] = None,
    target: Annotated[str | None, typer.Option("--to", help="An empty one; that of PURSE_DATABASE_URL.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Copy an installation to another database, from SQLite to PostgreSQL say, while no server runs on it.

    One transaction. Before it is committed each ledger is replayed on both ends against its stored state, each
    receipt's signature is checked, and every row is compared. The home stays as it is; its epoch goes on with the copy.
    The old database is not the service's any more, and a start on it is refused.

    \b
    Examples:
      purse db copy --to postgresql://purse@db.example/purse --home /srv/purse
      PURSE_DATABASE_URL=postgresql://purse@db.example/purse purse db copy --home /srv/purse
    """
    from app.cli.state import opened, refuse_second, settings_of_home
    from app.ledger.keys import SigningKeys
    from app.ledger.moving import copy as moved
    from app.persistence.files import StartRefused
    from app.persistence.session import Database

    settings = settings_of_home(home)
    source = source or settings.model_copy(update={"database_url": None}).database
    target = target or settings.database
    if source == target:
        raise Refusal("name another database with --to, or in PURSE_DATABASE_URL")
    here = settings.model_copy(update={"database_url": source})
    refuse_second(here)
    with opened(here) as old:
        new = Database(target)
        try:
            found = moved(old, new, SigningKeys.beside(settings.home, old).jwks())
        except StartRefused as error:
            raise Refusal(str(error)) from None
        finally:
            new.close()
    rows = {name: count for name, (count, _) in found.tables.items()}
    told = {"ledgers": {of: str(head) for of, head in found.heads.items()}, "receipts": found.receipts, "rows": rows}

    def say() -> None:
        table(("ledger", "head", "on both ends"), [(of, str(head), "holds") for of, head in found.heads.items()])
        note(f"{sum(rows.values())} rows copied; {found.receipts} receipts, each signed by a key of {settings.home}")

    emit(told, json, say)
