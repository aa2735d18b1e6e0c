"""Creation, rotation, listing and revocation of tokens, and the operator's first token."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from fastapi.concurrency import run_in_threadpool

from app.http.errors import ApiError, invalid_field
from app.http.lists import Paging
from app.identity import store
from app.identity.sign_on import Arrival
from app.identity.store import Principal
from app.persistence.clock import stamp
from app.persistence.files import write_whole
from app.persistence.session import Database
from app.settings import Settings
from purse.wire.base import Page
from purse.wire.tokens import NewToken, Role, Scope, Token, TokenRequest

TOKEN_FILE = "steward-token"
_NO_ROLE = (
    "None of your groups at the sign-on provider has a role here. Ask the operator to map one of your groups to a role "
    "(PURSE_OIDC_ROLES), and to check that the groups claim is a string or a list of strings."
)


async def authenticate(database: Database, credential: Arrival | str) -> Principal | None:
    """Return the principal of a token or a sign-on, or None. The first sign-on of a person creates an identity.

    Raises
    ------
    ApiError
        forbidden if none of a person's groups has a role.
    """
    if isinstance(credential, str):
        return await store.find(database, credential)
    if credential.role is None:
        raise ApiError("forbidden", _NO_ROLE)
    return await run_in_threadpool(_sign_on, database, credential, credential.role)


def create(database: Database, request: TokenRequest, longest: int | None = None) -> NewToken:
    """Create a token. Only the returned value contains its secret.

    Parameters
    ----------
    longest : longest lifetime in seconds; also the lifetime if the request has none

    Raises
    ------
    ApiError
        name_taken if the name belongs to another role; out_of_range if the lifetime exceeds `longest`.
    """
    if longest is not None and (request.lifetime or 0) > longest:
        message = f"must be at most {longest} seconds, the limit that PURSE_MAX_TOKEN_LIFETIME sets"
        raise invalid_field("body.lifetime", message, "out_of_range")
    with database.write(alone="names") as connection:
        now = database.clock.wall()
        return _issued(connection, request.name, request.role, now, request.scopes, request.lifetime or longest)


def rotate(database: Database, token_id: str, longest: int | None = None) -> NewToken:
    """Revoke a valid token and return a new one with the same identity, scopes and lifetime.

    Parameters
    ----------
    longest : longest lifetime of the new token in seconds, even if the old one had a longer one

    Raises
    ------
    ApiError
        not_found if no valid token has this id.
    """
    with database.write(alone="names") as connection:
        old = _require_token(connection, database, token_id)
        now = database.clock.wall()
        lifetime = min((seconds for seconds in (_lifetime(old), longest) if seconds is not None), default=None)
        store.revoke(connection, token_id, stamp(now))
        return _issued(connection, old.name, old.role, now, old.scopes, lifetime)


def page(database: Database, paging: Paging, name: str | None = None, role: Role | None = None) -> Page[Token]:
    """Return a page of valid tokens, optionally of one name or role."""
    with database.read() as connection:
        return store.page(connection, paging, database.timestamp(), name, role)


def revoke(database: Database, token_id: str) -> None:
    """Revoke a token immediately and permanently.

    Raises
    ------
    ApiError
        not_found if no valid token has this id; last_steward if no other token can create tokens.
    """
    with database.write(alone="names") as connection:
        _require_token(connection, database, token_id)
        at = database.timestamp()
        if store.managers(connection, at) == [token_id]:
            raise ApiError("last_steward")
        store.revoke(connection, token_id, at)


def ensure_steward(database: Database, settings: Settings) -> Path | None:
    """Create the first steward of a new service.

    If a bootstrap token is set, it becomes valid unless it was issued before, so that a restart does not undo its
    revocation. If none is set and no token was ever created, a new token is written to a file of mode 0600 in the home.

    Returns
    -------
    The path of the file if it was written, otherwise None.
    """
    with database.write(alone="names") as connection:
        if settings.bootstrap_token is not None:
            secret = settings.bootstrap_token.get_secret_value()
            if not store.was_issued(connection, secret):
                name = store.free_name(connection, "bootstrap", "steward")
                store.add(connection, name, "steward", secret, database.timestamp())
            return None
        if not store.is_empty(connection):
            return None
        secret = store.draw()
        # Write the file first: a stored token that nobody knows would lock everybody out.
        path = settings.home / TOKEN_FILE
        write_whole(path, f"{secret}\n".encode())
        store.add(connection, "first steward", "steward", secret, database.timestamp())
    return path


def own(database: Database, name: str, role: Role) -> NewToken:
    """Create a token for the service's own use; the name gets a number if it belongs to another role."""
    with database.write(alone="names") as connection:
        return _issued(connection, store.free_name(connection, name, role), role, database.clock.wall())


def _issued(
    connection: sa.Connection,
    name: str,
    role: Role,
    now: float,
    scopes: Sequence[Scope] | None = None,
    lifetime: float | None = None,
) -> NewToken:
    """Store a token with a new secret, and return both. Raise as `store.add`."""
    secret = store.draw()
    end = None if lifetime is None else stamp(now + lifetime)
    token = store.add(connection, name, role, secret, stamp(now), scopes, end)
    return NewToken(**token.model_dump(), token=secret)


def _sign_on(database: Database, arrival: Arrival, role: Role) -> Principal | None:
    """Return the principal of a sign-on; store the person, or a changed role, first."""
    with database.read() as connection:
        principal = store.arrived(connection, arrival, role)
    if principal is not None:
        return principal
    with database.write(alone="names") as connection:
        store.welcome(connection, arrival, role, database.timestamp())
        return store.arrived(connection, arrival, role)


def _require_token(connection: sa.Connection, database: Database, token_id: str) -> Token:
    """Return the valid token with this id, or raise `ApiError` not_found."""
    token = store.get(connection, token_id, database.timestamp())
    if token is None:
        raise ApiError("not_found", "No valid token has this id. The list of tokens states their ids.")
    return token


def _lifetime(token: Token) -> float | None:
    """Return the lifetime of a token in seconds, or None if it does not expire."""
    if token.expires_at is None:
        return None
    return (datetime.fromisoformat(token.expires_at) - datetime.fromisoformat(token.created_at)).total_seconds()
