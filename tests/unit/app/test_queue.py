"""Whose turn it is: nobody waits behind another one's queue, whatever that is; and how many may wait and run."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from app.http.errors import ApiError
from app.jobs import attempts, queue
from app.jobs.leases import Holder
from app.jobs.queue import QueueLimits
from app.persistence.tables import ledgers
from app.settings import Settings
from tests.support.queues import replace_jobs
from tests.support.world import World

ANALYSTS = ("ada", "bob", "eve", "joe")
# Who submits, and how many attempts end meanwhile (the oldest first), before the next claim.
STEPS = st.lists(st.tuples(st.lists(st.sampled_from(ANALYSTS), max_size=8), st.integers(0, 3)), max_size=40)


@pytest.mark.slow
@given(slots=st.integers(1, 5), steps=STEPS)
def test_an_analyst_overtakes_a_waiting_one_at_most_once_with_as_many_running(
    slots: int, steps: list[tuple[list[str], int]]
) -> None:
    """Bounded overtaking holds for any arrivals, any completions and any number of slots."""
    lines: dict[str, list[int]] = {analyst: [] for analyst in ANALYSTS}
    last_turns: dict[str, int] = {}
    running: list[str] = []
    passed: Counter[tuple[str, str]] = Counter()  # (waiting analyst, analyst who began with as many running)
    number = turn = 0
    for arriving, ending in steps:
        del running[:ending]
        for analyst in arriving:
            lines[analyst].append(number := number + 1)
        while len(running) < slots and (waiting := {analyst: line[0] for analyst, line in lines.items() if line}):
            busy = Counter(running)
            chosen = queue.first(waiting, busy, last_turns)
            assert busy[chosen] == min(busy[analyst] for analyst in waiting)
            for analyst in set(waiting) - {chosen}:
                passed[analyst, chosen] += busy[chosen] == busy[analyst]
                assert passed[analyst, chosen] <= 1
            passed.update({(chosen, analyst): -passed[chosen, analyst] for analyst in ANALYSTS})
            lines[chosen].pop(0)
            running.append(chosen)
            last_turns[chosen] = turn = turn + 1


def _claimed(world: World, count: int, limits: QueueLimits = queue.NO_LIMITS) -> list[str]:
    """Return the analysts of the jobs that `count` servers claim, one after the other."""
    analysts = []
    for _ in range(count):
        claim = attempts.claim(world.database, Holder(world.clock, float("inf")), (), limits)
        if claim is not None:
            analysts.append(claim.job.analyst)
    return analysts


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
def test_running_jobs_are_limited_over_all_servers(world: World) -> None:
    first, second = (world.dataset(budget={"epsilon": 50.0, "delta": 1e-6}) for _ in range(2))
    bob = world.join("bob", first, second)
    for dataset, owner in ((first, world.analyst), (first, world.analyst), (second, world.analyst), (first, bob)):
        world.submit(dataset, owner=owner, privacy={"epsilon": 0.1})
    assert _claimed(world, 4, QueueLimits(analyst=1)) == ["ada", "bob"]
    assert _claimed(world, 4, QueueLimits(dataset=2)) == ["ada"], "two jobs run on the first dataset"
    assert _claimed(world, 4) == ["ada"]


def test_queued_jobs_are_limited(world: World) -> None:
    """The refusal comes before the charge. A repeated idempotency key still returns its job."""
    dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6})
    settings = Settings(home=world.settings.home, max_queued_per_analyst=2, max_queued_per_dataset=3)
    bob = world.join("bob", dataset)
    world.limits = QueueLimits.queued(settings)
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


@pytest.mark.usefixtures("each_database")
def test_the_claimed_job_is_that_of_the_rule(world: World) -> None:
    """The claimed job is that of the module's rule, applied in Python to all jobs."""
    rng = Random(5)
    datasets = [world.dataset(budget={"epsilon": 50.0, "delta": 1e-6}) for _ in range(4)]
    people = [world.analyst, *(world.join(name, *datasets) for name in ANALYSTS[1:])]
    world.submit(datasets[0])
    chosen = []
    for _ in range(40):
        lines = [(rng.choice(people).id, rng.choice(datasets)) for _ in range(rng.randint(0, 12))]
        running = [(rng.choice(people).id, rng.choice(datasets)) for _ in range(rng.randint(0, 3))]
        last_turns = {who.id: turn for turn, who in enumerate(rng.sample(people, rng.randint(0, 4)), 1)}
        frozen = set(rng.sample(datasets, rng.randint(0, 2)))
        limits = QueueLimits(rng.choice((None, 1, 2)), rng.choice((None, 1, 2)))
        replace_jobs(world, lines, running, last_turns, frozen)
        with world.database.read() as connection:
            job = queue.claimable(connection, ["lives"], (), limits)
        chosen.append(None if job is None else job.number - 1)
        assert chosen[-1] == _by_the_rule(lines, running, last_turns, frozen, limits)
    assert chosen.count(None) > 3
    assert len(set(chosen)) > 5, "many different jobs were chosen"


def _by_the_rule(
    lines: list[tuple[str, str]],
    running: list[tuple[str, str]],
    last_turns: dict[str, int],
    frozen: set[str],
    limits: QueueLimits,
) -> int | None:
    """Return the position in the queue of the next job."""
    limit = (limits.analyst or 99, limits.dataset or 99)
    busy, crowded = Counter(who for who, _ in running), Counter(on for _, on in running)
    may = [
        (busy[who], last_turns.get(who, 0), place)
        for place, (who, on) in enumerate(lines)
        if on not in frozen and busy[who] < limit[0] and crowded[on] < limit[1]
    ]
    return min(may)[2] if may else None


@pytest.mark.usefixtures("each_database")
def test_a_damaged_ledger_stops_only_its_own_jobs(world: World) -> None:
    damaged, intact = (world.dataset() for _ in range(2))
    jobs = {dataset: world.submit(dataset).id for dataset in (damaged, intact)}
    with world.database.write() as connection:
        connection.execute(sa.update(ledgers).where(ledgers.c.id == damaged).values(state='{"charges":1,'))
    claim = world.claim()
    assert claim is not None
    assert claim.id == jobs[intact]
    assert world.claim() is None


def test_a_look_costs_the_same_however_many_wait(world: World) -> None:
    """Counted in the database's own instructions: a longer queue of the same people adds none."""
    with world.database.read() as connection:
        if connection.engine.dialect.name != "sqlite":
            pytest.skip("SQLite's instructions")
    first, second = (world.dataset(budget={"epsilon": 50.0, "delta": 1e-6}) for _ in range(2))
    bob = world.join("bob", first, second)
    world.submit(first)
    costs = []
    for many in (10, 1000):
        replace_jobs(world, many * [(world.analyst.id, first), (bob.id, second), (bob.id, first)], [])
        steps: list[None] = []
        with world.database.read() as connection:
            raw: Any = connection.connection.driver_connection
            raw.set_progress_handler(lambda steps=steps: steps.append(None), 1)
            assert queue.claimable(connection, [], (), queue.NO_LIMITS) is not None
            raw.set_progress_handler(None, 1)
        costs.append(len(steps))
    assert costs[1] < 1.1 * costs[0], costs
