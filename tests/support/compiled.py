"""Statements are compiled once for all databases of a kind: each test has one of its own, and asks it the same."""

from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect

_COMPILED: dict[Any, Any] = {}


def share() -> None:
    """Let all engines share one cache, in which dialects of one class are equal."""
    DefaultDialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]
    DefaultDialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
    sa.create_engine = partial(sa.create_engine, execution_options={"compiled_cache": _COMPILED})
