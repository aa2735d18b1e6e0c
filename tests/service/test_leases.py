"""Leases of jobs: interrupted jobs go first, clean stops cost no attempt, and wall clocks have no effect."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.identity.store import Principal
from app.jobs import attempts, service
from app.jobs.attempts import VANISHED
from app.jobs.leases import Holder
from app.operations.draining import draining
from app.worker.dispatcher import Dispatcher
from app.worker.engine import HANDED_BACK
from app.worker.lives import Lives, lock_home
from tests.support.clocks import HeldClock, SetClock
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE, until
from tests.support.world import World, finish_attempts, output, run_out


def _dispatcher(world: World, slots: int = 1, gate: bool = False) -> tuple[Dispatcher, InlineEngine]:
    engine = InlineEngine(slots)
    if not gate:
        engine.gate.clear()
    return Dispatcher(world.settings, world.database, world.keys, engine), engine


class TestOrderlyStops:
    @pytest.mark.slow
    def test_any_number_of_them_costs_a_job_no_attempt(self, world: World) -> None:
        """Otherwise a second orderly stop would fail a job, and charge it."""
        job = world.submit(world.dataset()).id
        for life in range(1, 6):
            dispatcher, engine = _dispatcher(world)
            dispatcher.step()
            assert engine.submitted == [(job, life)], "at once: nothing was left to run out"
            dispatcher.leave()
            assert world.job(job).state == "running"
        dispatcher, engine = _dispatcher(world, gate=True)
        dispatcher.step()
        run_out(world, dispatcher)
        assert (world.job(job).state, world.job(job).attempt, world.job(job).error) == ("done", 6, None)
        world.check()

    @pytest.mark.slow
    def test_lose_nothing_that_has_ended(self, world: World) -> None:
        """The ended attempt is kept, is not run again, and is reported at its time by any running server."""
        dataset = world.dataset()
        job = world.submit(dataset).id
        dispatcher, _ = _dispatcher(world, gate=True)
        dispatcher.step()
        finish_attempts(dispatcher)
        dispatcher.leave()
        assert world.job(job).state == "running"
        later, engine = _dispatcher(world)
        later.step()
        assert (world.job(job).state, engine.submitted) == ("running", [])
        world.clock.pass_(0.25)
        later.step()
        assert (world.job(job).state, world.job(job).attempt, engine.submitted) == ("done", 1, [])
        assert world.kinds(dataset) == ["opened", "charged", "started", "released"]

    @pytest.mark.slow
    def test_and_then_two_lost_workers_are_still_two(self, world: World) -> None:
        job = world.submit(world.dataset()).id
        for _ in range(3):
            dispatcher, _ = _dispatcher(world)
            dispatcher.step()
            dispatcher.leave()
        for lost in (1, 2):
            claim = world.claimed()
            attempts.end(world.database, claim, VANISHED, world.clock.ticks())
            assert world.job(job).state == "running", lost
        world.tell()
        assert (world.job(job).state, world.job(job).error, world.job(job).attempt) == ("failed", "worker_lost", 5)

    @pytest.mark.slow
    def test_those_of_a_workers_machine_cost_no_attempt(self, world: World) -> None:
        """Jobs are returned at points of the grid, which hides the time of a step. Two lost attempts count as two."""
        job = world.submit(world.dataset()).id
        dispatcher, engine = _dispatcher(world, gate=True)
        engine.ends = {1: HANDED_BACK, 2: HANDED_BACK, 3: VANISHED}
        dispatcher.step()
        for attempt in (1, 2):
            assert engine.submitted[-1] == (job, attempt)
            [running] = dispatcher.running
            finish_attempts(dispatcher)
            world.clock.pass_(0.9 * (running.next_check - world.clock.ticks()))
            dispatcher.step()
            assert (engine.submitted[-1], world.job(job).state) == ((job, attempt), "running")
            run_out(world, dispatcher)
        finish_attempts(dispatcher)
        dispatcher.step()
        assert engine.submitted[-1] == (job, 4)
        run_out(world, dispatcher)
        assert (world.job(job).state, world.job(job).attempt) == ("done", 4)
        world.check()

    def test_cancelling_a_returned_job_refunds_nothing(self, world: World) -> None:
        dataset = world.dataset()
        job = world.submit(dataset).id
        dispatcher, _ = _dispatcher(world)
        dispatcher.step()
        dispatcher.leave()
        service.cancel(world.database, world.analyst, job)
        assert world.kinds(dataset) == ["opened", "charged", "started", "cancelled"]
        world.check()


class TestDrain:
    @pytest.mark.slow
    def test_claims_nothing_more_and_ends_at_a_point_of_the_grid(self, tmp_path: Path) -> None:
        """Previously the time at which a server stopped revealed that an attempt had ended."""
        clock = HeldClock()
        world = World.at(tmp_path / "home", clock)
        dataset = world.dataset()
        job = world.submit(dataset).id
        dispatcher, _ = _dispatcher(world, gate=True)
        dispatcher.start()
        until(lambda: dispatcher.running and dispatcher.running[0].handle.done())
        second = world.submit(dataset).id
        assert not dispatcher.drain(0.05)
        dispatcher.wake()
        clock.settle()
        assert not dispatcher.drain(0.05), "it ended, and nobody is to know"
        clock.pass_(1000.0)
        assert dispatcher.drain(PATIENCE)
        assert world.job(second).state == "queued"
        assert (world.job(job).state, world.job(job).attempt) == ("done", 1)

    def test_answers_until_nothing_runs_and_ends_at_once_at_a_second_signal(self) -> None:
        ends, reported, drained = list[int](), list[str](), threading.Event()
        services = SimpleNamespace(
            readiness=SimpleNamespace(drain=lambda: reported.append("draining")),
            dispatcher=SimpleNamespace(drain=drained.wait),
        )
        application: Any = SimpleNamespace(state=SimpleNamespace())
        handle_signal = draining(lambda number, _frame: ends.append(number), application, PATIENCE)
        handle_signal(1, None)
        assert ends == [1], "it has not started yet"
        application.state.services = services
        handle_signal(15, None)
        assert (reported, ends) == (["draining"], [1])
        handle_signal(2, None)
        assert ends == [1, 2]
        drained.set()
        until(lambda: ends == [1, 2, 15])


class TestOrder:
    def test_an_interrupted_job_runs_before_all_queued_ones(self, world: World) -> None:
        """Otherwise its own dead attempt counts as a running one of its owner, and it waits behind other queues."""
        dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
        job = world.submit(dataset).id
        first, _ = _dispatcher(world)
        first.step()
        rival = world.join("bob", dataset)
        for _ in range(5):
            world.submit(dataset, owner=rival, privacy={"epsilon": 0.1})
        world.expire()
        second, engine = _dispatcher(world)
        second.step()
        assert engine.submitted == [(job, 2)]

    def test_the_analyst_with_fewer_live_attempts_goes_first(self, world: World) -> None:
        """An ended attempt does not count, even before its end is published."""
        dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
        bob = world.join("bob", dataset)

        def submit(owner: Principal) -> None:
            world.submit(dataset, owner=owner, privacy={"epsilon": 0.1})

        for owner in (world.analyst, bob):
            submit(owner)
            claim = world.claimed()
            if owner is world.analyst:
                attempts.end(world.database, claim, output(claim), world.clock.ticks())
        for owner in (bob, world.analyst):
            submit(owner)
        order = [claim.job.analyst for claim in (world.claim(), world.claim()) if claim]
        assert order == ["ada", "bob"]


class TestClocks:
    @pytest.mark.slow
    @pytest.mark.parametrize("jump", [-3600.0, 3600.0, -1e9, 1e9])
    def test_a_clock_that_is_set_changes_nothing(self, world: World, jump: float) -> None:
        """A clock set back must not block jobs, and one set forward must not expire the server's own leases."""
        job = world.submit(world.dataset()).id
        dispatcher, engine = _dispatcher(world)
        world.clock.set_wall(jump)
        dispatcher.step()
        world.clock.set_wall(jump)
        for _ in range(20):
            world.clock.pass_(10.0)
            dispatcher.step()
        assert engine.submitted == [(job, 1)]
        engine.gate.set()
        run_out(world, dispatcher)
        assert (world.job(job).state, world.job(job).attempt) == ("done", 1)

    @pytest.mark.usefixtures("each_database")
    def test_a_dead_holders_job_is_taken_after_the_lease_and_no_sooner(self, world: World) -> None:
        job = world.submit(world.dataset()).id
        dead, _ = _dispatcher(world)
        dead.step()
        successor, engine = _dispatcher(world)
        for _ in range(3):
            world.clock.set_wall(-3600.0)
            successor.step()
            world.clock.pass_(9.9)
        assert engine.submitted == []
        world.clock.pass_(0.4)
        successor.step()
        assert engine.submitted == [(job, 2)]

    @pytest.mark.slow
    @pytest.mark.usefixtures("each_database")
    def test_two_servers_on_one_database_compare_no_clocks(self, world: World) -> None:
        """Each has its own boot and its own ticks. Neither claims a job whose lease the other renews."""
        job = world.submit(world.dataset()).id
        here, _ = _dispatcher(world)
        here.step()
        there = World.at(world.settings.home, SetClock("another boot"))
        there.clock.pass_(1e6)
        neighbour, engine = _dispatcher(there)
        for _ in range(10):
            world.clock.pass_(10.0)
            here.step()
            there.clock.pass_(10.0)
            neighbour.step()
        assert engine.submitted == []
        for _ in range(4):  # the first one is paused
            there.clock.pass_(10.0)
            neighbour.step()
        assert engine.submitted == [(job, 2)]
        world.clock.pass_(10.0)
        here.step()
        assert [running.is_ours for running in here.running] == [False]
        engine.gate.set()
        run_out(there, neighbour)
        assert (world.job(job).state, world.job(job).attempt) == ("done", 2)


class Life:
    """A server with its own workers, as `app.main` starts it."""

    def __init__(self, world: World, boot: str = "boot") -> None:
        self.home = world.settings.home
        self.lock = lock_home(self.home)
        self.lives = Lives(self.home, boot)
        self.engine = InlineEngine(1)
        self.engine.gate.clear()
        self.dispatcher = Dispatcher(world.settings, world.database, world.keys, self.engine, self.lives.dead_holders)
        self.lives.start(self.dispatcher.holder)
        self.dispatcher.step()

    def killed(self) -> None:
        """Let the system release its locks, as at the end of its process; nothing else happens."""
        self.lock.close()
        locked = self.home / "servers" / self.dispatcher.holder
        unlocked = locked.with_name("unlocked")
        unlocked.write_bytes(locked.read_bytes())
        unlocked.replace(locked)


class TestServersOfOneHome:
    """Each knows at once which of the others on this machine are dead, if their workers were their own processes."""

    def test_a_running_or_starting_server_takes_over_at_once(self, world: World) -> None:
        """The attempts of a dead server on the same machine need no lease to expire."""
        job = world.submit(world.dataset()).id
        first, neighbour = Life(world), Life(world)
        assert (first.engine.submitted, neighbour.engine.submitted) == ([(job, 1)], [])
        neighbour.dispatcher.step()
        assert neighbour.engine.submitted == [], "the first server runs"
        first.killed()
        neighbour.dispatcher.step()
        assert neighbour.engine.submitted == [(job, 2)]
        neighbour.killed()
        assert Life(world).engine.submitted == [], "a second lost attempt fails the job"
        world.tell()
        assert world.job(job).error == "worker_lost"
        world.check()

    def test_servers_of_another_machine_or_boot_wait_for_the_lease(self, world: World) -> None:
        job = world.submit(world.dataset()).id
        Life(world).killed()
        there = World.at(world.settings.home, SetClock("another boot"))
        life_elsewhere = Life(there, "another boot")
        assert life_elsewhere.engine.submitted == []
        there.clock.pass_(31.0)
        life_elsewhere.dispatcher.step()
        assert life_elsewhere.engine.submitted == [(job, 2)]

    def test_an_orderly_end_leaves_nothing_to_find(self, world: World) -> None:
        life = Life(world)
        life.lives.stop()
        assert list((world.settings.home / "servers").iterdir()) == []
        assert Life(world).lives.dead_holders() == []

    def test_a_command_that_needs_the_home_alone_does_not_share_it(self, world: World) -> None:
        home = world.settings.home
        with lock_home(home), lock_home(home), pytest.raises(RuntimeError, match="another purse server"):
            lock_home(home, alone=True)
        with lock_home(home, alone=True), pytest.raises(RuntimeError, match="another purse server"):
            lock_home(home)


class TestEndsAcrossMachines:
    """An end that one boot measured is reported on that boot's grid, independently of other machines' clocks."""

    @staticmethod
    def _with_ended_attempt(world: World) -> tuple[str, Dispatcher]:
        """Return a job whose attempt ended after 0.1 seconds, to be published at 0.25 seconds."""
        job = world.submit(world.dataset()).id
        dispatcher, _ = _dispatcher(world, gate=True)
        dispatcher.step()
        finish_attempts(dispatcher)
        world.clock.pass_(0.1)
        claim = dispatcher.running[0].claim
        attempts.end(world.database, claim, output(claim), world.clock.ticks())
        return job, dispatcher

    def test_another_machine_waits_for_the_server_that_measures(self, tmp_path: Path) -> None:
        """Otherwise its own ticks would reveal exactly when the attempt ended. The other server sends heartbeats."""
        world = World.at(tmp_path / "home", renew_seconds=0.01)
        job, here = self._with_ended_attempt(world)
        there = World.at(world.settings.home, SetClock("another boot"))
        other_dispatcher, _ = _dispatcher(there)
        for _ in range(5):
            there.clock.pass_(10.0)
            other_dispatcher.step()
            world.clock.pass_(0.01)
            here.step()
            assert world.job(job).state == "running"
        world.clock.pass_(0.1)
        here.step()
        assert world.job(job).state == "done"

    @pytest.mark.slow
    def test_another_machine_ends_it_if_that_server_is_dead(self, world: World) -> None:
        job, _ = self._with_ended_attempt(world)
        there = World.at(world.settings.home, SetClock("another boot"))
        other_dispatcher, _ = _dispatcher(there)
        for _ in range(4):
            assert world.job(job).state == "running"
            other_dispatcher.step()
            there.clock.pass_(10.0)
        other_dispatcher.step()
        assert world.job(job).state == "done"


def test_a_holder_is_judged_by_its_counter_alone() -> None:
    clock = SetClock()
    holder = Holder(clock, 30.0)
    assert holder.living({"a": 1, "b": 1}) == sorted(["a", "b", holder.id])
    clock.pass_(29.0)
    assert "a" in holder.living({"a": 2, "b": 1})
    clock.pass_(1.0)
    assert holder.living({"a": 2, "b": 1, holder.id: 0}) == sorted(["a", holder.id]), "b stood still; never oneself"
    assert "b" in holder.living({"a": 2, "b": 2}), "it has moved again"
    assert holder.living({}) == [holder.id], "whose counter is gone is dead at once"
    clock.pass_(1e9)
    assert holder.living({"c": 7}) == sorted(["c", holder.id]), "never seen before: its time begins now"


class _PassingClock(SetClock):
    """A clock that advances by a second between two readings."""

    def ticks(self) -> float:
        self.pass_(1.0)
        return SetClock.ticks(self)


def test_a_counter_that_is_observed_for_the_first_time_has_age_zero() -> None:
    holder = Holder(_PassingClock(), 30.0)
    assert [holder.stillest({"a": 1}), holder.stillest({"a": 1}), holder.stillest({})] == [0.0, 1.0, 0.0]
