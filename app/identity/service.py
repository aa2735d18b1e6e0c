"""Making, listing and revoking tokens; the first one comes from the operator."""

import os
from pathlib import Path

from app.http.errors import ApiError
from app.identity import store
from app.persistence.session import Database
from app.settings import Settings
from app.wire.base import Page
from app.wire.tokens import NewToken, Token, TokenRequest

TOKEN_FILE = "steward-token"


def create(database: Database, request: TokenRequest) -> NewToken:
    """A new token; its text is in the answer and nowhere else."""
    secret = store.draw()
    with database.write() as connection:
        token = store.add(connection, request.name, request.role, secret, database.timestamp())
    return NewToken(**token.model_dump(), token=secret)


def page(database: Database, cursor: str | None, limit: int) -> Page[Token]:
    """Live tokens, oldest first, from after the one whose id is `cursor`."""
    with database.read() as connection:
        tokens = store.page(connection, cursor, limit + 1)
    return Page[Token](items=tokens[:limit], next=tokens[limit - 1].id if len(tokens) > limit else None)


def revoke(database: Database, token_id: str) -> None:
    """Ends a token at once and for good.

    Raises
    ------
    ApiError
        not_found if no live token has this id; last_steward if nobody could make tokens afterwards.
    """
    with database.write() as connection:
        token = store.get(connection, token_id)
        if token is None:
            raise ApiError("not_found")
        if token.role == "steward" and store.stewards(connection) == 1:
            raise ApiError("last_steward")
        store.revoke(connection, token_id, database.timestamp())


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
    with database.write() as connection:
        if not store.is_empty(connection):
            return None
        secret = store.draw()
        # The file comes first: a token that nobody was told would lock everybody out.
        path = _write_secret(settings.home / TOKEN_FILE, secret)
        store.add(connection, "first steward", "steward", secret, database.timestamp())
    return path


def _ensure(database: Database, secret: str) -> None:
    with database.read() as connection:
        if store.known(connection, secret):
            return
    with database.write() as connection:
        if not store.known(connection, secret):
            store.add(connection, "bootstrap", "steward", secret, database.timestamp())


def _write_secret(path: Path, secret: str) -> Path:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    return path
