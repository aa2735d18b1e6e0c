"""purse token create, list, rotate, revoke."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Home, Json, OldestFirst, Refusal, Url, connect, emit, facts, note, table
from purse.wire import tokens as wire
from purse.wire.base import Order
from purse.wire.tokens import NewToken, TokenRequest

group = typer.Typer(no_args_is_help=True, help="Make, list, rotate and revoke bearer tokens.")


class Role(StrEnum):
    """What the bearer may do."""

    steward = "steward"
    analyst = "analyst"
    auditor = "auditor"


class Scope(StrEnum):
    """Part of what a role may do."""

    read = "read"
    quote = "quote"
    submit = "submit"
    manage = "manage"


Token = Annotated[str, typer.Argument(help="The token's id.")]


@group.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose token it is; shown in budgets and receipts.")],
    role: Annotated[Role, typer.Option(help="steward (all), analyst (quotes and jobs), auditor (reads).")],
    local: Annotated[
        bool, typer.Option("--local", help="In the state under --home, without a server: when every token is lost.")
    ] = False,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="Part of what the role may do, once for each; all of it if left out.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days until it expires; never, if left out.")
    ] = None,
    home: Home = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A new token, shown this once: the server's, with a steward's PURSE_TOKEN, or with --local its home's.

    A name that is known, with its role, is another token of the same person or program.

    \b
    Examples:
      purse token create alice --role analyst
      purse token create dashboard --role analyst --scope read --days 90
      purse token create me --role steward --local
    """
    scopes: list[wire.Scope] | None = [one.value for one in scope] if scope else None
    lifetime = None if days is None else days * 86_400
    if local:
        made = _in_home(home, name, role, scopes, lifetime)
        note("Made in the local state, without a server.")
    else:
        with connect(url) as client:
            made = client.tokens.create(name, role.value, scopes=scopes, lifetime=lifetime)
    _show(made, json)


@group.command("list")
def list_tokens(
    name: Annotated[str | None, typer.Option(help="Only whose name is this.")] = None,
    role: Annotated[Role | None, typer.Option(help="Only those of this role.")] = None,
    oldest_first: OldestFirst = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Live tokens, without their secrets, the newest first.

    \b
    Examples:
      purse token list
      purse token list --role analyst
    """
    with connect(url) as client:
        order: Order = "asc" if oldest_first else "desc"
        found = client.tokens.list(name=name, role=None if role is None else role.value, order=order)
    rows = [(t.id, t.name, t.role, " ".join(t.scopes), t.created_at, t.expires_at or "-") for t in found]
    emit(found, json, lambda: table(("id", "name", "role", "scopes", "created", "expires"), rows))


@group.command("rotate")
def rotate(token: Token, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """A new secret in the place of a token, which ends now; whose it is, its scopes and its lifetime stay.

    \b
    Example:
      purse token rotate tok_abc
    """
    with connect(url) as client:
        made = client.tokens.rotate(token)
    _show(made, json)


@group.command("revoke")
def revoke(token: Token, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Make a token invalid, for good. Jobs go on, charges stay, and all remain the analyst's.

    \b
    Example:
      purse token revoke tok_abc
    """
    with connect(url) as client:
        client.tokens.revoke(token)
    emit({"id": token, "revoked": True}, json, lambda: note(f"revoked {token}"))


def _show(made: NewToken, json: bool) -> None:
    note("This token is shown once; only its hash is kept.")
    told: list[tuple[str, object]] = [("id", made.id), ("name", made.name), ("role", made.role)]
    told += [("scopes", " ".join(made.scopes)), ("expires", made.expires_at or "never"), ("token", made.token)]
    emit(made, json, lambda: facts(told))


def _in_home(
    home: Path | None, name: str, role: Role, scopes: list[wire.Scope] | None, lifetime: int | None
) -> NewToken:
    from app.cli.state import opened, settings_of_home
    from app.http.errors import ApiError
    from app.identity import service

    asked = TokenRequest(name=name, role=role.value, scopes=scopes, lifetime=lifetime)
    settings = settings_of_home(home)
    with opened(settings) as database:
        try:
            return service.create(database, asked, settings.max_token_lifetime)
        except ApiError as error:
            raise Refusal(f"{error.code}: {error.detail}") from None
