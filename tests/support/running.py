"""A `World` whose jobs a dispatcher runs on an engine."""

from pathlib import Path
from typing import Any, Generic, TypeVar

from app.persistence.clock import SystemClock
from app.wire import Job
from app.worker.dispatcher import Dispatcher
from app.worker.engine import Engine
from tests.support.patience import until
from tests.support.world import World

E = TypeVar("E", bound=Engine)

# Two seconds of CPU or more, so that a test finds it running although other processes hold the test up.
LONG: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 8_000}, "privacy": {"epsilon": 0.2}}
SHORT: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 10}, "privacy": {"epsilon": 0.2}}
TIMES: dict[str, Any] = {"lease_seconds": 4.0, "renew_seconds": 0.5}


class Running(Generic[E]):
    """A home with one dataset, and the dispatcher that runs its jobs."""

    def __init__(self, home: Path, engine: E) -> None:
        self.engine = engine
        self.world = World.at(home, SystemClock(), **TIMES)
        self.dataset = self.world.dataset(rows=2000, budget={"epsilon": 20.0, "delta": 1e-6})
        self.dispatcher = Dispatcher(self.world.settings, self.world.database, self.world.keys, engine)
        self.dispatcher.start()

    def submit(self, **changes: Any) -> str:
        """Submit a job and return its id."""
        job = self.world.submit(self.dataset, **changes).id
        self.dispatcher.wake()
        return job

    def finished(self, job: str) -> Job:
        """Return the job when it has ended."""
        until(lambda: self.world.job(job).state not in ("queued", "running"))
        return self.world.job(job)

    def stop(self) -> None:
        """Stop the dispatcher, check the books, and close the database."""
        self.dispatcher.stop()
        self.world.check()
        self.world.database.close()
