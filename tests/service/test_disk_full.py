"""A disk without room: said so, nothing charged, nothing half done, and all goes on once there is room again."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.datasets import folders
from app.jobs import store
from app.sources.matrix import MatrixWriter
from app.worker import execute
from app.worker.dispatcher import Dispatcher
from tests.support.engines import writer
from tests.support.inline_engine import InlineEngine
from tests.support.patience import until
from tests.support.service import JOB, SPEC, Service, people
from tests.support.world import World, finish_attempts, run_out


class Disk:
    """The disk of a database's file, full or not. SQLite raises its own error."""

    def __init__(self, engine: sa.Engine) -> None:
        self.is_full = False
        sa.event.listen(engine, "begin", self._begin)

    def _begin(self, connection: sa.Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        raw.execute(f"PRAGMA max_page_count={1 if self.is_full else 2**30}")


def _no_room(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "s3cr3t")


@pytest.mark.slow
def test_an_upload_says_so_and_leaves_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in ((MatrixWriter, "append"), (folders, "publish")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, _no_room)
            answer = service.upload()
        assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
        assert answer.headers["content-type"] == "application/problem+json"
        assert "s3cr3t" not in answer.text
        assert list(folders.root(service.home).iterdir()) == []
    assert service.upload().status_code == 201


@pytest.mark.slow
def test_a_job_that_the_database_has_no_room_for_is_not_charged(service: Service) -> None:
    service.engine.slots = 0
    dataset = service.upload(SPEC, people(200)).json()["id"]
    disk = Disk(writer(service.database))
    disk.is_full = True

    def submit() -> Any:
        return service.call(
            "analyst", "POST", "/v1/jobs", json=JOB | {"dataset": dataset, "privacy": {"epsilon": 0.01}}
        )

    admitted = 0
    while True:
        state_before = service.durable(dataset)
        answer = submit()
        if answer.status_code != 202:  # the pages that were there are full
            break
        admitted += 1
        assert admitted < 50
    assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
    assert service.durable(dataset) == state_before
    disk.is_full = False
    assert submit().status_code == 202
    assert service.call("analyst", "GET", f"/v1/datasets/{dataset}/budget").json()["jobs"] == admitted + 1


@pytest.mark.slow
def test_an_attempt_without_room_is_tried_again_later_however_often(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk does not fail a job, however often it occurs."""
    engine = InlineEngine(1)
    dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
    dataset = world.dataset()
    job = world.submit(dataset).id
    waits = [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    with monkeypatch.context() as patch:
        patch.setattr(execute, "compute", _no_room)
        for attempt, wait in enumerate(waits, start=1):
            dispatcher.step()
            assert engine.submitted[-1] == (job, attempt)
            finish_attempts(dispatcher)
            dispatcher.step()
            assert (world.job(job).state, dispatcher.waiting_for_disk()) == ("running", [job])
            world.clock.pass_(wait - 1.0)
            dispatcher.step()
            assert len(engine.submitted) == attempt, "it waits longer each time"
            world.clock.pass_(1.0)
    assert f"attempt_full {job} 1" in [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "s3cr3t" not in caplog.text
    dispatcher.step()
    run_out(world, dispatcher, 3000.0)
    assert (world.job(job).state, world.job(job).attempt) == ("done", len(waits) + 1)
    assert dispatcher.waiting_for_disk() == []
    with world.database.read() as connection:
        row = store.get(connection, job)
    assert row is not None
    assert row.lost == 0
    world.check()


@pytest.mark.slow
def test_an_attempt_without_memory_is_a_failure_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The needed memory may depend on the data, so the failure has the usual code, no second attempt, and a charge."""

    def no_memory(*_: Any) -> None:
        raise MemoryError("s3cr3t")

    world = World.at(tmp_path / "home")
    dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine(1))
    job = world.submit(world.dataset()).id
    monkeypatch.setattr(execute, "compute", no_memory)
    dispatcher.step()
    run_out(world, dispatcher)
    assert (world.job(job).state, world.job(job).error, world.job(job).attempt) == ("failed", "job_failed", 1)
    assert "s3cr3t" not in caplog.text
    world.check()


@pytest.mark.slow
def test_a_job_without_space_does_not_delay_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted job would run first. While it waits for space, other jobs use the only slot."""
    dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine(1))
    dataset = world.dataset()
    large = world.submit(dataset).id
    with monkeypatch.context() as patch:
        patch.setattr(execute, "compute", _no_room)
        dispatcher.step()
        finish_attempts(dispatcher)
    small = world.submit(dataset).id
    dispatcher.step()
    run_out(world, dispatcher, 10.0)
    assert (world.job(large).state, world.job(small).state) == ("running", "done")
    world.clock.pass_(20.0)
    dispatcher.step()
    run_out(world, dispatcher)
    assert world.job(large).state == "done"


@pytest.mark.slow
def test_a_job_without_room_is_seen_by_a_monitor(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = service.dataset()
    assert "purse_jobs_without_room 0.0" in service.call("auditor", "GET", "/metrics").text
    with monkeypatch.context() as patch:
        patch.setattr(execute, "compute", _no_room)
        service.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": dataset})
        # Its pause is short on the test's clock: a later request may find the job in its next attempt.
        until(lambda: "purse_jobs_without_room 1.0" in service.call("auditor", "GET", "/metrics").text)
        assert service.client.get("/health/ready").status_code == 200, "others can be served"


@pytest.mark.slow
def test_without_room_it_is_not_ready_and_starts_no_job(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = service.dataset()
    usage = shutil.disk_usage
    monkeypatch.setattr("app.operations.readiness.CACHE_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=2**20))
        answer = service.client.get("/health/ready")
        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert "disk" in answer.json()["detail"]
        job = service.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": dataset}).json()
        service.app.state.services.dispatcher.step()
        assert service.call("analyst", "GET", f"/v1/jobs/{job['id']}").json()["state"] == "queued"
    assert service.client.get("/health/ready").status_code == 200
    assert service.finished(job["id"])["state"] == "done"
