"""The job's life under every kill: at each statement of each transaction, and in any order of steps."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from app.http.errors import ApiError
from app.jobs import attempts, service, store
from app.jobs.attempts import RAISED, VANISHED, Claim
from app.ledger import store as ledger
from purse.wire.budgets import BudgetChange
from purse.wire.datasets import Amendment
from tests.support.postgres import Cluster
from tests.support.steps import (
    STEPS,
    Killed,
    Machine,
    everything_ends,
    give_up,
    killed_at,
    machine_settings,
    run_on_postgresql,
)
from tests.support.world import World, output


@pytest.mark.slow
@pytest.mark.parametrize("prepare", STEPS.values(), ids=STEPS)
def test_a_kill_at_any_statement_of_a_step_changes_nothing(
    prepare: Callable[[World], Callable[[], object]], world: World
) -> None:
    step = prepare(world)
    state_before = world.dump()
    for statement in range(100):
        try:
            with killed_at(world.database, statement):
                step()
        except Killed:
            world.check()
            if world.dump() == state_before:
                continue
            assert prepare is give_up, "only this one takes a second transaction, to look for another job"
        break
    assert statement >= 2, "there was something to kill"
    assert world.dump() != state_before, "the last attempt executed the step"
    world.check()
    everything_ends(world)


@pytest.fixture(scope="module", autouse=True)
def _template(tmp_path_factory: pytest.TempPathFactory) -> None:
    prepare(Jobs, tmp_path_factory.mktemp("template") / "home")


def prepare(machine: type["Jobs"], home: Path) -> None:
    """Write the home that each run of the machine copies: a family of two datasets."""
    world = World.at(home)
    family: dict[str, Any] = {"family": "people", "budget": {"epsilon": 2.0, "delta": 1e-6}}
    machine.dataset, machine.second = world.dataset(**family), world.dataset(**family)
    world.database.close()
    machine.template = home


class Jobs(Machine):
    """Dispatchers that pause, wake too late and die, analysts that repeat themselves and cancel, stewards that freeze,
    top up and delete one of two datasets of a family; the books hold."""

    dataset: str
    second: str
    claims: Bundle[Claim] = Bundle("claims")
    ids: Bundle[str] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.released: set[str] = set()
        self.order: list[str] = []
        self.live: dict[str, int] = {}  # the running jobs whose attempt has not ended, and which it is
        self.dead: set[str] = set()  # of these, the ones whose holder is dead
        self.reclaimed: set[str] = set()  # the abandoned jobs that may be claimed again
        self.lost: Counter[str] = Counter()
        self.unpublished: dict[str, str] = {}  # the running jobs whose attempt has ended, and how
        self.frozen = False
        self.deletion: str | None = None  # how the second dataset's values went

    def teardown(self) -> None:
        states = self.world.check()
        assert states["done"] == len(self.released)
        assert states["running"] == len(self.live) + len(self.unpublished)
        super().teardown()

    @initialize(target=ids)
    def first(self) -> str:
        return self._submitted(self.world.submit(self.dataset).id)

    @rule(
        target=ids,
        key=st.sampled_from(["a", "b", None]),
        epsilon=st.sampled_from([0.2, 0.9]),
        second=st.booleans(),
    )
    def submit(self, key: str | None, epsilon: float, second: bool) -> Any:
        if second and self.deletion == "withdrawn":
            return multiple()
        dataset, entries_before = self.second if second else self.dataset, len(self.world.kinds(self.dataset))
        try:
            job = self._submitted(self.world.submit(dataset, key=key, privacy={"epsilon": epsilon}).id)
        except ApiError as problem:
            refused = problem.code
        else:
            is_new = len(self.world.kinds(self.dataset)) > entries_before
            assert not is_new or not (self.frozen or (second and self.deletion))
            return job
        expected = "dataset_deleted" if second and self.deletion else "dataset_frozen" if self.frozen else None
        assert refused == "idempotency_conflict" or refused == (expected or "budget_exhausted")
        return multiple()

    @rule()
    def freeze(self) -> None:
        """Or lift it."""
        self.frozen = not self.frozen
        self.world.amend(self.dataset if self.deletion else self.second, Amendment(frozen=self.frozen))

    @rule()
    def top_up(self) -> None:
        with self.world.database.read() as connection:
            state = ledger.load_state(connection, self.dataset)
        larger = BudgetChange(epsilon=state.filter.privacy.epsilon + 0.5, delta=1e-6)
        self.world.amend(self.dataset, Amendment(budget=larger))

    @rule(label=st.sampled_from(["a", "b", "c"]), noise_multiplier=st.sampled_from([2.0, 20.0]))
    def charge_outside(self, label: str, noise_multiplier: float) -> None:
        try:
            charge = self.world.charge(self.dataset, label, noise_multiplier)
        except ApiError as problem:
            refused = problem.code
        else:
            self.frozen = self.frozen or charge.budget.frozen
            return
        assert refused == "idempotency_conflict"

    @rule()
    def erase(self) -> None:
        """Delete the second dataset: its jobs end in any state, and those of the first continue."""
        with self.world.database.read() as connection:
            ending = [row.id for row in store.unfinished(connection, self.second)]
        if self.deletion == "withdrawn":
            with pytest.raises(ApiError, match="not_found"):
                self.world.erase(self.second)
            return
        deletion_before, self.deletion = self.deletion, self.world.erase(self.second).data
        with self.world.database.read() as connection:
            state = ledger.load_state(connection, self.second)
        assert self.deletion == (deletion_before or ("deleted" if state.charges else "withdrawn"))
        for job in ending:
            assert self.world.job(job).state == "cancelled"
            self._over(job)
            self.unpublished.pop(job, None)

    def _submitted(self, job: str) -> str:
        if job not in self.order:
            self.order.append(job)
        return job

    @rule(target=claims)
    def claim(self) -> Any:
        return self._claim()

    @rule(target=claims)
    def take_over(self) -> Any:
        """Let all holders of jobs pause until their leases expire, and another server look at the queue."""
        self.world.expire()
        self.dead = self.live.keys() - self.reclaimed
        return self._claim()

    def _claim(self) -> Any:
        """Check that interrupted jobs go first, except failed ones, and that jobs of live holders are not claimed."""
        if self.frozen:
            assert self.world.claim() is None
            return multiple()
        expected = None
        for job in (job for job in self.order if job in self.dead | self.reclaimed):
            self.lost[job] += job in self.dead
            if self.lost[job] < 2:
                expected = job
                break
            self._over(job)
            self.unpublished[job] = VANISHED
        queued = [job for job in self.order if self.world.job(job).state == "queued"]
        claim = self.world.claim()
        if expected is None and not queued:
            assert claim is None
            return multiple()
        assert claim is not None
        assert claim.id == (expected or queued[0])
        assert claim.attempt == self.world.job(claim.id).attempt == self.live.get(claim.id, 0) + 1
        self._over(claim.id)
        self.live[claim.id] = claim.attempt
        return claim

    @rule(claim=claims)
    def beat(self, claim: Claim) -> None:
        """Let a holder with expired leases wake. It keeps the jobs that no other server claimed."""
        attempts.beat(self.world.database, self.world.holders[claim.id, claim.attempt])
        assert (attempts.lost(self.world.database, [claim]) == []) == self._goes_on(claim)
        if self._goes_on(claim):
            self.dead.discard(claim.id)

    @rule(claim=claims, how=st.sampled_from(["an output", "spoiled", RAISED, VANISHED]))
    def end(self, claim: Claim, how: str) -> None:
        result = {"an output": output(claim), "spoiled": '{"coefficients": [1.0]}'}.get(how, how)
        goes_on = self._goes_on(claim)
        assert attempts.end(self.world.database, claim, result, self.world.clock.ticks()) == goes_on
        if not goes_on:
            return
        self.lost[claim.id] += how == VANISHED
        self.dead.discard(claim.id)
        if how == VANISHED and self.lost[claim.id] < 2:
            self.reclaimed.add(claim.id)
        else:
            self._over(claim.id)
            self.unpublished[claim.id] = how

    @rule(claim=claims)
    def leave(self, claim: Claim) -> None:
        attempts.leave(self.world.database, self.world.holders[claim.id, claim.attempt], [claim])
        if self._goes_on(claim):
            self.dead.discard(claim.id)
            self.reclaimed.add(claim.id)

    @rule()
    def tell(self) -> None:
        self.world.tell()
        for job, how in self.unpublished.items():
            view = self.world.job(job)
            errors = {"an output": None, VANISHED: "worker_lost"}
            assert view.error == errors.get(how, "job_failed")
            assert view.state == ("done" if how == "an output" else "failed")
            assert job not in self.released
            self.released |= {job} if how == "an output" else set()
        self.unpublished.clear()

    @rule(job=ids)
    def cancel(self, job: str) -> None:
        state = self.world.job(job).state
        try:
            service.cancel(self.world.database, self.world.analyst, job)
            refused = None
        except ApiError as problem:
            refused = problem.code
        assert refused == (None if state in ("queued", "running") else "already_finished")
        self._over(job)
        self.unpublished.pop(job, None)

    @invariant()
    def an_end_is_not_seen_before_it_is_told(self) -> None:
        assert {self.world.job(job).state for job in (*self.live, *self.unpublished)} <= {"running"}

    def _goes_on(self, claim: Claim) -> bool:
        return self.live.get(claim.id) == claim.attempt

    def _over(self, job: str) -> None:
        self.live.pop(job, None)
        self.dead.discard(job)
        self.reclaimed.discard(job)


TestJobs = pytest.mark.slow(Jobs.TestCase)
TestJobs.settings = machine_settings(examples=28, steps=30)


@pytest.mark.slow
def test_the_books_hold_in_any_order_of_steps_on_postgresql(tmp_path: Path, on_postgres: Cluster) -> None:
    run_on_postgresql(Jobs, prepare, tmp_path / "home", on_postgres)
