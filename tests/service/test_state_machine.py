"""The job's life under every kill: at each statement of each transaction, and in any order of steps."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from app.http.errors import ApiError
from app.jobs import service
from app.jobs.release import Unreleasable
from app.jobs.service import Claim
from app.persistence.session import Database
from tests.support.world import World, check_books, output


class Killed(BaseException):
    """The process ended here."""


@contextmanager
def killed_at(database: Database, statement: int) -> Iterator[None]:
    """Ends the process before the n-th statement of the next write; the last one is the commit itself."""
    left = statement

    def count(*_: Any) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1

    engine = database._writer
    sa.event.listen(engine, "before_cursor_execute", count)
    sa.event.listen(engine, "commit", count)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", count)
        sa.event.remove(engine, "commit", count)


def _submit(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    return lambda: world.submit(dataset, key="the key")


def _claim(world: World) -> Callable[[], object]:
    world.submit(world.dataset())
    return world.claim


def _reclaim(world: World) -> Callable[[], object]:
    world.submit(world.dataset())
    world.claim()
    world.expire()
    return world.claim


def _give_up(world: World) -> Callable[[], object]:
    claim = _second(world)
    world.expire()
    assert claim.attempt == 2
    return world.claim


def _renew(world: World) -> Callable[[], object]:
    claim = _first(world)
    return lambda: service.renew(world.database, [(claim, 3)], 60.0)


def _commit(world: World) -> Callable[[], object]:
    claim = _first(world)
    return lambda: service.commit(world.database, world.keys, claim, output(claim))


def _fail(world: World) -> Callable[[], object]:
    claim = _first(world)
    return lambda: service.fail(world.database, claim)


def _vanish(world: World) -> Callable[[], object]:
    claim = _first(world)
    return lambda: service.vanish(world.database, claim)


def _vanish_again(world: World) -> Callable[[], object]:
    claim = _second(world)
    return lambda: service.vanish(world.database, claim)


def _cancel_queued(world: World) -> Callable[[], object]:
    job = world.submit(world.dataset())
    return lambda: service.cancel(world.database, world.analyst, job.id)


def _cancel_running(world: World) -> Callable[[], object]:
    claim = _first(world)
    return lambda: service.cancel(world.database, world.analyst, claim.id)


def _first(world: World) -> Claim:
    world.submit(world.dataset())
    claim = world.claim()
    assert claim is not None
    return claim


def _second(world: World) -> Claim:
    _first(world)
    world.expire()
    claim = world.claim()
    assert claim is not None
    return claim


STEPS = [
    _submit,
    _claim,
    _reclaim,
    _give_up,
    _renew,
    _commit,
    _fail,
    _vanish,
    _vanish_again,
    _cancel_queued,
    _cancel_running,
]


@pytest.mark.slow
@pytest.mark.parametrize("prepare", STEPS, ids=[step.__name__.strip("_") for step in STEPS])
def test_a_kill_at_any_statement_of_a_step_leaves_all_as_it_was(
    prepare: Callable[[World], Callable[[], object]], tmp_path: Path
) -> None:
    world = World.at(tmp_path / "home")
    step = prepare(world)
    before = world.dump()
    for statement in range(100):
        try:
            with killed_at(world.database, statement):
                step()
        except Killed:
            world.check()
            if world.dump() == before:
                continue
            assert prepare is _give_up, "only this one takes a second transaction, to look for another job"
        break
    assert statement >= 3, "there was something to kill"
    assert world.dump() != before, "and then the step was taken"
    world.check()
    _everything_ends(world)


def test_a_kill_after_the_commit_is_heard_of_by_asking_again(tmp_path: Path) -> None:
    """The answer was lost, not the job: the same key finds it, and nothing is charged twice."""
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    world.submit(dataset, key="k")
    again = world.submit(dataset, key="k")
    assert world.kinds(dataset) == ["opened", "charged"]
    assert again.state == "queued"


def _everything_ends(world: World) -> None:
    """Whoever comes next can take every job to its end."""
    while (claim := world.claim()) is not None:
        assert service.commit(world.database, world.keys, claim, output(claim))
    world.expire()
    while (claim := world.claim()) is not None:
        assert service.commit(world.database, world.keys, claim, output(claim))
    assert set(world.check()) <= {"done", "failed", "cancelled"}


@pytest.fixture(scope="module", autouse=True)
def _template(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A world with one dataset, to be copied for each run of the machine."""
    home = tmp_path_factory.mktemp("template") / "home"
    world = World.at(home)
    Jobs.dataset = world.dataset(budget={"epsilon": 2.0, "delta": 1e-6})
    world.database.close()
    Jobs.template = home


class Jobs(RuleBasedStateMachine):
    """Dispatchers that pause, wake too late and die, analysts that repeat themselves and cancel; the books hold."""

    template: Path
    dataset: str
    claims: Bundle[Claim] = Bundle("claims")
    ids: Bundle[str] = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        home = Path(self.folder.name) / "home"
        shutil.copytree(self.template, home)
        self.world = World.at(home)
        self.released: set[str] = set()
        self.live: dict[str, int] = {}  # the attempt that holds each running job
        self.expired: set[str] = set()  # the running jobs that anybody may take

    def teardown(self) -> None:
        states = self.world.check()
        assert states["done"] == len(self.released)
        assert states["running"] == len(self.live)
        self.world.database.close()
        self.folder.cleanup()

    @initialize(target=ids)
    def first(self) -> str:
        return self.world.submit(self.dataset).id

    @rule(target=ids, key=st.sampled_from(["a", "b", None]), epsilon=st.sampled_from([0.2, 0.9]))
    def submit(self, key: str | None, epsilon: float) -> Any:
        try:
            return self.world.submit(self.dataset, key=key, privacy={"epsilon": epsilon}).id
        except ApiError as problem:
            refused = problem.code
        assert refused in ("budget_exhausted", "idempotency_conflict")
        return multiple()

    @rule(target=claims)
    def claim(self) -> Any:
        return self._claim()

    @rule(target=claims)
    def take_over(self) -> Any:
        """Everybody who holds a job pauses for too long, and somebody else looks at the queue."""
        self.world.expire()
        self.expired = set(self.live)
        return self._claim()

    def _claim(self) -> Any:
        before, expired = dict(self.live), set(self.expired)
        claim = self.world.claim()
        rows = service.page(self.world.database, self.world.analyst, 0, 500).items
        self.live = {job.id: job.attempt for job in rows if job.state == "running"}
        self.expired &= set(self.live)
        assert before.items() <= self.live.items() or expired, "nobody takes a job whose lease holds"
        assert max(self.live.values(), default=0) <= 2
        if claim is None:
            return multiple()
        assert claim.attempt == self.live[claim.id] == before.get(claim.id, 0) + 1
        assert claim.id not in before or claim.id in expired
        self.expired.discard(claim.id)
        return claim

    @rule(claim=claims, step=st.integers(0, 50))
    def renew(self, claim: Claim, step: int) -> None:
        lost = service.renew(self.world.database, [(claim, step)], 60.0)
        assert (lost == []) == self._holds(claim)
        if not lost:
            self.expired.discard(claim.id)

    @rule(claim=claims)
    def commit(self, claim: Claim) -> None:
        holds = self._holds(claim)
        assert service.commit(self.world.database, self.world.keys, claim, output(claim)) == holds
        if holds:
            assert claim.id not in self.released
            self.released.add(claim.id)
        self._ended(claim)

    @rule(claim=claims)
    def spoil(self, claim: Claim) -> None:
        with pytest.raises(Unreleasable):
            service.commit(self.world.database, self.world.keys, claim, '{"coefficients": [1.0]}')

    @rule(claim=claims)
    def fail(self, claim: Claim) -> None:
        assert service.fail(self.world.database, claim) == self._holds(claim)
        self._ended(claim)

    @rule(claim=claims)
    def vanish(self, claim: Claim) -> None:
        holds = self._holds(claim)
        assert service.vanish(self.world.database, claim) == holds
        if holds and claim.attempt == 1:
            self.expired.add(claim.id)
        elif holds:
            del self.live[claim.id]

    @rule(job=ids)
    def cancel(self, job: str) -> None:
        state = self.world.job(job).state
        try:
            service.cancel(self.world.database, self.world.analyst, job)
            refused = None
        except ApiError as problem:
            refused = problem.code
        assert refused == (None if state in ("queued", "running") else "already_finished")
        self.live.pop(job, None)
        self.expired.discard(job)

    @invariant()
    def books_balance(self) -> None:
        check_books(self.world.database, {}, recompute=False)

    def _holds(self, claim: Claim) -> bool:
        return self.live.get(claim.id) == claim.attempt

    def _ended(self, claim: Claim) -> None:
        if self._holds(claim):
            del self.live[claim.id]
            self.expired.discard(claim.id)


TestJobs = Jobs.TestCase
TestJobs.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],  # shrinking would take minutes of database work
)
