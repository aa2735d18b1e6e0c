"""purse token create, list, revoke."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Home, Json, Url, connect, emit, facts, note, table
from app.wire.tokens import NewToken, TokenRequest

group = typer.Typer(no_args_is_help=True, help="Make, list and revoke bearer tokens.")


class Role(StrEnum):
    """What the bearer may do."""

    steward = "steward"
    analyst = "analyst"
    auditor = "auditor"


@group.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose token it is; shown in budgets and receipts.")],
    role: Annotated[Role, typer.Option(help="steward (all), analyst (quotes and jobs), auditor (reads).")],
    local: Annotated[
        bool, typer.Option("--local", help="In the state under --home, without a server: when every token is lost.")
    ] = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A new token, shown this once: on the server with PURSE_TOKEN, else in the state under PURSE_HOME.

    \b
    Examples:
      purse token create alice --role analyst
      purse token create me --role steward --local
    """
    if local or not (os.environ.get("PURSE_TOKEN") or os.environ.get("PURSE_URL")):
        note("Made in the local state, without a server.")
        made = _in_home(home, name, role)
    else:
        with connect(url) as client:
            made = client.tokens.create(name, role.value)
    note("This token is shown once; only its hash is kept.")
    emit(made, json, lambda: facts([("id", made.id), ("name", made.name), ("role", made.role), ("token", made.token)]))


@group.command("list")
def list_tokens(url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Live tokens, without their secrets.

    \b
    Example:
      purse token list
    """
    with connect(url) as client:
        found = client.tokens.list()
    rows = [(token.id, token.name, token.role, token.created_at) for token in found]
    emit(found, json, lambda: table(("id", "name", "role", "created"), rows))


@group.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(help="The token's id.")], url: Url = DEFAULT_URL, json: Json = False
) -> None:
    """Make a token invalid, for good. Its jobs go on and its charges stay.

    \b
    Example:
      purse token revoke tok_abc
    """
    with connect(url) as client:
        client.tokens.revoke(token)
    emit({"id": token, "revoked": True}, json, lambda: note(f"revoked {token}"))


def _in_home(home: Path | None, name: str, role: Role) -> NewToken:
    from app.cli.state import opened, settings_of
    from app.identity import service

    with opened(settings_of(home)) as database:
        return service.create(database, TokenRequest(name=name, role=role.value))
