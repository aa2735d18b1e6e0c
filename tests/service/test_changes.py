"""Changes on one server reach the others: jobs are claimed, stopped and reported without delay, but never early."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from app.identity.store import Principal
from app.jobs import attempts, events, service
from app.jobs.changes import Changes
from app.persistence import sqlite
from app.persistence.session import Database
from purse.wire.jobs import JobEvent
from tests.service.conftest import MakeService
from tests.support.patience import PATIENCE, until
from tests.support.postgres import Cluster
from tests.support.service import JOB
from tests.support.world import World, output


class Server:
    """Another server on the same database, and the changes that it notices."""

    def __init__(self, world: World) -> None:
        self.world = World.at(world.settings.home)
        self.woken = threading.Event()
        self.changes = Changes(self.world.database)
        self.changes.start(self.woken.set)

    def hears(self) -> bool:
        """Return whether a change has woken the server since the last call."""
        heard = self.woken.wait(PATIENCE)
        self.woken.clear()
        return heard

    def follow(self, job: str, states: list[str]) -> None:
        """Add each state that a stream of the job reports, until its end."""
        database, principal = self.world.database, Principal("idn_x", "x", "analyst", ends="9999")

        async def collect() -> None:
            async for event in events.follow(database, job, (-1, 0, 0), principal, self.changes):
                assert isinstance(event.data, JobEvent)
                states.append(event.data.state)

        asyncio.run(collect())

    def close(self) -> None:
        """Stop listening for changes."""
        self.changes.stop()
        self.world.database.close()


@pytest.fixture
def there(world: World) -> Iterator[Server]:
    listener = Server(world)
    yield listener
    listener.close()


@pytest.mark.slow
def test_another_server_receives_each_change(world: World, there: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job submitted on one server can be claimed on another, whose streams report its states at once."""
    monkeypatch.setattr(events, "POLL_INTERVAL_SECONDS", PATIENCE)  # no poll falls within the test
    dataset = world.dataset()
    while there.woken.wait(0.8):  # changes before the test
        there.woken.clear()
    job = world.submit(dataset).id
    assert there.hears()
    states: list[str] = []
    stream = threading.Thread(target=there.follow, args=(job, states))
    stream.start()
    until(lambda: states)
    world.claimed()
    assert there.hears()
    service.cancel(world.database, world.analyst, job)
    stream.join(PATIENCE)
    assert states in (
        ["queued", "running", "cancelled"],
        ["running", "cancelled"],
        ["queued", "cancelled"],
        ["cancelled"],
    )
    assert states[-1] == "cancelled"


@pytest.mark.slow
def test_an_end_on_this_server_wakes_its_streams_at_once(
    tmp_path: Path, make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams report the end at once, although polling of the file and of the job is disabled."""
    monkeypatch.setattr(sqlite, "POLL_INTERVAL_SECONDS", PATIENCE)
    monkeypatch.setattr(events, "POLL_INTERVAL_SECONDS", PATIENCE)
    with make_service(tmp_path) as service:
        body = JOB | {"dataset": service.dataset(), "method": {"name": "dp_gd", "steps": 1997}}
        job = service.call("analyst", "POST", "/v1/jobs", json=body).json()["id"]
        start = time.monotonic()
        assert '"state":"done"' in service.call("analyst", "GET", f"/v1/jobs/{job}/events").text
        assert time.monotonic() - start < PATIENCE, "it was woken"


@pytest.mark.slow
@pytest.mark.usefixtures("on_postgres")
class TestOnPostgres:
    """LISTEN and NOTIFY."""

    test_another_server_hears = staticmethod(test_another_server_receives_each_change)

    def test_an_unpublished_end_is_not_announced(self, world: World) -> None:
        """The grid hides its time. Announcements contain only the ids of jobs with public changes."""
        with _hearing(world.database) as heard:
            job = world.submit(world.dataset()).id
            claim = world.claimed()
            assert heard() == [job, job]
            attempts.end(world.database, claim, output(claim), 0.1)
            assert heard() == []
            world.tell()
            assert heard() == [job]

    def test_a_lost_connection_is_opened_again(self, world: World, there: Server, on_postgres: Cluster) -> None:
        assert there.hears()
        with psycopg.connect(on_postgres.url("purse"), autocommit=True) as connection:
            listening = "query = 'LISTEN purse_jobs' and pid <> pg_backend_pid()"
            terminated = connection.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {listening}")
            assert terminated.fetchall() == [(True,)]
        assert there.hears(), "it listens again and reads the changes that it may have missed"
        world.submit(world.dataset())
        assert there.hears()
        assert world.claim() is not None


class _hearing:  # noqa: N801  # a context
    """A listening connection. Each call returns the announcements since the last call.

    PostgreSQL delivers announcements in the order of their commits. A call therefore announces an end itself, and
    waits for that instead of for a time.
    """

    _END = "the end"

    def __init__(self, database: Database) -> None:
        with database.read() as connection:
            url: sa.URL = connection.engine.url
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)

    def __enter__(self) -> Any:
        self._connection = psycopg.connect(self._address, autocommit=True)
        self._connection.execute("LISTEN purse_jobs")
        self._heard: list[str] = []
        self._connection.add_notify_handler(lambda notification: self._heard.append(notification.payload))
        return self._since_the_last_call

    def _since_the_last_call(self) -> list[str]:
        self._connection.execute(f"NOTIFY purse_jobs, '{self._END}'")
        until(lambda: self._connection.execute("SELECT 1") and self._END in self._heard)
        payloads = self._heard[: self._heard.index(self._END)]
        self._heard.clear()
        return payloads

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def test_a_stream_waits_for_its_own_job_alone(world: World) -> None:
    changes = Changes(world.database)

    events: list[weakref.ref[asyncio.Event]] = []

    async def heard() -> list[bool]:
        with changes.of("job_1") as mine, changes.of("job_2") as theirs:
            events.extend(map(weakref.ref, (mine, theirs)))
            changes.announce("job_1")
            await asyncio.sleep(0)
            first = [mine.is_set(), theirs.is_set()]
            changes.announce(None)
            await asyncio.sleep(0)
            return [*first, theirs.is_set()]

    assert asyncio.run(heard()) == [True, False, True]
    gc.collect()
    assert [event() for event in events] == [None, None], "nothing is kept of a stream that has ended"
