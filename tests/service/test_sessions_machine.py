"""Sessions in any order of steps, on two servers of one database: no answer is given that is not paid for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from accounting.records.filters import cost_from_json
from accounting.records.sessions import plan_from_json, recorded_cost
from app.datasets import allotments
from app.http.errors import ApiError
from app.identity.store import Principal
from app.jobs import service as jobs
from app.ledger import audit
from app.ledger import store as ledger
from purse.wire.allotments import AllotmentRequest
from purse.wire.budgets import BudgetChange
from purse.wire.datasets import Amendment, SessionPolicy
from tests.support import held_sessions as sessions
from tests.support.held_sessions import GAUSSIAN, many
from tests.support.postgres import Cluster
from tests.support.steps import Machine, machine_settings, run_on_postgresql
from tests.support.world import STEWARD, World

LAPLACE = {"type": "LaplaceDpEvent", "noise_multiplier": 20.0}
PLANS: dict[str, list[dict[str, Any]]] = {
    "few": [many(4)],
    "two kinds": [many(3), many(2, LAPLACE)],
    "most of it": [many(20, GAUSSIAN | {"noise_multiplier": 25.0})],
}
WHOLE = {"privacy": {"epsilon": 2.0}, "steps": 30, "sampling_probability": 0.1}
LIFETIME = 600


@dataclass(slots=True)
class TrackedSession:
    """A session as its program tracks it. The program computes only answers whose recording was accepted."""

    id: str
    owner: Principal
    counts: list[int]
    recorded: list[int]
    expires: float
    end_state: str | None = None
    charged: Any = None


@contextmanager
def refusing() -> Iterator[list[str]]:
    """Collect the code of a refusal inside the block."""
    codes: list[str] = []
    try:
        yield codes
    except ApiError as problem:
        codes.append(problem.code)


@pytest.fixture(scope="module", autouse=True)
def _template(tmp_path_factory: pytest.TempPathFactory) -> None:
    prepare(Sessions, tmp_path_factory.mktemp("template") / "home")


def prepare(machine: type["Sessions"], home: Path) -> None:
    """Write the home that each run of the machine copies: a family of two datasets, and two analysts."""
    world = World.at(home)
    family: dict[str, Any] = {"family": "people", "budget": {"epsilon": 2.0, "delta": 1e-6, "filter": "rdp"}}
    machine.datasets = [world.dataset(**family), world.dataset(**family)]
    machine.bob = world.join("bob", *machine.datasets)
    world.database.close()
    machine.template = home


class Sessions(Machine):
    """Two analysts reserve, record, repeat themselves, close and forget their sessions; jobs share their budget; the
    steward freezes, tops up, allots, changes the rule and deletes one of two datasets; servers are restarted."""

    datasets: list[str]
    bob: Principal
    ids: Bundle[TrackedSession] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.servers = [self.world]
        self.servers.append(self.another_server())
        self.analysts = [self.servers[0].analyst, self.bob]
        self.tracked_sessions: dict[str, TrackedSession] = {}
        self.keys: dict[tuple[str, str], TrackedSession] = {}
        self.frozen = False
        self.deletion: str | None = None

    def another_server(self) -> World:
        """Return one more server on the same home and database, with the same clock."""
        first = self.servers[0]
        return World.at(first.settings.home, first.clock, database_url=first.settings.database_url)

    def teardown(self) -> None:
        world = self.servers[0]
        world.clock.pass_(LIFETIME + 1.0)
        for tracked in self.tracked_sessions.values():
            self._see(tracked, sessions.close(world, tracked.id, tracked.owner))
            document = sessions.receipt(world, tracked.id, tracked.owner)["receipt"]
            assert [part["recorded"] for part in document["plan"]] == tracked.recorded
            assert document["state"] == tracked.end_state
        world.check()
        audit.refuse_unsound(world.database)
        self.servers[1].database.close()
        super().teardown()

    @initialize(target=ids)
    def first(self) -> Any:
        return self.open(0, 0, "few", None, False)

    @rule(
        target=ids,
        server=st.integers(0, 1),
        analyst_index=st.integers(0, 1),
        plan=st.sampled_from([*PLANS, "whole"]),
        key=st.sampled_from(["a", None]),
        second=st.booleans(),
    )
    def reserve(self, server: int, analyst_index: int, plan: str, key: str | None, second: bool) -> Any:
        return self.open(server, analyst_index, plan, key, second)

    def open(self, server: int, analyst_index: int, plan: str, key: str | None, second: bool) -> Any:
        world, owner, dataset = self.servers[server], self.analysts[analyst_index], self.datasets[second]
        options: dict[str, Any] = WHOLE if plan == "whole" else {}
        with refusing() as refused:
            opened = sessions.open_session(
                world, dataset, *PLANS.get(plan, []), key=key, owner=owner, lifetime=LIFETIME, **options
            )
        if refused:
            expected = {"budget_exhausted", "idempotency_conflict", "sessions_refused"}
            expected |= {"dataset_frozen"} if self.frozen else set()
            expected |= {"dataset_deleted", "not_found"} if second and self.deletion else set()
            assert set(refused) <= expected
            return multiple()
        if opened.id in self.tracked_sessions:
            assert key is not None
            self._see(self.tracked_sessions[opened.id], opened)
            return multiple()
        assert not self.frozen
        assert not (second and self.deletion)
        counts = [part.count for part in opened.plan]
        tracked = TrackedSession(opened.id, owner, counts, [0] * len(counts), world.clock.wall() + LIFETIME)
        self.tracked_sessions[opened.id] = tracked
        return tracked

    @rule(
        tracked=ids,
        server=st.integers(0, 1),
        steps=st.lists(st.integers(1, 3), min_size=1, max_size=4),
        event=st.sampled_from([0, 0, 1, 2]),
        key=st.sampled_from(["x", "y", None, None]),
    )
    def run_a_program(
        self, tracked: TrackedSession, server: int, steps: list[int], event: int, key: str | None
    ) -> None:
        """Record answers before they are computed, mostly in a session that is still open."""
        living = [each for each in self.tracked_sessions.values() if self._is_open(each)]
        tracked = living[len(steps) % len(living)] if living and key is None else tracked
        for each in steps:
            self.record(tracked, server, each, event, key)

    def record(self, tracked: TrackedSession, server: int, steps: int, event: int, key: str | None) -> None:
        world = self.servers[server]
        is_open = self._is_open(tracked)
        with refusing() as refused:
            answer = sessions.record(world, tracked.id, steps, event, key, tracked.owner)
        if refused:
            self._check_refusal(tracked, refused[0], is_open, steps, event)
            return
        assert is_open
        now = [part.recorded for part in answer.plan]
        if now != tracked.recorded:
            expected_counts = list(tracked.recorded)
            expected_counts[event] += steps
            if now == expected_counts and not (key and (tracked.id, key) in self.keys):
                tracked.recorded = now
            else:
                assert key is not None, "only a repeated request is answered with an earlier state"
        if key is not None:
            self.keys[tracked.id, key] = tracked

    def _check_refusal(self, tracked: TrackedSession, code: str, was_open: bool, steps: int, event: int) -> None:
        match code:
            case "session_ended":
                assert not was_open
                tracked.end_state = tracked.end_state or "expired"
            case "session_exhausted":
                assert tracked.recorded[event] + steps > tracked.counts[event]
            case "out_of_range":
                assert event >= len(tracked.counts)
            case "dataset_frozen":
                assert self.frozen
            case _:
                assert code == "idempotency_conflict"

    @rule(tracked=ids, server=st.integers(0, 1), is_last=st.sampled_from([True, False, False]))
    def close(self, tracked: TrackedSession, server: int, is_last: bool) -> None:
        if not is_last:
            return
        is_open = self._is_open(tracked)
        self._see(tracked, sessions.close(self.servers[server], tracked.id, tracked.owner))
        assert tracked.end_state == ("closed" if is_open else tracked.end_state)

    @rule(server=st.integers(0, 1), steps=st.lists(st.integers(1, 5), min_size=1, max_size=4), event=st.integers(0, 1))
    def go_on(self, server: int, steps: list[int], event: int) -> None:
        """Record answers in the newest session, perhaps more than it planned."""
        for each in steps:
            self.record(list(self.tracked_sessions.values())[-1], server, each, event, None)

    @rule(tracked=ids, server=st.integers(0, 1))
    def look(self, tracked: TrackedSession, server: int) -> None:
        self._see(tracked, sessions.get(self.servers[server], tracked.id, tracked.owner))

    @rule(tracked=ids, server=st.integers(0, 1))
    def ask_for_the_receipt(self, tracked: TrackedSession, server: int) -> None:
        is_open = self._is_open(tracked)
        with refusing() as refused:
            document = sessions.receipt(self.servers[server], tracked.id, tracked.owner)
        if refused:
            assert (refused, is_open) == (["session_open"], True)
            return
        assert not is_open
        tracked.end_state = tracked.end_state or "expired"
        assert document["receipt"]["state"] == tracked.end_state

    @rule(seconds=st.sampled_from([1.0, 1.0, 1.0, 100.0, LIFETIME / 2]))
    def time_passes(self, seconds: float) -> None:
        self.servers[0].clock.pass_(seconds)

    @rule(server=st.integers(0, 1))
    def restart(self, server: int) -> None:
        self.servers[server].database.close()
        first = self.servers[1 - server]
        self.servers[server] = World.at(first.settings.home, first.clock, database_url=first.settings.database_url)
        self.world = self.servers[0]

    @rule(is_frozen=st.sampled_from([True, False, False]))
    def freeze(self, is_frozen: bool) -> None:
        self.frozen = is_frozen
        self.servers[0].amend(self.datasets[0], Amendment(frozen=self.frozen))

    @rule()
    def top_up(self) -> None:
        with self.servers[0].database.read() as connection:
            state = ledger.load_state(connection, self.datasets[0])
        larger = BudgetChange(epsilon=state.filter.privacy.epsilon + 0.5, delta=1e-6)
        with refusing() as refused:
            self.servers[0].amend(self.datasets[0], Amendment(budget=larger))
        assert set(refused) <= {"overallotted"}

    @rule(policy=st.sampled_from(["refund", "refund", "no_refund", "refused"]))
    def decide(self, policy: SessionPolicy) -> None:
        self.servers[0].amend(self.datasets[0], Amendment(sessions=policy))

    @rule(share=st.sampled_from([0.2, 0.6]), mode=st.sampled_from(["reserved", "shared"]))
    def allot(self, share: float, mode: Any) -> None:
        world, request = self.servers[0], AllotmentRequest(share=share, mode=mode)
        with refusing() as refused:
            allotments.put(world.database, STEWARD, self.datasets[0], self.analysts[1].id, request)
        assert set(refused) <= {"overallotted"}

    @rule(epsilon=st.sampled_from([0.2, 1.0]))
    def run_a_job(self, epsilon: float) -> None:
        with refusing() as refused:
            job = self.servers[1].submit(self.datasets[0], privacy={"epsilon": epsilon})
        if refused:
            assert set(refused) <= {"budget_exhausted", "dataset_frozen"}
            return
        if epsilon < 1.0:
            jobs.cancel(self.servers[0].database, self.servers[0].analyst, job.id)

    @rule()
    def erase(self) -> None:
        if self.deletion:
            return
        self.deletion = self.servers[1].erase(self.datasets[1]).data
        for tracked in self.tracked_sessions.values():
            answer = sessions.get(self.servers[0], tracked.id, tracked.owner)
            if answer.dataset == self.datasets[1]:
                assert answer.state != "open"
                tracked.end_state = answer.state

    def _is_open(self, tracked: TrackedSession) -> bool:
        return tracked.end_state is None and self.servers[0].clock.wall() < tracked.expires

    def _see(self, tracked: TrackedSession, answer: Any) -> None:
        """Check that a response has the counts of the program, and that an ended session stays as it ended."""
        assert [part.recorded for part in answer.plan] == tracked.recorded
        if answer.state == "open":
            assert self._is_open(tracked)
            assert answer.charged == answer.reserved
            return
        tracked.end_state = tracked.end_state or answer.state
        assert answer.state == tracked.end_state
        tracked.charged = tracked.charged or answer.charged
        assert answer.charged == tracked.charged

    @invariant()
    def all_answers_are_paid_for(self) -> None:
        """Each session's live charge is at least the price of the answers that its program computed."""
        with self.servers[0].database.read() as connection:
            state = ledger.load_state(connection, self.datasets[0])
            entries = ledger.entries(connection, self.datasets[0], 0, 100_000)
        assert state is not None
        live: dict[str, tuple[int, ...]] = {}
        plans: dict[str, Any] = {}
        for entry in entries:
            if entry.kind == "reserved":
                live[entry.body["session"]] = cost_from_json(entry.body["cost"])
                plans[entry.body["session"]] = plan_from_json(json.loads(json.dumps(entry.body["plan"])))
            if entry.kind == "settled":
                refund = cost_from_json(entry.body["refund"])
                cost_before = live[entry.body["session"]]
                live[entry.body["session"]] = tuple(a - b for a, b in zip(cost_before, refund, strict=True))
        assert live.keys() == self.tracked_sessions.keys()
        for name, tracked in self.tracked_sessions.items():
            if state.is_charged and any(tracked.recorded):
                used = recorded_cost(state.filter, plans[name], tracked.recorded)
                assert all(a >= b for a, b in zip(live[name], used, strict=True))


TestSessions = pytest.mark.slow(Sessions.TestCase)
TestSessions.settings = machine_settings(examples=20, steps=30)


@pytest.mark.slow
def test_no_answer_is_unpaid_in_any_order_of_steps_on_postgresql(tmp_path: Path, on_postgres: Cluster) -> None:
    run_on_postgresql(Sessions, prepare, tmp_path / "home", on_postgres)
