"""What the doors keep to themselves, for tests that must look behind them."""

from typing import Any

from solvers.data_access.access import DataAccess
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.oracle import PrivateOracle

Door = PrivateOracle | AllocatedOracle | DataAccess


def hidden(door: Door | type[Door], name: str) -> str:
    """The attribute that a door calls `__name`."""
    kind = door if isinstance(door, type) else type(door)
    owner = next(one for one in (PrivateOracle, AllocatedOracle, DataAccess) if issubclass(kind, one))
    return f"_{owner.__name__}__{name}"


def inside(door: Door | type[Door], name: str) -> Any:
    """Its value."""
    return getattr(door, hidden(door, name))


def put(door: Door, name: str, value: object) -> None:
    """Another value in its place."""
    setattr(door, hidden(door, name), value)
