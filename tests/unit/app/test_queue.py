"""Whose turn it is: nobody waits behind another one's queue, whatever that is; and how many may wait and run."""

from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from app.http.errors import ApiError
from app.jobs import attempts, queue, store
from app.jobs.leases import Holder
from app.jobs.queue import Limits
from app.settings import Settings
from tests.support.world import World

ANALYSTS = ("ada", "bob", "eve", "joe")
# Who submits, and how many attempts end meanwhile (the oldest first), before the next claim.
STEPS = st.lists(st.tuples(st.lists(st.sampled_from(ANALYSTS), max_size=8), st.integers(0, 3)), max_size=40)


@pytest.mark.slow
@given(slots=st.integers(1, 5), steps=STEPS)
def test_while_one_waits_no_other_begins_two_jobs_without_having_had_fewer_running(
    slots: int, steps: list[tuple[list[str], int]]
) -> None:
    """Bounded overtaking: the promise of the module, for any arrivals, any ends and any number of slots."""
    lines: dict[str, list[int]] = {who: [] for who in ANALYSTS}
    had: dict[str, int] = {}
    running: list[str] = []
    passed: Counter[tuple[str, str]] = Counter()  # (who waits, who began with no fewer running)
    number = turn = 0
    for arriving, ending in steps:
        del running[:ending]
        for who in arriving:
            lines[who].append(number := number + 1)
        while len(running) < slots and (waiting := {who: line[0] for who, line in lines.items() if line}):
            busy = Counter(running)
            chosen = queue.first(waiting, busy, had)
            assert busy[chosen] == min(busy[who] for who in waiting)
            for who in set(waiting) - {chosen}:
                passed[who, chosen] += busy[chosen] == busy[who]
                assert passed[who, chosen] <= 1
            passed.update({(chosen, who): -passed[chosen, who] for who in ANALYSTS})
            lines[chosen].pop(0)
            running.append(chosen)
            had[chosen] = turn = turn + 1


def _claimed(world: World, count: int, limits: Limits = queue.ANY_NUMBER) -> list[str]:
    """Whose jobs that many looks begin, each by a server of its own; with one that goes on for each."""
    found = []
    for _ in range(count):
        claim = attempts.claim(world.database, Holder(world.clock, float("inf")), (), limits)
        if claim is not None:
            found.append(claim.job.analyst)
    return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.at(tmp_path / "home")


@pytest.mark.slow
def test_one_slot_is_not_one_analysts(world: World) -> None:
    """With a single slot nobody has fewer running: the oldest job first would be the longest queue first."""
    dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
    bob = world.join("bob", dataset)
    for owner, count in ((world.analyst, 4), (bob, 2)):
        for _ in range(count):
            world.submit(dataset, owner=owner, privacy={"epsilon": 0.1})
    order = []
    for _ in range(6):
        claim = attempts.claim(world.database, Holder(world.clock, float("inf")))
        assert claim is not None
        order.append(claim.job.analyst)
        world.end(claim)
    assert order == ["ada", "bob", "ada", "bob", "ada", "ada"]


@pytest.mark.slow
def test_only_so_many_run_over_all_servers(world: World) -> None:
    first, second = (world.dataset(budget={"epsilon": 50.0, "delta": 1e-6}) for _ in range(2))
    bob = world.join("bob", first, second)
    for dataset, owner in ((first, world.analyst), (first, world.analyst), (second, world.analyst), (first, bob)):
        world.submit(dataset, owner=owner, privacy={"epsilon": 0.1})
    assert _claimed(world, 4, Limits(analyst=1)) == ["ada", "bob"]
    assert _claimed(world, 4, Limits(dataset=2)) == ["ada"], "on the second one: two run on the first"
    assert _claimed(world, 4) == ["ada"]


def test_only_so_many_wait(world: World) -> None:
    """Refused before anything is charged; a key that is known is answered all the same."""
    dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
    settings = Settings(home=world.settings.home, max_queued_per_analyst=2, max_queued_per_dataset=3)
    bob = world.join("bob", dataset)
    world.limits = Limits.queued(settings)
    job = world.submit(dataset, key="first").id
    world.submit(dataset)
    kinds = world.kinds(dataset)
    with pytest.raises(ApiError, match="too_many_requests") as refused:
        world.submit(dataset)
    assert refused.value.headers == {"Retry-After": "30"}
    assert "of one analyst" in str(refused.value.detail)
    assert world.kinds(dataset) == kinds
    assert world.submit(dataset, key="first").id == job
    world.submit(dataset, owner=bob)
    with pytest.raises(ApiError) as refused:
        world.submit(dataset, owner=bob)
    assert "on one dataset" in str(refused.value.detail)
    assert world.claim() is not None
    world.submit(dataset)
    world.check()


def test_of_those_that_wait_a_look_reads_no_rows_where_the_database_is_a_file(world: World) -> None:
    """Of ten thousand it reads their index: the time of a claim hardly grows with the queue."""
    asked: list[tuple[str, Any]] = []
    with world.database.read() as connection:
        engine = connection.engine
        if engine.dialect.name != "sqlite":
            pytest.skip("SQLite's plan")

        @sa.event.listens_for(engine, "before_cursor_execute")
        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
            asked.append((statement, parameters))

        queue.claimable(connection, [], (), queue.ANY_NUMBER)
        sa.event.remove(engine, "before_cursor_execute", note)
        [(oldest, values)] = [(statement, values) for statement, values in asked if "min(" in statement]
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {oldest}", values)]
    assert [step for step in plan if " jobs " in step] == ["SEARCH jobs USING COVERING INDEX ix_jobs_queued (state=?)"]


def test_a_job_is_read_in_the_order_of_its_columns() -> None:
    assert [column.name for column in store._LISTED] == [field.name for field in fields(store.JobRow)]
