"""purse token create, list, rotate, revoke."""

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.cli import late
from app.cli.options import DEFAULT_URL, Home, OldestFirst, Url
from app.cli.output import Output, described, note
from app.cli.running import connect
from purse import Client, text
from purse.wire import tokens as wire
from purse.wire.tokens import NewToken, Role, TokenRequest


class Scope(StrEnum):  # Typer repeats options of an enumeration, not of a Literal
    """Part of a role's permissions."""

    read = "read"
    quote = "quote"
    submit = "submit"
    session = "session"
    manage = "manage"


Token = Annotated[str, typer.Argument(help="The token's id.")]


def create(
    name: str,
    role: Annotated[Role, typer.Option()],
    local: bool = False,
    scope: list[Scope] | None = None,
    days: Annotated[int | None, typer.Option(min=1, max=3650)] = None,
    home: Home = None,
    url: Url = DEFAULT_URL,
) -> Output:
    """Create an access token.

    The token is shown only once. Your PURSE_TOKEN must be a steward's, unless you use --local. If the name
    already has this role, the person or program gets another token.

    Parameters
    ----------
    name : Name of the person or program. Budgets and receipts show it.
    role : steward (all), analyst (quotes, jobs, sessions) or auditor (reading).
    local : Create the token under --home, without a server. For the case that all tokens are lost.
    scope : A part of the role's permissions. Repeatable. Default: all.
    days : Days until the token expires. Default: never.

    \b
    Examples:
      purse token create alice --role analyst
      purse token create dashboard --role analyst --scope read --days 90
      purse token create me --role steward --local
    """
    scopes: list[wire.Scope] | None = [each.value for each in scope] if scope else None
    lifetime = None if days is None else days * 86_400
    if local:
        token = _create_in_home(home, name, role, scopes, lifetime)
        note("The token was created in the local state, without a server.")
    else:
        with connect(url) as client:
            token = client.tokens.create(name, role, scopes=scopes, lifetime=lifetime)
    return _output(token)


def list_tokens(
    client: Client, name: str | None = None, role: Role | None = None, oldest_first: OldestFirst = False
) -> Output:
    """List valid tokens.

    The newest token comes first. Secrets are not shown.

    Parameters
    ----------
    name : List only tokens with this name.
    role : List only tokens of this role.

    \b
    Examples:
      purse token list
      purse token list --role analyst
    """
    tokens = client.tokens.list(name=name, role=role, order="asc" if oldest_first else "desc")
    rows = [
        (each.id, each.name, each.role, " ".join(each.scopes), each.created_at[:10], (each.expires_at or "never")[:10])
        for each in tokens
    ]
    return Output(tokens, text.table(("id", "name", "role", "scopes", "created", "expires"), rows))


def rotate(client: Client, token: Token) -> Output:
    """Replace the secret of a token.

    The old secret stops working at once. The name, scopes and lifetime stay.

    \b
    Example:
      purse token rotate tok_abc
    """
    return _output(client.tokens.rotate(token))


def revoke(client: Client, token: Token) -> Output:
    """Make a token invalid.

    Jobs continue, charges stay, and everything remains the analyst's.

    \b
    Example:
      purse token revoke tok_abc
    """
    client.tokens.revoke(token)
    return Output({"id": token, "revoked": True}, notes=[f"revoked {token}"])


def _output(token: NewToken) -> Output:
    note("This token is shown once; only its hash is kept.")
    return Output(token, described(token, "id", "name", "role", "scopes", "expires_at", "token", missing="never"))


def _create_in_home(
    home: Path | None, name: str, role: Role, scopes: list[wire.Scope] | None, lifetime: int | None
) -> NewToken:
    request = TokenRequest(name=name, role=role, scopes=scopes, lifetime=lifetime)
    settings = late.state.settings_of_home(home)
    with closing(late.home.open_database(settings)) as database:
        return late.service.create(database, request, settings.max_token_lifetime)
