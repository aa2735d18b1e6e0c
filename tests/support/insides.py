"""Parts of the product without a public name that tests watch or stop, each reached in one place."""

from typing import Any

import sqlalchemy as sa

from app.persistence.session import Database
from app.worker.dispatcher import Dispatcher
from tests.support.patience import PATIENCE


def attempts_of(dispatcher: Dispatcher) -> list[Any]:
    """Return the attempts that the dispatcher holds."""
    return dispatcher._running


def join(attempt: Any) -> None:
    """Wait until the attempt's thread on an inline engine has ended."""
    attempt.handle._thread.join(PATIENCE)


def writer(database: Database) -> sa.Engine:
    """Return the engine of the connection that writes."""
    return database._writer


def reader(database: Database) -> sa.Engine:
    """Return the engine of the connections that read."""
    return database._reader


def dask_client(engine: Any) -> Any:
    """Return the Dask client of an engine."""
    return engine._client


def begun_process(owner: Any) -> Any:
    """Return the process that an engine or a calculator has begun."""
    assert owner._process is not None
    return owner._process.process


def data_of(oracle: Any) -> Any:
    """Return the data behind an oracle."""
    return oracle._data


def meter_of(oracle: Any) -> Any:
    """Return the meter behind an oracle."""
    return oracle._meter


def problem_of(oracle: Any) -> Any:
    """Return the problem that an oracle answers for."""
    return oracle._problem


def replace_meter(oracle: Any, meter: Any) -> None:
    """Put another meter behind an oracle."""
    oracle._meter = meter
