"""Identities and their tokens in the database. Only the SHA-256 hash of a token is stored.

An identity is one person or program. Its name belongs to it permanently, and its jobs and charges remain its own after
its tokens are revoked. Every function except `find` works inside the caller's transaction.
"""

import hashlib
import itertools
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity.sign_on import Arrival
from app.persistence.session import Database, new_id
from app.persistence.tables import identities, subjects, tokens
from purse.wire.base import Page
from purse.wire.tokens import SCOPES, Role, Scope, Token

_PREFIX = "purse_"


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated identity of a request.

    Parameters
    ----------
    id, name, role : id, name and role of the identity
    token : id of the presented token; empty for a sign-on
    scopes : scopes of the token
    ends : timestamp of the end of the sign-on; empty for a token
    datasets : names and ids of datasets that its groups may access, in addition to its own grants
    """

    id: str
    name: str
    role: Role
    token: str = ""
    scopes: frozenset[Scope] = frozenset()
    ends: str = ""
    datasets: tuple[str, ...] = ()


def draw() -> str:
    """Return a new token with 256 random bits from the operating system."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """Return the SHA-256 hash of a token. A slow hash adds nothing to 256 random bits and would enable overload."""
    return hashlib.sha256(token.encode()).hexdigest()


async def find(database: Database, token: str) -> Principal | None:
    """Return the principal of a valid token, or None. The search is by hash, so its timing reveals hashes only."""
    rows = await database.ask(_LIVE_BY_HASH, {"now": database.timestamp(), "sha256": digest(token)})
    if not rows:
        return None
    [(token_id, owner, name, role, scopes, *_)] = rows
    return Principal(owner, name, role, token_id, frozenset(_scopes(role, scopes)))


def is_live(connection: sa.Connection, principal: Principal, now: str) -> bool:
    """Return whether the principal's token or sign-on is still valid."""
    return get(connection, principal.token, now) is not None if principal.token else now < principal.ends


def arrived(connection: sa.Connection, arrival: Arrival, role: Role) -> Principal | None:
    """Return the principal of a sign-on, or None if `welcome` has not yet stored the person with this role."""
    mine = (subjects.c.issuer == arrival.issuer) & (subjects.c.subject == arrival.subject)
    query = sa.select(identities.c.id, identities.c.name).join_from(subjects, identities)
    row = connection.execute(query.where(mine, identities.c.role == role)).one_or_none()
    if row is None:
        return None
    return Principal(row.id, row.name, role, "", frozenset(SCOPES[role]), arrival.ends, arrival.datasets)


def welcome(connection: sa.Connection, arrival: Arrival, role: Role, at: str) -> None:
    """Create the identity of a person who signs on for the first time, or update the role of an existing one."""
    mine = (subjects.c.issuer == arrival.issuer) & (subjects.c.subject == arrival.subject)
    identity_id = connection.scalar(sa.select(subjects.c.identity_id).where(mine))
    if identity_id is not None:
        connection.execute(sa.update(identities).where(identities.c.id == identity_id).values(role=role))
        return
    # A name may not contain "/", because it is used in paths.
    name = _free(connection, arrival.subject.replace("/", "|"), sa.true())
    identity_id = _create(connection, name, role, at)
    subject = {"issuer": arrival.issuer, "subject": arrival.subject, "identity_id": identity_id}
    connection.execute(sa.insert(subjects).values(**subject))


def identity(connection: sa.Connection, name: str, role: Role, at: str) -> str:
    """Return the id of the identity with this name; create it if it does not exist.

    Raises
    ------
    ApiError
        name_taken if the identity has another role or belongs to a sign-on, to which tokens cannot be added.
    """
    name_or_id = identities.c.name == name
    row = connection.execute(sa.select(identities.c.id, _is_unavailable(role)).where(name_or_id)).one_or_none()
    if row is None:
        return _create(connection, name, role, at)
    if row[1]:
        raise ApiError(
            "name_taken", "The name belongs permanently to another role or to a sign-on. Choose another name."
        )
    return str(row.id)


def lock(connection: sa.Connection, identity_id: str) -> None:
    """Lock an identity until the end of the transaction, so that its keys and limits are checked one at a time.

    On SQLite a write transaction excludes all others anyway.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCKED, {"identity": identity_id})


def names(connection: sa.Connection, identity_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of these identities by their ids, in the order of the names."""
    query = sa.select(identities.c.id, identities.c.name).where(identities.c.id.in_(identity_ids))
    return {row.id: row.name for row in connection.execute(query.order_by(identities.c.name, identities.c.id))}


def is_called(name_or_id: str) -> sa.ColumnElement[bool]:
    """Return the condition that selects the identity with this id or name."""
    return (identities.c.id == name_or_id) | (identities.c.name == name_or_id)


def analyst(connection: sa.Connection, name_or_id: str) -> str | None:
    """Return the id of the analyst with this id or name, or with a token of this id, even a former one."""
    holder = sa.select(tokens.c.identity_id).where(tokens.c.id == name_or_id)
    query = sa.select(identities.c.id).where(
        identities.c.role == "analyst", is_called(name_or_id) | identities.c.id.in_(holder)
    )
    # Prefer matches by id, because a person may choose a name at the provider that equals an id.
    return connection.scalar(query.order_by(identities.c.id != name_or_id, identities.c.id.not_in(holder)).limit(1))


def free_name(connection: sa.Connection, name: str, role: Role) -> str:
    """Return the name, with a number appended if another role or a sign-on has it."""
    return _free(connection, name, _is_unavailable(role))


def add(
    connection: sa.Connection,
    name: str,
    role: Role,
    token: str,
    at: str,
    scopes: Sequence[Scope] | None = None,
    expires_at: str | None = None,
) -> Token:
    """Store a new token of the identity with this name, which is created if necessary.

    Raises
    ------
    ApiError
        name_taken, as `identity`.
    """
    owner = identity(connection, name, role, at)
    token_id = new_id("tok")
    stored = None if set(scopes or SCOPES[role]) == set(SCOPES[role]) else " ".join(scopes or ())
    row = {"id": token_id, "identity_id": owner, "scopes": stored, "created_at": at, "expires_at": expires_at}
    connection.execute(sa.insert(tokens).values(**row, sha256=digest(token)))
    return _token(connection.execute(_tokens().where(tokens.c.id == token_id)).one())


def was_issued(connection: sa.Connection, token: str) -> bool:
    """Return whether this token was ever valid, even if it is revoked now."""
    return connection.scalar(sa.select(tokens.c.id).where(tokens.c.sha256 == digest(token))) is not None


def get(connection: sa.Connection, token_id: str, now: str) -> Token | None:
    """Return the valid token with this id, or None."""
    row = connection.execute(_live(now).where(tokens.c.id == token_id)).one_or_none()
    return None if row is None else _token(row)


def page(
    connection: sa.Connection, paging: Paging, now: str, name: str | None = None, role: Role | None = None
) -> Page[Token]:
    """Return a page of valid tokens in order of creation, optionally of one name or role.

    The page is empty if the cursor is not the id of a token.
    """
    query = _live(now)
    for column, value in ((identities.c.name, name), (identities.c.role, role)):
        query = query if value is None else query.where(column == value)
    rows = connection.execute(paging.by_creation(query, tokens)).all()
    return paging.page(Page[Token], rows, _token, lambda row: row.id)


def managers(connection: sa.Connection, now: str) -> list[str]:
    """Return the ids of the valid tokens that can create tokens."""
    return [row.id for row in connection.execute(_live(now)) if "manage" in _scopes(row.role, row.scopes)]


def is_empty(connection: sa.Connection) -> bool:
    """Return whether no token was ever created."""
    return connection.scalar(sa.select(tokens.c.id).limit(1)) is None


def revoke(connection: sa.Connection, token_id: str, at: str) -> None:
    """Revoke a token permanently."""
    connection.execute(sa.update(tokens).where(tokens.c.id == token_id).values(revoked_at=at))


def _create(connection: sa.Connection, name: str, role: Role, at: str) -> str:
    """Create an identity and return its id."""
    identity_id = new_id("idn")
    connection.execute(sa.insert(identities).values(id=identity_id, name=name, role=role, created_at=at))
    return identity_id


def _free(connection: sa.Connection, name: str, is_unavailable: sa.ColumnElement[bool]) -> str:
    """Return the name, or its first numbered variant, that no identity matching the condition has."""
    numbered = itertools.chain((name,), (f"{name[:190]} ({number})" for number in itertools.count(2)))
    conflicting = sa.select(identities.c.id).where(is_unavailable)
    return next(n for n in numbered if connection.scalar(conflicting.where(identities.c.name == n)) is None)


def _is_unavailable(role: Role) -> sa.ColumnElement[bool]:
    """Return the condition that tokens of this role cannot be added to an identity."""
    return (identities.c.role != role) | identities.c.id.in_(sa.select(subjects.c.identity_id))


def _tokens() -> sa.Select[Any]:
    """Return the query for tokens with their identities."""
    columns = (tokens.c.id, identities.c.id.label("identity"), identities.c.name, identities.c.role)
    times = (tokens.c.created_at, tokens.c.expires_at)
    return sa.select(*columns, tokens.c.scopes, *times).join_from(tokens, identities)


def _live(now: str | sa.BindParameter[str]) -> sa.Select[Any]:
    """Return the query for tokens that are neither revoked nor expired."""
    return _tokens().where(tokens.c.revoked_at.is_(None), tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now))


# Frequent queries are built once. `key_share` allows inserts of rows that refer to a locked identity.
_LOCKED = sa.select(identities.c.id).where(identities.c.id == sa.bindparam("identity")).with_for_update(key_share=True)
_LIVE_BY_HASH = _live(sa.bindparam("now", type_=sa.String)).where(tokens.c.sha256 == sa.bindparam("sha256"))


def _scopes(role: Role, words: str | None) -> list[Scope]:
    """Return the stored scopes, or all scopes of the role if none are stored; `submit` includes `quote`."""
    role_scopes = SCOPES[role]
    granted = role_scopes if words is None else words.split()
    return [scope for scope in role_scopes if scope in granted or (scope == "quote" and "submit" in granted)]


def _token(row: sa.Row[Any]) -> Token:
    """Return the token of a row."""
    return Token(**{**row._mapping, "scopes": _scopes(row.role, row.scopes)})
