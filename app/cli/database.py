"""purse server copy-database."""

from contextlib import closing
from typing import Annotated

import typer

from app.cli.options import Home
from app.cli.output import Output, Refusal
from purse import text


def copy(
    source: Annotated[str | None, typer.Option("--from")] = None,
    target: Annotated[str | None, typer.Option("--to")] = None,
    home: Home = None,
) -> Output:
    """Copy a server to another database.

    For example, copy from SQLite to PostgreSQL. Stop every server first. The copy is one transaction. Before it is
    committed, every ledger is verified in both databases, every receipt's signature is checked, and every row is
    compared. The data folder stays as it is. Afterwards a server refuses to start on the old database.

    Parameters
    ----------
    source : The database to copy. Default: the SQLite file under --home.
    target : An empty database. Default: the one in PURSE_DATABASE_URL.

    \b
    Examples:
      purse server copy-database --to postgresql://purse@db.example/purse --home /srv/purse
      PURSE_DATABASE_URL=postgresql://purse@db/purse purse server copy-database --home /srv/purse
    """
    from app.cli.state import settings_of_home
    from app.identity.home import open_database
    from app.ledger.keys import SigningKeys
    from app.ledger.moving import copy as copy_rows
    from app.persistence.session import Database
    from app.services import check_free

    settings = settings_of_home(home)
    source = source or settings.model_copy(update={"database_url": None}).database
    target = target or settings.database
    if source == target:
        raise Refusal("The two databases are the same. Name another one with --to or in PURSE_DATABASE_URL.")
    old_settings = settings.model_copy(update={"database_url": source})
    check_free(old_settings)
    with closing(open_database(old_settings)) as old, closing(Database(target)) as new:
        copied = copy_rows(old, new, SigningKeys.beside(settings.home, old).jwks())
    counts = {name: count for name, (count, _) in copied.tables.items()}
    heads = {name: str(head) for name, head in copied.heads.items()}
    table = text.table(("ledger", "head", "in both"), [(name, head, "valid") for name, head in heads.items()])
    line = (
        f"Copied {sum(counts.values())} rows and {copied.receipts} receipts, each signed by a key of {settings.home}."
    )
    return Output({"ledgers": heads, "receipts": copied.receipts, "rows": counts}, table, [line])
