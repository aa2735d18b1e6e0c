"""Sessions in any order of steps, on two servers of one database: no answer is given that is not paid for."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

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
from tests.support.steps import machine_settings, run_on_postgresql
from tests.support.world import STEWARD, World, check_books

LAPLACE = {"type": "LaplaceDpEvent", "noise_multiplier": 20.0}
PLANS: dict[str, list[dict[str, Any]]] = {
    "few": [many(4)],
    "two kinds": [many(3), many(2, LAPLACE)],
    "most of it": [many(20, GAUSSIAN | {"noise_multiplier": 25.0})],
}
WHOLE = {"privacy": {"epsilon": 2.0}, "steps": 30, "sampling_probability": 0.1}
LIFETIME = 600


@dataclass(slots=True)
class Held:
    """A session as its program sees it. The program computes only answers whose recording was accepted."""

    id: str
    owner: Principal
    counts: list[int]
    recorded: list[int]
    expires: float
    ended: str | None = None
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


class Sessions(RuleBasedStateMachine):
    """Two analysts reserve, record, repeat themselves, close and forget their sessions; jobs share their budget; the
    steward freezes, tops up, allots, changes the rule and deletes one of two datasets; servers are restarted."""

    template: Path
    datasets: list[str]
    bob: Principal
    ids: Bundle[Held] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        home = Path(self.folder.name) / "home"
        self.servers = [self.fresh(home)]
        self.servers.append(self.another())
        self.analysts = [self.servers[0].analyst, self.bob]
        self.known: dict[str, Held] = {}
        self.keys: dict[tuple[str, str], Held] = {}
        self.balanced: dict[str, Any] = {}
        self.frozen = False
        self.gone: str | None = None

    def fresh(self, home: Path) -> World:
        """A copy of the template."""
        shutil.copytree(self.template, home)
        return World.at(home)

    def another(self) -> World:
        """Return one more server on the same home and database, with the same clock."""
        first = self.servers[0]
        return World.at(first.settings.home, first.clock, database_url=first.settings.database_url)

    def teardown(self) -> None:
        world = self.servers[0]
        world.clock.pass_(LIFETIME + 1.0)
        for held in self.known.values():
            self._see(held, sessions.close(world, held.id, held.owner))
            document = sessions.receipt(world, held.id, held.owner)["receipt"]
            assert [part["recorded"] for part in document["plan"]] == held.recorded
            assert document["state"] == held.ended
        world.check()
        audit.refuse_unsound(world.database)
        for server in self.servers:
            server.database.close()
        self.folder.cleanup()

    @initialize(target=ids)
    def first(self) -> Any:
        return self.open(0, 0, "few", None, False)

    @rule(
        target=ids,
        server=st.integers(0, 1),
        who=st.integers(0, 1),
        plan=st.sampled_from([*PLANS, "whole"]),
        key=st.sampled_from(["a", None]),
        second=st.booleans(),
    )
    def reserve(self, server: int, who: int, plan: str, key: str | None, second: bool) -> Any:
        return self.open(server, who, plan, key, second)

    def open(self, server: int, who: int, plan: str, key: str | None, second: bool) -> Any:
        world, owner, dataset = self.servers[server], self.analysts[who], self.datasets[second]
        more: dict[str, Any] = WHOLE if plan == "whole" else {}
        with refusing() as refused:
            made = sessions.open_session(
                world, dataset, *PLANS.get(plan, []), key=key, owner=owner, lifetime=LIFETIME, **more
            )
        if refused:
            expected = {"budget_exhausted", "idempotency_conflict", "sessions_refused"}
            expected |= {"dataset_frozen"} if self.frozen else set()
            expected |= {"dataset_deleted", "not_found"} if second and self.gone else set()
            assert set(refused) <= expected
            return multiple()
        if made.id in self.known:
            assert key is not None
            self._see(self.known[made.id], made)
            return multiple()
        assert not self.frozen
        assert not (second and self.gone)
        counts = [part.count for part in made.plan]
        held = Held(made.id, owner, counts, [0] * len(counts), world.clock.wall() + LIFETIME)
        self.known[made.id] = held
        return held

    @rule(
        held=ids,
        server=st.integers(0, 1),
        steps=st.lists(st.integers(1, 3), min_size=1, max_size=4),
        event=st.sampled_from([0, 0, 1, 2]),
        key=st.sampled_from(["x", "y", None, None]),
    )
    def run_a_program(self, held: Held, server: int, steps: list[int], event: int, key: str | None) -> None:
        """Record answers before they are computed, mostly in a session that is still open."""
        living = [each for each in self.known.values() if self._is_open(each)]
        held = living[len(steps) % len(living)] if living and key is None else held
        for each in steps:
            self.record(held, server, each, event, key)

    def record(self, held: Held, server: int, steps: int, event: int, key: str | None) -> None:
        world = self.servers[server]
        before = self._is_open(held)
        with refusing() as refused:
            seen = sessions.record(world, held.id, steps, event, key, held.owner)
        if refused:
            self._check_refusal(held, refused[0], before, steps, event)
            return
        assert before
        now = [part.recorded for part in seen.plan]
        if now != held.recorded:
            after = list(held.recorded)
            after[event] += steps
            if now == after and not (key and (held.id, key) in self.keys):
                held.recorded = now
            else:
                assert key is not None, "only a repeated request is answered with an earlier state"
        if key is not None:
            self.keys[held.id, key] = held

    def _check_refusal(self, held: Held, code: str, was_open: bool, steps: int, event: int) -> None:
        match code:
            case "session_ended":
                assert not was_open
                held.ended = held.ended or "expired"
            case "session_exhausted":
                assert held.recorded[event] + steps > held.counts[event]
            case "out_of_range":
                assert event >= len(held.counts)
            case "dataset_frozen":
                assert self.frozen
            case _:
                assert code == "idempotency_conflict"

    @rule(held=ids, server=st.integers(0, 1), is_last=st.sampled_from([True, False, False]))
    def close(self, held: Held, server: int, is_last: bool) -> None:
        if not is_last:
            return
        before = self._is_open(held)
        self._see(held, sessions.close(self.servers[server], held.id, held.owner))
        assert held.ended == ("closed" if before else held.ended)

    @rule(server=st.integers(0, 1), steps=st.lists(st.integers(1, 5), min_size=1, max_size=4), event=st.integers(0, 1))
    def go_on(self, server: int, steps: list[int], event: int) -> None:
        """Record answers in the newest session, perhaps more than it planned."""
        for each in steps:
            self.record(list(self.known.values())[-1], server, each, event, None)

    @rule(held=ids, server=st.integers(0, 1))
    def look(self, held: Held, server: int) -> None:
        self._see(held, sessions.get(self.servers[server], held.id, held.owner))

    @rule(held=ids, server=st.integers(0, 1))
    def ask_for_the_receipt(self, held: Held, server: int) -> None:
        is_open = self._is_open(held)
        with refusing() as refused:
            document = sessions.receipt(self.servers[server], held.id, held.owner)
        if refused:
            assert (refused, is_open) == (["session_open"], True)
            return
        assert not is_open
        held.ended = held.ended or "expired"
        assert document["receipt"]["state"] == held.ended

    @rule(seconds=st.sampled_from([1.0, 1.0, 1.0, 100.0, LIFETIME / 2]))
    def time_passes(self, seconds: float) -> None:
        self.servers[0].clock.pass_(seconds)

    @rule(server=st.integers(0, 1))
    def restart(self, server: int) -> None:
        self.servers[server].database.close()
        first = self.servers[1 - server]
        self.servers[server] = World.at(first.settings.home, first.clock, database_url=first.settings.database_url)

    @rule(is_frozen=st.sampled_from([True, False, False]))
    def freeze(self, is_frozen: bool) -> None:
        self.frozen = is_frozen
        self.servers[0].amend(self.datasets[0], Amendment(frozen=self.frozen))

    @rule()
    def top_up(self) -> None:
        with self.servers[0].database.read() as connection:
            state = ledger.load_state(connection, self.datasets[0])
        assert state is not None
        larger = BudgetChange(epsilon=state.filter.privacy.epsilon + 0.5, delta=1e-6)
        with refusing() as refused:
            self.servers[0].amend(self.datasets[0], Amendment(budget=larger))
        assert set(refused) <= {"overallotted"}

    @rule(policy=st.sampled_from(["refund", "refund", "no_refund", "refused"]))
    def decide(self, policy: SessionPolicy) -> None:
        self.servers[0].amend(self.datasets[0], Amendment(sessions=policy))

    @rule(share=st.sampled_from([0.2, 0.6]), mode=st.sampled_from(["reserved", "shared"]))
    def allot(self, share: float, mode: Any) -> None:
        world, asked = self.servers[0], AllotmentRequest(share=share, mode=mode)
        with refusing() as refused:
            allotments.put(world.database, STEWARD, self.datasets[0], self.analysts[1].id, asked)
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
        if self.gone:
            return
        self.gone = self.servers[1].erase(self.datasets[1]).data
        for held in self.known.values():
            seen = sessions.get(self.servers[0], held.id, held.owner)
            if seen.dataset == self.datasets[1]:
                assert seen.state != "open"
                held.ended = seen.state

    def _is_open(self, held: Held) -> bool:
        return held.ended is None and self.servers[0].clock.wall() < held.expires

    def _see(self, held: Held, seen: Any) -> None:
        """Check that a response has the counts of the program, and that an ended session stays as it ended."""
        assert [part.recorded for part in seen.plan] == held.recorded
        if seen.state == "open":
            assert self._is_open(held)
            assert seen.charged == seen.reserved
            return
        held.ended = held.ended or seen.state
        assert seen.state == held.ended
        held.charged = held.charged or seen.charged
        assert seen.charged == held.charged

    @invariant()
    def books_balance(self) -> None:
        check_books(self.servers[0].database, {}, recompute=False, known=self.balanced)

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
                before = live[entry.body["session"]]
                live[entry.body["session"]] = tuple(a - b for a, b in zip(before, refund, strict=True))
        assert live.keys() == self.known.keys()
        for name, held in self.known.items():
            if state.is_charged and any(held.recorded):
                used = recorded_cost(state.filter, plans[name], held.recorded)
                assert all(a >= b for a, b in zip(live[name], used, strict=True))


TestSessions = pytest.mark.slow(Sessions.TestCase)
TestSessions.settings = machine_settings(examples=20, steps=30)


@pytest.mark.slow
def test_no_answer_is_unpaid_in_any_order_of_steps_on_postgresql(tmp_path: Path, on_postgres: Cluster) -> None:
    run_on_postgresql(Sessions, prepare, tmp_path / "home", on_postgres)
