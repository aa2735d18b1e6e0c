"""Identities and their tokens in the database: of a token only its SHA-256, never its text.

An identity is one person or program: its name is its own for good, and what it did stays its own when its tokens are
gone. Every function but `find` works inside the caller's transaction.
"""

import hashlib
import itertools
import secrets
from collections.abc import Sequence
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
    """Who asks: an identity, and by which of its tokens.

    Parameters
    ----------
    id, name, role : the identity's
    token : id of the token that it showed; none of ours if it has signed on
    scopes : what this token is for
    ends : when its sign-on does
    datasets : names and ids of those that its groups know, beside its own grants
    """

    id: str
    name: str
    role: Role
    token: str = ""
    scopes: frozenset[Scope] = frozenset()
    ends: str = ""
    datasets: tuple[str, ...] = ()


def draw() -> str:
    """A fresh token: 256 bits from the operating system."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """SHA-256 of a token. A slow hash would add nothing to 256 random bits and would deny service."""
    return hashlib.sha256(token.encode()).hexdigest()


async def find(database: Database, token: str) -> Principal | None:
    """Who holds a live token, looked up by its hash: what the time of the search tells is about hashes."""
    rows = await database.ask(_VALID_TOKEN, {"now": database.timestamp(), "sha256": digest(token)})
    if not rows:
        return None
    [(token_id, owner, name, role, scopes, *_)] = rows
    return Principal(owner, name, role, token_id, frozenset(_scopes(role, scopes)))


def is_live(connection: sa.Connection, principal: Principal, now: str) -> bool:
    """Whether what the principal showed is still valid: its token, or its sign-on."""
    return get(connection, principal.token, now) is not None if principal.token else now < principal.ends


def arrived(connection: sa.Connection, arrival: Arrival, role: Role) -> Principal | None:
    """Whom the provider vouches for, in the role that their groups have now; None until `welcome` has written that."""
    mine = (subjects.c.issuer == arrival.issuer) & (subjects.c.subject == arrival.subject)
    query = sa.select(identities.c.id, identities.c.name).join_from(subjects, identities)
    row = connection.execute(query.where(mine, identities.c.role == role)).one_or_none()
    if row is None:
        return None
    return Principal(row.id, row.name, role, "", frozenset(SCOPES[role]), arrival.ends, arrival.datasets)


def welcome(connection: sa.Connection, arrival: Arrival, role: Role, at: str) -> None:
    """An identity of its own for a subject that has none; the role that it has from now on, for one that has."""
    mine = (subjects.c.issuer == arrival.issuer) & (subjects.c.subject == arrival.subject)
    known = connection.scalar(sa.select(subjects.c.identity_id).where(mine))
    if known is not None:
        connection.execute(sa.update(identities).where(identities.c.id == known).values(role=role))
        return
    name = _free(connection, arrival.subject.replace("/", "|"), sa.true())  # one that fits into a path
    made = _made(connection, name, role, at)
    connection.execute(sa.insert(subjects).values(issuer=arrival.issuer, subject=arrival.subject, identity_id=made))


def identity(connection: sa.Connection, name: str, role: Role, at: str) -> str:
    """The id of the identity of this name, made if there is none.

    Raises
    ------
    ApiError
        name_taken if it has another role, or signs on: a token joins nobody whom the provider vouches for.
    """
    named = identities.c.name == name
    row = connection.execute(sa.select(identities.c.id, _is_anothers(role)).where(named)).one_or_none()
    if row is None:
        return _made(connection, name, role, at)
    if row[1]:
        raise ApiError("name_taken", "Another role goes by this name; a name is one person's or program's, for good.")
    return str(row.id)


def lock(connection: sa.Connection, identity_id: str) -> None:
    """Until the end of the transaction nobody else submits as this identity: by it, keys and limits are decided.

    On SQLite a write excludes all others anyway.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCKED, {"identity": identity_id})


def analyst(connection: sa.Connection, named: str) -> str | None:
    """The identity of the analyst of this id or name, or who has, or had, the token of this id."""
    holder = sa.select(tokens.c.identity_id).where(tokens.c.id == named)
    called = (identities.c.id == named) | (identities.c.name == named) | identities.c.id.in_(holder)
    query = sa.select(identities.c.id).where(identities.c.role == "analyst", called)
    # What we have issued comes first: a person may choose their name elsewhere.
    return connection.scalar(query.order_by(identities.c.id != named, identities.c.id.not_in(holder)).limit(1))


def free_name(connection: sa.Connection, name: str, role: Role) -> str:
    """`name`, or with a number where another role goes by it: the service's own names are refused to nobody."""
    return _free(connection, name, _is_anothers(role))


def add(
    connection: sa.Connection,
    name: str,
    role: Role,
    token: str,
    at: str,
    scopes: Sequence[Scope] | None = None,
    expires_at: str | None = None,
) -> Token:
    """Makes `token` valid from now on, as one of the identity of this name.

    Raises
    ------
    ApiError
        name_taken, as `identity`.
    """
    owner, token_id = identity(connection, name, role, at), new_id("tok")
    stored = None if set(scopes or SCOPES[role]) == set(SCOPES[role]) else " ".join(scopes or ())
    row = {"id": token_id, "identity_id": owner, "scopes": stored, "created_at": at, "expires_at": expires_at}
    connection.execute(sa.insert(tokens).values(**row, sha256=digest(token)))
    return _token(connection.execute(_tokens().where(tokens.c.id == token_id)).one())


def known(connection: sa.Connection, token: str) -> bool:
    """Whether this token was ever valid, revoked or not."""
    return connection.scalar(sa.select(tokens.c.id).where(tokens.c.sha256 == digest(token))) is not None


def get(connection: sa.Connection, token_id: str, now: str) -> Token | None:
    """A live token by its id."""
    row = connection.execute(_live(now).where(tokens.c.id == token_id)).one_or_none()
    return None if row is None else _token(row)


def page(
    connection: sa.Connection, asked: Paging, now: str, name: str | None = None, role: Role | None = None
) -> Page[Token]:
    """Live tokens in the order of their making, of this name and role; none after a token that never was."""
    query, by = _live(now), (tokens.c.created_at, tokens.c.id)
    for column, value in ((identities.c.name, name), (identities.c.role, role)):
        query = query if value is None else query.where(column == value)
    rows = connection.execute(asked.of(query, *by, at=sa.select(*by).where(tokens.c.id == asked.cursor))).all()
    return asked.page(Page[Token], rows, _token, lambda row: row.id)


def managers(connection: sa.Connection, now: str) -> list[str]:
    """The live tokens, by id, that can make others."""
    return [row.id for row in connection.execute(_live(now)) if "manage" in _scopes(row.role, row.scopes)]


def is_empty(connection: sa.Connection) -> bool:
    """Whether no token was ever made."""
    return connection.scalar(sa.select(tokens.c.id).limit(1)) is None


def revoke(connection: sa.Connection, token_id: str, at: str) -> None:
    """Makes a token invalid, for good."""
    connection.execute(sa.update(tokens).where(tokens.c.id == token_id).values(revoked_at=at))


def _made(connection: sa.Connection, name: str, role: Role, at: str) -> str:
    identity_id = new_id("idn")
    connection.execute(sa.insert(identities).values(id=identity_id, name=name, role=role, created_at=at))
    return identity_id


def _free(connection: sa.Connection, name: str, taken: sa.ColumnElement[bool]) -> str:
    numbered = itertools.chain((name,), (f"{name[:190]} ({number})" for number in itertools.count(2)))
    similar = sa.select(identities.c.id).where(taken)
    return next(n for n in numbered if connection.scalar(similar.where(identities.c.name == n)) is None)


def _is_anothers(role: Role) -> sa.ColumnElement[bool]:
    """Whether no token of this role may join an identity."""
    return (identities.c.role != role) | identities.c.id.in_(sa.select(subjects.c.identity_id))


def _tokens() -> sa.Select[Any]:
    columns = (tokens.c.id, identities.c.id.label("identity"), identities.c.name, identities.c.role)
    times = (tokens.c.created_at, tokens.c.expires_at)
    return sa.select(*columns, tokens.c.scopes, *times).join_from(tokens, identities)


def _live(now: str | sa.BindParameter[str]) -> sa.Select[Any]:
    """Neither revoked nor expired."""
    return _tokens().where(tokens.c.revoked_at.is_(None), tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now))


# What is asked often is made once. Rows that refer to a locked identity may come meanwhile.
_LOCKED = sa.select(identities.c.id).where(identities.c.id == sa.bindparam("identity")).with_for_update(key_share=True)
_VALID_TOKEN = _live(sa.bindparam("now", type_=sa.String)).where(tokens.c.sha256 == sa.bindparam("sha256"))


def _scopes(role: Role, words: str | None) -> list[Scope]:
    """All that the role may do if nothing was said; who submits is quoted a price."""
    all_of = SCOPES[role]
    scope_names = all_of if words is None else words.split()
    return [scope for scope in all_of if scope in scope_names or (scope == "quote" and "submit" in scope_names)]


def _token(row: sa.Row[Any]) -> Token:
    return Token(**{**row._mapping, "scopes": _scopes(row.role, row.scopes)})
