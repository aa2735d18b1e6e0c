"""When a job really ends is seen by nobody: not in its state, not in what leaves, not in when another one starts."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.calculation import questions
from app.http.lists import Paging
from app.jobs import service as jobs
from app.jobs import store
from app.ledger import service as ledgers
from app.persistence import tables
from app.worker.dispatcher import Dispatcher
from app.worker.engine import RAISED
from tests.service.conftest import MakeService
from tests.support.clocks import HeldClock
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE
from tests.support.service import JOB, Service
from tests.support.world import World, output_of

QUICK: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 3}, "privacy": {"epsilon": 0.2}}


@dataclass
class AssumedSpeed:
    """The speed of a machine, as a test sets it."""

    forecast: float = 0.0

    def seconds(self, *_: Any) -> float:
        return self.forecast


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> AssumedSpeed:
    assumed_speed = AssumedSpeed()
    monkeypatch.setattr(questions, "measured_speed", lambda: assumed_speed)
    return assumed_speed


@dataclass
class PausedService:
    """A service whose time stands still, and whose only slot has run every attempt to its end by the next step."""

    service: Service
    clock: HeldClock
    dataset: str
    # Threads of earlier tests at their gates: they never end, and no test waits for them.
    earlier_threads: frozenset[threading.Thread]

    def submit(self) -> str:
        answer = self.service.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": self.dataset} | QUICK)
        assert answer.status_code == 202, answer.text
        self.clock.settle()
        for thread in [
            t for t in threading.enumerate() if t.name == InlineEngine.THREAD and t not in self.earlier_threads
        ]:
            thread.join(PATIENCE)
        self.clock.settle()
        return str(answer.json()["id"])

    def pass_(self, seconds: float) -> None:
        self.clock.pass_(seconds)
        self.clock.settle()

    def job(self, job: str) -> dict[str, Any]:
        document: dict[str, Any] = self.service.call("analyst", "GET", f"/v1/jobs/{job}").json()
        return document

    def everything(self, job: str) -> dict[str, Any]:
        """Return the answers of all routes about the job."""

        def get(path: str, role: str = "analyst") -> Any:
            answer = self.service.call(role, "GET", path)
            return answer.status_code, answer.json()

        metrics = self.service.call("auditor", "GET", "/metrics").text
        of_jobs = ("purse_jobs", "purse_job_seconds", "purse_queue", "purse_holders", "purse_worker_slots")
        return {
            "job": get(f"/v1/jobs/{job}"),
            "list": get("/v1/jobs"),
            "model": get(f"/v1/jobs/{job}/model"),
            "receipt": get(f"/v1/jobs/{job}/receipt", "auditor"),
            "ledger": get(f"/v1/datasets/{self.dataset}/ledger", "auditor"),
            "budget": get(f"/v1/datasets/{self.dataset}/budget", "steward"),
            "metrics": [line for line in metrics.splitlines() if line.startswith(of_jobs)],
        }


@pytest.fixture
def paused(tmp_path: Path, speed: AssumedSpeed, make_service: MakeService) -> Iterator[PausedService]:
    """Jobs are forecast to take no time."""
    assert speed.forecast == 0.0
    earlier_threads = frozenset(threading.enumerate())
    clock = HeldClock()
    with make_service(tmp_path / "home", clock=clock) as service:
        service.engine.slots = 1
        yield PausedService(service, clock, service.dataset(), earlier_threads)
        service.engine.close()
        clock.pass_(1e6)


def _elapsed(job: dict[str, Any]) -> float:
    start, end = (datetime.fromisoformat(job[name]) for name in ("created_at", "finished_at"))
    return (end - start).total_seconds()


@pytest.mark.slow
def test_an_ended_job_looks_like_a_running_one_until_the_grids_next_point(paused: PausedService) -> None:
    job = paused.submit()
    running = paused.everything(job)
    assert running["job"][1]["state"] == "running"
    assert running["job"][1]["progress"] == {"done": 0, "total": 3 + 3}  # steps and moments
    assert running["model"][0] == running["receipt"][0] == 409
    assert [entry["kind"] for entry in running["ledger"][1]["items"]] == ["opened", "charged", "started"]
    for _ in range(4):
        paused.pass_(0.06)
        assert paused.everything(job) == running
    paused.pass_(0.01)
    finished = paused.everything(job)
    assert (finished["job"][1]["state"], _elapsed(finished["job"][1])) == ("done", 0.25)
    assert finished["job"][1]["progress"] == {"done": 6, "total": 6}
    assert finished["model"][0] == finished["receipt"][0] == 200
    last = finished["ledger"][1]["items"][-1]
    assert (last["kind"], last["body"]["at"]) == ("released", finished["job"][1]["finished_at"])
    assert finished["receipt"][1]["receipt"]["issued_at"] == finished["job"][1]["finished_at"]


@pytest.mark.slow
def test_and_not_before_its_forecast(paused: PausedService, speed: AssumedSpeed) -> None:
    speed.forecast = 5.0
    job = paused.submit()
    paused.pass_(7.99)
    assert paused.job(job)["state"] == "running"
    paused.pass_(0.01)
    assert (paused.job(job)["state"], _elapsed(paused.job(job))) == ("done", 8.0)


@pytest.mark.slow
def test_a_failure_is_published_on_the_grid(paused: PausedService) -> None:
    paused.service.engine.ends[1] = RAISED
    job = paused.submit()
    paused.pass_(0.2)
    running = paused.everything(job)
    assert running["job"][1]["state"] == "running"
    paused.pass_(0.05)
    assert (paused.job(job)["state"], paused.job(job)["error"], _elapsed(paused.job(job))) == (
        "failed",
        "job_failed",
        0.25,
    )


@pytest.mark.slow
def test_the_next_job_starts_at_a_point_of_the_grid(paused: PausedService) -> None:
    """Otherwise an analyst's own queue would show when the slot became free."""
    first = paused.submit()
    paused.pass_(0.1)
    second = paused.submit()
    paused.pass_(0.14)
    assert (paused.job(first)["state"], paused.job(second)["state"]) == ("running", "queued")
    paused.pass_(0.01)
    assert (paused.job(first)["state"], paused.job(second)["state"]) == ("done", "running")


class TestCancel:
    @pytest.mark.slow
    def test_an_unpublished_end_is_cancelled_like_a_running_job(self, paused: PausedService) -> None:
        job = paused.submit()
        answer = paused.service.call("analyst", "DELETE", f"/v1/jobs/{job}")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        paused.pass_(1000.0)
        cancelled = paused.everything(job)
        assert (cancelled["job"][1]["state"], cancelled["model"][0], cancelled["receipt"][0]) == ("cancelled", 409, 409)
        kinds = [entry["kind"] for entry in cancelled["ledger"][1]["items"]]
        assert kinds == ["opened", "charged", "started", "cancelled"]

    @pytest.mark.slow
    @pytest.mark.parametrize("ends", [True, False])
    def test_its_slot_is_freed_at_the_same_time_in_both_cases(self, paused: PausedService, ends: bool) -> None:
        if not ends:
            paused.service.engine.gate.clear()  # it waits until it is told to stop
            job = paused.service.call(
                "analyst", "POST", "/v1/jobs", json=JOB | {"dataset": paused.dataset} | QUICK
            ).json()["id"]
            paused.clock.settle()
        else:
            job = paused.submit()
        paused.service.call("analyst", "DELETE", f"/v1/jobs/{job}")
        paused.clock.settle()
        paused.service.engine.gate.set()
        next_job = paused.submit()
        paused.pass_(7.99)
        assert paused.job(next_job)["state"] == "queued"
        paused.pass_(0.01)
        assert paused.job(next_job)["state"] == "running"


class _Timed:
    """An engine whose attempts end at the given ticks after their start."""

    def __init__(self, world: World, lengths: list[float]) -> None:
        self.world, self.slots, self._lengths = world, 1, iter(lengths)

    def submit(self, job_id: str, _attempt: int, _payload: str) -> "_Timed.Handle":
        return _Timed.Handle(self.world, job_id, self.world.clock.ticks() + next(self._lengths))

    def take(self, held_slots: int) -> bool:
        return held_slots < self.slots

    def hold(self, held_slots: int) -> None:
        pass

    def close(self) -> None:
        pass

    class Handle:
        def __init__(self, world: World, job: str, end: float) -> None:
            self._world, self._job, self._end = world, job, end

        def done(self) -> bool:
            return self._world.clock.ticks() >= self._end

        def result(self) -> str:
            return output_of(self._world, self._job)

        def cancel(self) -> None:
            self._end = self._world.clock.ticks()


def _visible_frames(home: Path, lengths: list[float], meanwhile: Callable[[World, int], None]) -> list[str]:
    """Return everything that is visible, fifty times a second, of jobs of these lengths one after the other."""
    world = World.at(home)
    dataset = world.dataset(budget={"epsilon": 20.0, "delta": 1e-6})
    dispatcher = Dispatcher(world.settings, world.database, world.keys, _Timed(world, lengths))
    names = {dataset: "the dataset"}
    frames = []
    for frame in range(150):
        meanwhile(world, frame)
        if frame % 37 == 0 and frame < 37 * len(lengths):
            names[world.submit(dataset, **QUICK).id] = f"job {len(names)}"
        dispatcher.step()
        page = jobs.page(world.database, world.analyst, Paging()).model_dump_json()
        entries = [
            entry.body | {"kind": entry.kind}
            for entry in ledgers.page(world.database, dataset, Paging(order="asc")).items
        ]
        text = page + json.dumps([{k: v for k, v in e.items() if k != "model_sha256"} for e in entries])
        for identifier, name in names.items():
            text = text.replace(identifier, name)
        frames.append(text)
        world.clock.pass_(0.02)
    world.database.close()
    return frames


@pytest.mark.slow
def test_two_runs_whose_ends_lie_in_the_same_cells_look_the_same(tmp_path: Path, speed: AssumedSpeed) -> None:
    """The states, the ledger and the starts of three jobs on one slot, submitted at arbitrary times, are equal."""
    assert speed.forecast == 0.0

    def nothing(_world: World, _frame: int) -> None:
        pass

    early = _visible_frames(tmp_path / "early", [0.52, 0.01, 0.3], nothing)
    late = _visible_frames(tmp_path / "late", [0.99, 0.2, 0.49], nothing)
    assert early == late
    assert early[-1].count('"state":"done"') == 3
    next_cell = _visible_frames(tmp_path / "other", [1.02, 0.01, 0.3], nothing)
    assert next_cell != early, "the control: another cell is visible"


@pytest.mark.slow
def test_two_runs_look_the_same_if_a_job_is_cancelled(tmp_path: Path, speed: AssumedSpeed) -> None:
    assert speed.forecast == 0.0

    def cancel(world: World, frame: int) -> None:
        if frame == 38:  # at .76 s: one run's first job has ended, the other's has not
            with world.database.read() as connection:
                [first, *_] = store.page(connection, Paging(order="asc"), tables.jobs.c.owner_id == world.analyst.id)
            jobs.cancel(world.database, world.analyst, first.id)

    assert _visible_frames(tmp_path / "early", [0.52, 0.01, 0.3], cancel) == _visible_frames(
        tmp_path / "late", [0.99, 0.2, 0.49], cancel
    )
