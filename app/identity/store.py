"""Tokens in the database: only their SHA-256, never their text."""

import hashlib
import secrets
from dataclasses import dataclass

import sqlalchemy as sa

from app.persistence.session import new_id
from app.persistence.tables import tokens
from app.wire.tokens import Role, Token

_PREFIX = "purse_"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: the holder of a live token."""

    id: str
    name: str
    role: Role


def draw() -> str:
    """A fresh token: 256 bits from the operating system."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """SHA-256 of a token. A slow hash would add nothing to 256 random bits and would deny service."""
    return hashlib.sha256(token.encode()).hexdigest()


def find(connection: sa.Connection, token: str) -> Principal | None:
    """The holder of a live token, looked up by its hash: what the time of the search tells is about hashes."""
    row = connection.execute(
        sa.select(tokens.c.id, tokens.c.name, tokens.c.role).where(
            tokens.c.sha256 == digest(token), tokens.c.revoked_at.is_(None)
        )
    ).one_or_none()
    return None if row is None else Principal(row.id, row.name, row.role)


def add(connection: sa.Connection, name: str, role: Role, token: str, at: str) -> Token:
    """Makes `token` valid from now on."""
    row = Token(id=new_id("tok"), name=name, role=role, created_at=at)
    connection.execute(sa.insert(tokens).values(**row.model_dump(), sha256=digest(token)))
    return row


def known(connection: sa.Connection, token: str) -> bool:
    """Whether this token was ever valid, revoked or not."""
    return connection.scalar(sa.select(tokens.c.id).where(tokens.c.sha256 == digest(token))) is not None


def get(connection: sa.Connection, token_id: str) -> Token | None:
    """A live token by its id."""
    row = connection.execute(_live().where(tokens.c.id == token_id)).one_or_none()
    return None if row is None else Token(**row._mapping)


def page(connection: sa.Connection, after: str | None, limit: int) -> list[Token]:
    """Live tokens made after the one with id `after`, oldest first; none if there never was such a token."""
    place = sa.tuple_(tokens.c.created_at, tokens.c.id)
    query = _live().order_by(tokens.c.created_at, tokens.c.id).limit(limit)
    if after is not None:
        query = query.where(
            place > sa.select(tokens.c.created_at, tokens.c.id).where(tokens.c.id == after).scalar_subquery()
        )
    return [Token(**row._mapping) for row in connection.execute(query)]


def stewards(connection: sa.Connection) -> int:
    """How many live steward tokens there are."""
    count = sa.select(sa.func.count()).where(tokens.c.role == "steward", tokens.c.revoked_at.is_(None))
    return connection.scalar(count) or 0


def is_empty(connection: sa.Connection) -> bool:
    """Whether no token was ever made."""
    return connection.scalar(sa.select(tokens.c.id).limit(1)) is None


def revoke(connection: sa.Connection, token_id: str, at: str) -> None:
    """Makes a token invalid, for good."""
    connection.execute(sa.update(tokens).where(tokens.c.id == token_id).values(revoked_at=at))


def _live() -> sa.Select[tuple[str, str, str, str]]:
    columns = (tokens.c.id, tokens.c.name, tokens.c.role, tokens.c.created_at)
    return sa.select(*columns).where(tokens.c.revoked_at.is_(None))
