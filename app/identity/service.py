"""Making, rotating, listing and revoking tokens; the first one comes from the operator."""

from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from fastapi.concurrency import run_in_threadpool

from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity import store
from app.identity.sign_on import Arrival
from app.identity.store import Principal
from app.persistence.clock import stamp
from app.persistence.files import write_whole
from app.persistence.session import Database
from app.settings import Settings
from purse.wire.base import Page
from purse.wire.problems import Violation
from purse.wire.tokens import NewToken, Role, Token, TokenRequest

TOKEN_FILE = "steward-token"
_NO_ROLE = (
    "None of your groups at the sign-on provider has a role here. Ask the operator to map one of your groups to a role "
    "(PURSE_OIDC_ROLES), and to check that the groups claim is a string or a list of strings."
)


async def known(database: Database, shown: Arrival | str) -> Principal | None:
    """Whose this token is; None if it is nobody's. A person who signs on for the first time becomes an identity.

    Raises
    ------
    ApiError
        forbidden if none of a person's groups has a role.
    """
    if isinstance(shown, str):
        return await store.find(database, shown)
    if shown.role is None:
        raise ApiError("forbidden", _NO_ROLE)
    return await run_in_threadpool(_arrived, database, shown, shown.role)


def create(database: Database, request: TokenRequest, longest: int | None = None) -> NewToken:
    """A new token; its text is in the answer and nowhere else.

    Parameters
    ----------
    longest : seconds that no token outlives; one that asks for no end gets this one

    Raises
    ------
    ApiError
        name_taken if the name is one of another role; out_of_range beyond `longest`.
    """
    if longest is not None and (request.lifetime or 0) > longest:
        wrong = Violation(where="body.lifetime", what=f"must be at most {longest}: PURSE_MAX_TOKEN_LIFETIME")
        raise ApiError("out_of_range", "See `violations`.", violations=[wrong])
    lifetime, secret = request.lifetime or longest, store.draw()
    with database.write(alone="names") as connection:
        now = database.clock.wall()
        end = None if lifetime is None else stamp(now + lifetime)
        token = store.add(connection, request.name, request.role, secret, stamp(now), request.scopes, end)
    return NewToken(**token.model_dump(), token=secret)


def rotate(database: Database, token_id: str, longest: int | None = None) -> NewToken:
    """Another token in the place of a live one, which ends now: the same identity, scopes and lifetime, a new secret.

    Parameters
    ----------
    longest : seconds that the new one does not outlive, though the old one was made without such an end

    Raises
    ------
    ApiError
        not_found if no live token has this id.
    """
    secret = store.draw()
    with database.write(alone="names") as connection:
        old = _found(connection, database, token_id)
        now = database.clock.wall()
        lifetime = min((seconds for seconds in (_lifetime(old), longest) if seconds is not None), default=None)
        end = None if lifetime is None else stamp(now + lifetime)
        store.revoke(connection, token_id, stamp(now))
        token = store.add(connection, old.name, old.role, secret, stamp(now), old.scopes, end)
    return NewToken(**token.model_dump(), token=secret)


def page(database: Database, asked: Paging, name: str | None = None, role: Role | None = None) -> Page[Token]:
    """Live tokens, of this name and role if any are named."""
    with database.read() as connection:
        return store.page(connection, asked, database.timestamp(), name, role)


def revoke(database: Database, token_id: str) -> None:
    """Ends a token at once and for good.

    Raises
    ------
    ApiError
        not_found if no live token has this id; last_steward if nobody could make tokens afterwards.
    """
    with database.write(alone="names") as connection:
        _found(connection, database, token_id)
        at = database.timestamp()
        if store.managers(connection, at) == [token_id]:
            raise ApiError("last_steward")
        store.revoke(connection, token_id, at)


def ensure_steward(database: Database, settings: Settings) -> Path | None:
    """Makes sure that a new service has a steward.

    A bootstrap token that is set becomes valid, unless it was revoked before: a restart undoes no revocation. If none
    is set and no token was ever made, one is drawn and written to a file of mode 0600 in the home.

    Returns
    -------
    The file, if one was written now.
    """
    if settings.bootstrap_token is not None:
        _ensure(database, settings.bootstrap_token.get_secret_value())
        return None
    with database.write(alone="names") as connection:
        if not store.is_empty(connection):
            return None
        secret = store.draw()
        # The file comes first: a token that nobody was told would lock everybody out.
        path = settings.home / TOKEN_FILE
        write_whole(path, f"{secret}\n".encode())
        store.add(connection, "first steward", "steward", secret, database.timestamp())
    return path


def own(database: Database, name: str, role: Role) -> NewToken:
    """A token of the service's own making, under this name or, where another role goes by it, one like it."""
    with database.write(alone="names") as connection:
        secret = store.draw()
        free = store.free_name(connection, name, role)
        token = store.add(connection, free, role, secret, database.timestamp())
    return NewToken(**token.model_dump(), token=secret)


def _arrived(database: Database, shown: Arrival, role: Role) -> Principal | None:
    with database.read() as connection:
        principal = store.arrived(connection, shown, role)
    if principal is not None:
        return principal
    with database.write(alone="names") as connection:
        store.welcome(connection, shown, role, database.timestamp())
        return store.arrived(connection, shown, role)


def _found(connection: sa.Connection, database: Database, token_id: str) -> Token:
    token = store.get(connection, token_id, database.timestamp())
    if token is None:
        raise ApiError("not_found")
    return token


def _lifetime(token: Token) -> float | None:
    """The seconds that the token was to live; None without end."""
    if token.expires_at is None:
        return None
    return (datetime.fromisoformat(token.expires_at) - datetime.fromisoformat(token.created_at)).total_seconds()


def _ensure(database: Database, secret: str) -> None:
    with database.read() as connection:
        if store.known(connection, secret):
            return
    with database.write(alone="names") as connection:
        if not store.known(connection, secret):
            name = store.free_name(connection, "bootstrap", "steward")
            store.add(connection, name, "steward", secret, database.timestamp())
