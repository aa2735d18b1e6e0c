"""Many analysts at once on one budget; dispatchers that wake too late. With controls that show the tests can fail."""

import errno
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from accounting.errors import BudgetExhausted
from accounting.filter import Cost, Filter
from accounting.records.allotments import Standing
from accounting.records.documents import canonical
from accounting.records.ledger import advance
from app.http.errors import ApiError
from app.jobs import attempts, store
from app.jobs.leases import Holder
from app.ledger import store as ledger
from app.persistence.tables import datasets, ledgers
from app.worker.dispatcher import Dispatcher
from tests.support.chains import charge_of
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE
from tests.support.service import JOB, Service
from tests.support.threads import at_once
from tests.support.unfenced import held_by_anybody
from tests.support.world import World, output, run_out

CLIENTS = 50


def _admitted_one_by_one(world: World, dataset: str) -> int:
    """Return the number of such jobs that a budget admits, by the pure ledger alone."""
    priced = world.priced(dataset)
    assert priced.cost is not None
    state, count = priced.dataset.state, 0
    while True:
        try:
            state, _ = advance(state, charge_of(f"job_{count}", priced.cost, priced.guarantee), "now")
        except BudgetExhausted:
            return count
        count += 1


def test_a_submission_is_admitted_by_one_decision(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, decided, admits = world.dataset(), list[Cost](), Filter.admits

    def noted(rule: Filter, spent: Cost, cost: Cost) -> bool:
        decided.append(cost)
        return admits(rule, spent, cost)

    monkeypatch.setattr(Filter, "admits", noted)
    world.submit(dataset)
    assert decided == [world.priced(dataset).cost]


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_fifty_submissions_at_once_never_overspend(world: World) -> None:
    dataset = world.dataset(budget={"epsilon": 2.0, "delta": 1e-6})
    fit = _admitted_one_by_one(world, dataset)
    assert 3 <= fit <= 25, "a budget for few"

    def submit(_number: int) -> str:
        try:
            world.submit(dataset)
        except ApiError as problem:
            return problem.code
        return "admitted"

    assert Counter(at_once(CLIENTS, submit)) == {"admitted": fit, "budget_exhausted": CLIENTS - fit}
    assert world.check()["queued"] == fit


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_without_the_lock_the_submissions_overspend(world: World) -> None:
    """The control: the same submissions, but the state is read in one transaction and changed in another."""
    dataset = world.dataset(budget={"epsilon": 2.0, "delta": 1e-6})
    fit = _admitted_one_by_one(world, dataset)
    priced = world.priced(dataset)
    all_read = threading.Barrier(CLIENTS, timeout=PATIENCE)

    def submit(_number: int) -> bool:
        cost = priced.cost
        assert cost is not None
        with world.database.read() as connection:
            stale = ledger.load_state(connection, dataset)
        all_read.wait()  # otherwise each thread may write before the next one reads
        assert stale is not None
        if not priced.outlook(Standing(stale)).fits:
            return False
        with world.database.write() as connection:
            ledger.lock(connection, datasets.c.id == dataset)
            now = ledger.load_state(connection, dataset)
            assert now is not None
            total = tuple(a + b for a, b in zip(now.spent, cost, strict=True))
            text = canonical(replace(now, spent=total, charges=now.charges + 1).to_json()).decode()
            connection.execute(sa.update(ledgers).where(ledgers.c.id == dataset).values(state=text))
        return True

    assert sum(at_once(CLIENTS, submit)) == CLIENTS > fit
    with world.database.read() as connection:
        state = ledger.load_state(connection, dataset)
    assert state.is_exceeded


@pytest.mark.slow
def test_fifty_requests_with_one_key_are_one_job(shared: Service) -> None:
    dataset = shared.dataset()

    def submit(_number: int) -> tuple[int, str]:
        headers = {"Idempotency-Key": "only-once"}
        answer = shared.call("analyst", "POST", "/v1/jobs", json=JOB | {"dataset": dataset}, headers=headers)
        return answer.status_code, answer.json()["id"]

    answers = at_once(CLIENTS, submit)
    assert {status for status, _ in answers} == {202}
    assert len({job for _, job in answers}) == 1
    assert shared.finished(answers[0][1])["state"] == "done"


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_every_job_is_claimed_once(world: World) -> None:
    dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
    jobs = {world.submit(dataset, privacy={"epsilon": 0.1}).id for _ in range(20)}
    claims = [claim for claim in at_once(CLIENTS, lambda _: world.claim()) if claim is not None]
    assert sorted(claim.id for claim in claims) == sorted(jobs)
    world.check()


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_only_one_of_fifty_ends_is_stored_and_only_one_of_fifty_publications_is_a_release(world: World) -> None:
    dataset = world.dataset()
    world.submit(dataset)
    claim = world.claimed()
    ends = at_once(CLIENTS, lambda _: attempts.end(world.database, claim, output(claim), 0.0))
    assert ends.count(True) == 1
    world.clock.pass_(1000.0)
    [[finished], _] = attempts.due(world.database, Holder(world.clock, 30.0))
    publications = at_once(CLIENTS, lambda _: attempts.publish(world.database, world.keys, finished))
    assert Counter(publications) == {"done": 1, None: CLIENTS - 1}
    assert world.kinds(dataset).count("released") == 1
    world.check()


class Paused:
    """Dispatcher A is paused with an attempt in hand; its lease runs out, B takes the job; then A wakes."""

    def __init__(self, home: Path) -> None:
        self.world = World.at(home)
        self.engine_a, self.engine_b = InlineEngine(), InlineEngine()
        self.a, self.b = (
            Dispatcher(self.world.settings, self.world.database, self.world.keys, engine)
            for engine in (self.engine_a, self.engine_b)
        )
        self.dataset = self.world.dataset()
        self.job = self.world.submit(self.dataset).id
        self.engine_a.gate.clear()
        self.a.step()
        assert self.engine_a.submitted == [(self.job, 1)]
        self.world.expire()
        self.engine_b.gate.clear()
        self.b.step()
        assert self.engine_b.submitted == [(self.job, 2)]

    def end(self, engine: InlineEngine, dispatcher: Dispatcher) -> None:
        """Lets the attempt of an engine run to its end, and its dispatcher look at it, before it hears of its loss."""
        engine.gate.set()
        run_out(self.world, dispatcher)

    def releases(self) -> list[int]:
        """The attempts that were released."""
        with self.world.database.read() as connection:
            entries = ledger.entries(connection, self.dataset, 0, 100)
        return [entry.body["attempt"] for entry in entries if entry.kind == "released"]


@pytest.mark.slow
def test_a_dispatcher_that_wakes_before_the_second_attempt_ends_loses(tmp_path: Path) -> None:
    story = Paused(tmp_path / "home")
    story.end(story.engine_a, story.a)
    assert story.releases() == []
    assert story.world.job(story.job).state == "running"
    story.end(story.engine_b, story.b)
    assert story.releases() == [2]
    story.world.check()


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_a_dispatcher_that_wakes_after_the_second_attempt_ended_loses(tmp_path: Path) -> None:
    story = Paused(tmp_path / "home")
    story.end(story.engine_b, story.b)
    story.end(story.engine_a, story.a)
    assert story.releases() == [2]
    story.world.check()


@pytest.mark.slow
@pytest.mark.usefixtures("each_database")
def test_without_the_fence_it_would_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Paused(tmp_path / "home")
    monkeypatch.setattr(store, "live_attempt", held_by_anybody())
    story.end(story.engine_a, story.a)
    assert story.releases() == [2], "attempt 1 was published as attempt 2"


@pytest.mark.slow
def test_a_dispatcher_that_lost_stops_its_attempt(tmp_path: Path) -> None:
    story = Paused(tmp_path / "home")
    story.a.step()
    [running] = story.a.running
    assert not running.is_ours
    run_out(story.world, story.a, 8.0)
    assert story.a.running == []
    story.end(story.engine_b, story.b)
    assert story.releases() == [2]


@pytest.mark.slow
def test_a_late_dispatcher_keeps_its_own_attempts(world: World) -> None:
    """The dispatcher renews its lease before it claims, so the attempt continues after a pause."""
    engine = InlineEngine()
    dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
    job = world.submit(world.dataset()).id
    engine.gate.clear()
    dispatcher.step()
    world.expire()
    dispatcher.step()
    assert engine.submitted == [(job, 1)]
    engine.gate.set()
    run_out(world, dispatcher)
    assert (world.job(job).state, world.job(job).attempt) == ("done", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [sa.exc.OperationalError("commit", {}, Exception("database is locked")), OSError(errno.ENOSPC, "no room")],
    ids=["locked", "full"],
)
def test_a_dispatcher_survives_a_database_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> bool:
        raise error

    world = World.at(tmp_path / "home")
    engine = InlineEngine()
    dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
    job = world.submit(world.dataset()).id
    dispatcher.step()
    for name in ("end", "publish"):
        with monkeypatch.context() as patch:
            patch.setattr(attempts, name, fail)
            with pytest.raises(type(error)):
                run_out(world, dispatcher)
        assert world.job(job).state == "running"
    dispatcher.step()
    assert world.job(job).state == "done"


@pytest.mark.slow
def test_a_refusing_engine_costs_one_attempt_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = InlineEngine()
    dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
    job = world.submit(world.dataset()).id
    with monkeypatch.context() as patch:
        patch.setattr(engine, "submit", lambda *_: 1 / 0)
        dispatcher.step()
    assert world.job(job).attempt == 1
    dispatcher.step()
    run_out(world, dispatcher)
    assert (world.job(job).state, world.job(job).attempt) == ("done", 2)
    world.check()


@pytest.mark.slow
def test_files_of_killed_attempts_are_removed_from_the_scratch_disk(world: World) -> None:
    job = world.submit(world.dataset()).id
    world.claimed()
    scratch = world.settings.home / "scratch"
    for name in (f"{job}-1", f"{job}-2", "job_gone-1", "job_odd-x", "dask-scratch-space"):
        (scratch / name).mkdir(parents=True)
    Dispatcher(world.settings, world.database, world.keys, InlineEngine()).step()
    assert sorted(path.name for path in scratch.iterdir()) == ["dask-scratch-space", f"{job}-1"]
