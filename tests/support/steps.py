"""Steps of a job's life for tests that interrupt them, and a kill at any statement of a step."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from app.http.lists import Paging
from app.jobs import attempts, service
from app.jobs.attempts import RAISED, VANISHED, Claim
from app.jobs.leases import Holder
from app.persistence.session import Database
from purse.wire.budgets import BudgetChange
from purse.wire.datasets import Amendment
from tests.support import held_sessions
from tests.support.engines import writer
from tests.support.postgres import Cluster
from tests.support.world import World, check_books, output

Step = Callable[[World], Callable[[], object]]


class Killed(BaseException):
    """End of the process, which no handler of the product catches."""


@contextmanager
def killed_at(database: Database, statement: int) -> Iterator[None]:
    """Raise `Killed` before the n-th statement of the next write; the commit counts as the last statement."""
    remaining = statement

    def count(*_: Any) -> None:
        nonlocal remaining
        if remaining == 0:
            raise Killed
        remaining -= 1

    engine = writer(database)
    sa.event.listen(engine, "before_cursor_execute", count)
    sa.event.listen(engine, "commit", count)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", count)
        sa.event.remove(engine, "commit", count)


def submit(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    return lambda: world.submit(dataset, key="the key")


def claim(world: World) -> Callable[[], object]:
    world.submit(world.dataset())
    return world.claim


def reclaim(world: World) -> Callable[[], object]:
    world.submit(world.dataset())
    world.claim()
    world.expire()
    return world.claim


def give_up(world: World) -> Callable[[], object]:
    claim = second(world)
    world.expire()
    assert claim.attempt == 2
    return world.claim


def beat(world: World) -> Callable[[], object]:
    first(world)
    holder = Holder(world.database.clock, 60.0)
    return lambda: attempts.beat(world.database, holder)


def keep(world: World) -> Callable[[], object]:
    claim = first(world)
    return lambda: attempts.end(world.database, claim, output(claim), 0.0)


def release(world: World) -> Callable[[], object]:
    return publication(world, None)


def fail(world: World) -> Callable[[], object]:
    return publication(world, RAISED)


def vanish(world: World) -> Callable[[], object]:
    claim = first(world)
    return lambda: attempts.end(world.database, claim, VANISHED, 0.0)


def vanish_again(world: World) -> Callable[[], object]:
    claim = second(world)
    return lambda: attempts.end(world.database, claim, VANISHED, 0.0)


def leave(world: World) -> Callable[[], object]:
    claim = first(world)
    return lambda: attempts.leave(world.database, Holder(world.database.clock, 60.0), [claim])


def cancel_ended(world: World) -> Callable[[], object]:
    publication(world, None)
    [job] = service.page(world.database, world.analyst, Paging()).items
    return lambda: service.cancel(world.database, world.analyst, job.id)


def publication(world: World, how: str | None) -> Callable[[], object]:
    """Publish an end whose time has come."""
    claim = first(world)
    attempts.end(world.database, claim, how or output(claim), 0.0)
    world.clock.pass_(1000.0)
    [[finished], _] = attempts.due(world.database, Holder(world.clock, 30.0))
    return lambda: attempts.publish(world.database, world.keys, finished)


def cancel_queued(world: World) -> Callable[[], object]:
    job = world.submit(world.dataset())
    return lambda: service.cancel(world.database, world.analyst, job.id)


def cancel_running(world: World) -> Callable[[], object]:
    claim = first(world)
    return lambda: service.cancel(world.database, world.analyst, claim.id)


def amend(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    change = Amendment(name="another", budget=BudgetChange(epsilon=5.0, delta=1e-6, filter="gdp"), frozen=True)
    return lambda: world.amend(dataset, change)


def top_up(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    world.submit(dataset)
    return lambda: world.amend(dataset, Amendment(budget=BudgetChange(epsilon=5.0, delta=1e-6)))


def charge_outside(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    return lambda: world.charge(dataset, "report", noise_multiplier=1.0)


def reserve(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    return lambda: held_sessions.open_session(world, dataset, key="the key")


def record(world: World) -> Callable[[], object]:
    session = held_sessions.open_session(world, world.dataset())
    return lambda: held_sessions.record(world, session.id, 2, key="the key")


def close_session(world: World) -> Callable[[], object]:
    session = held_sessions.open_session(world, world.dataset())
    held_sessions.record(world, session.id, 2)
    return lambda: held_sessions.close(world, session.id)


def expire_session(world: World) -> Callable[[], object]:
    session = held_sessions.open_session(world, world.dataset())
    held_sessions.record(world, session.id, 2)
    world.clock.pass_(100_000.0)
    return lambda: held_sessions.close(world, session.id)


def withdraw_with_session(world: World) -> Callable[[], object]:
    dataset = world.dataset()
    held_sessions.open_session(world, dataset)
    return lambda: world.erase(dataset)


def join(world: World) -> Callable[[], object]:
    world.dataset(family="people")
    return lambda: world.register(family="people")


def withdraw(world: World) -> Callable[[], object]:
    dataset = world.dataset(family="people")
    world.submit(dataset)
    return lambda: world.erase(dataset)


def delete(world: World) -> Callable[[], object]:
    claim = first(world)
    world.submit(claim.dataset.id)
    return lambda: world.erase(claim.dataset.id)


def first(world: World) -> Claim:
    world.submit(world.dataset())
    return world.claimed()


def second(world: World) -> Claim:
    first(world)
    world.expire()
    return world.claimed()


STEPS: dict[str, Step] = {
    step.__name__: step
    for step in (
        submit,
        claim,
        reclaim,
        give_up,
        beat,
        keep,
        release,
        fail,
        vanish,
        vanish_again,
        leave,
        cancel_ended,
        cancel_queued,
        cancel_running,
        amend,
        top_up,
        charge_outside,
        reserve,
        record,
        close_session,
        expire_session,
        withdraw_with_session,
        join,
        withdraw,
        delete,
    )
}


def everything_ends(world: World) -> None:
    """Take every job to its end, as the next server does, and check the books."""
    world.expire()
    while (claim := world.claim()) is not None:
        assert world.end(claim)
    world.tell()
    assert set(world.check()) <= {"done", "failed", "cancelled"}


class Machine(RuleBasedStateMachine):
    """A state machine on a copy of a home, which `prepare` of its file wrote with the attributes of the class."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.world = self.fresh(Path(self.folder.name) / "home")
        self.balanced: dict[str, Any] = {}  # the rows that were found in balance

    def fresh(self, home: Path) -> World:
        """Copy the template."""
        shutil.copytree(self.template, home)
        return World.at(home)

    def teardown(self) -> None:
        """Close the database, and delete the copy."""
        self.world.database.close()
        self.folder.cleanup()

    @invariant()
    def books_balance(self) -> None:
        """Check the books of this copy."""
        check_books(self.world.database, {}, recompute=False, balanced=self.balanced)


def machine_settings(examples: int, steps: int) -> settings:
    """Return the settings of a state machine that works on a database."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        phases=[Phase.generate],  # shrinking would take minutes of database work
    )


def run_on_postgresql(
    machine: type[Any], prepare: Callable[[type[Any], Path], None], home: Path, cluster: Cluster
) -> None:
    """Run a state machine twice on PostgreSQL. Each run has a copy of the prepared home and of its database."""

    class OnPostgresql(machine):  # type: ignore[misc]
        def fresh(self, home: Path) -> World:
            shutil.copytree(self.template, home)
            return World.at(home, database_url=cluster.database(template="purse"))

    prepare(OnPostgresql, home)
    run_state_machine_as_test(OnPostgresql, settings=settings(machine.TestCase.settings, max_examples=2))
