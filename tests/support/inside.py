"""What the oracles keep to themselves, for tests that must look behind them."""

from typing import Any

from solvers.data_access.access import DataAccess
from solvers.data_access.allocated import AllocatedOracle
from solvers.data_access.full_batch import FullBatchOracle
from solvers.data_access.sampled import SampledOracle

Oracle = FullBatchOracle | SampledOracle | AllocatedOracle | DataAccess


def hidden(oracle: Oracle | type[Oracle], name: str) -> str:
    """The attribute that an oracle calls `__name`."""
    kind = oracle if isinstance(oracle, type) else type(oracle)
    owner = next(one for one in (FullBatchOracle, SampledOracle, AllocatedOracle, DataAccess) if issubclass(kind, one))
    return f"_{owner.__name__}__{name}"


def inside(oracle: Oracle | type[Oracle], name: str) -> Any:
    """Its value."""
    return getattr(oracle, hidden(oracle, name))


def put(oracle: Oracle, name: str, value: object) -> None:
    """Another value in its place."""
    setattr(oracle, hidden(oracle, name), value)
