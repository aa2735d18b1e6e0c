"""Rows of datasets and jobs must repeat what the ledger states, because jobs are priced and run by these rows."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from app.datasets import store
from app.http.errors import ApiError
from app.jobs import attempts
from app.jobs import service as jobs
from app.jobs.leases import Holder
from app.ledger import audit
from app.quotes import service as quotes
from purse.wire.datasets import Amendment
from tests.support.service import SPEC
from tests.support.world import World, output, request

pytestmark = pytest.mark.slow


def _column(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        assert row[name] != value
        row[name] = value

    return change


def _declared(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        spec = json.loads(row["spec"])
        assert spec[name] != value
        row["spec"] = json.dumps(spec | {name: value})

    return change


def _narrowed(row: dict[str, Any]) -> None:
    row["spec"] = row["spec"].replace('"upper":100', '"upper":50')


# Stated by the fields of every entry, also of entries that lack the hash of the declaration.
FIELDS = {
    "neighbors": _declared("neighbors", "zero_out"),
    "unit": _declared("unit", {"column": "id", "max_rows": 3, "persons": None}),
    "family": _declared("family", "another"),
    "rows": _column("rows", 100_000),
    "folder": _column("folder", "another"),
}
HASHED = {
    "repeated key": lambda row: row.update(spec=row["spec"].replace("{", '{"neighbors": "zero_out", ', 1)),
    "bound": _narrowed,
    "storage": _declared("storage", "partitions"),
    "targets": _declared("targets", ["income"]),
    "holdout_of": _column("holdout_of", "another"),
}


def _alter(world: World, dataset: str, change: Callable[[dict[str, Any]], None]) -> None:
    columns = ("rows", "spec", "folder", "holdout_of")
    with world.database.write() as connection:
        stored = connection.execute(sa.text("select * from datasets where id = :id"), {"id": dataset}).mappings().one()
        columns_before = {name: stored[name] for name in columns}
        columns_after = dict(columns_before)
        change(columns_after)
        assert columns_after != columns_before
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        connection.execute(
            sa.text(f"update datasets set {assignments} where id = :id"), {"id": dataset, **columns_after}
        )


def _refused(world: World, dataset: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Assert that a change of the row stops quotes, submissions, external charges and starts."""
    priced, kinds = world.priced(dataset, privacy={"epsilon": 0.2}), world.kinds(dataset)
    _alter(world, dataset, change)
    with pytest.raises(ApiError, match="dataset_damaged"):
        jobs.submit(world.database, world.analyst, "key", priced)
    with pytest.raises(ApiError, match="dataset_damaged"):
        quotes.read(world.database, world.settings, world.analyst, request(dataset))
    with pytest.raises(ApiError, match="dataset_damaged"):
        world.charge(dataset, "elsewhere", 5.0)
    assert world.kinds(dataset) == kinds, "nothing was charged"
    with pytest.raises(audit.UnsoundLedger):
        audit.refuse_unsound(world.database)


@pytest.mark.parametrize("change", (FIELDS | HASHED).values(), ids=FIELDS | HASHED)
def test_a_changed_row_of_the_dataset_that_opened_its_ledger_is_refused(
    world: World, change: Callable[[dict[str, Any]], None]
) -> None:
    _refused(world, world.dataset(), change)


@pytest.mark.parametrize("change", [FIELDS["neighbors"], FIELDS["rows"], _narrowed], ids=["neighbors", "rows", "bound"])
def test_a_changed_row_of_a_member_of_a_family_is_refused(
    world: World, change: Callable[[dict[str, Any]], None]
) -> None:
    world.dataset(family="kin")
    _refused(world, world.dataset(family="kin"), change)


def test_a_rule_for_sessions_that_no_entry_states_is_refused_at_the_start(world: World) -> None:
    dataset, member = world.dataset(family="kin"), world.dataset(family="kin", sessions="no_refund")
    audit.refuse_unsound(world.database)
    world.amend(member, Amendment(sessions="refused"))
    audit.refuse_unsound(world.database)
    for each, stated, altered in ((dataset, "refund", "no_refund"), (member, "refused", "no_refund")):
        _alter(world, each, _declared("sessions", altered))
        with pytest.raises(audit.UnsoundLedger, match=each):
            audit.refuse_unsound(world.database)
        _alter(world, each, _declared("sessions", stated))
    audit.refuse_unsound(world.database)


@pytest.mark.parametrize("change", FIELDS.values(), ids=FIELDS)
def test_entries_without_a_hash_of_the_declaration_still_state_their_fields(
    world: World, change: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store, "declaration_sha256", lambda *_: None)
        dataset = world.dataset()
    audit.refuse_unsound(world.database)
    assert world.submit(dataset, privacy={"epsilon": 0.2}).state == "queued"
    _refused(world, dataset, change)


def test_a_changed_row_of_a_holdout_set_or_an_erased_dataset_is_refused_at_the_start(world: World) -> None:
    dataset = world.dataset(holdout=0.25)
    with world.database.read() as connection:
        part = store.holdout(connection, dataset)
    assert part is not None
    audit.refuse_unsound(world.database)
    _alter(world, part, _column("holdout_of", None))
    with pytest.raises(audit.UnsoundLedger):
        audit.refuse_unsound(world.database)
    _alter(world, part, _column("holdout_of", dataset))
    world.erase(dataset)
    audit.refuse_unsound(world.database)
    _alter(world, dataset, FIELDS["neighbors"])
    with pytest.raises(audit.UnsoundLedger):
        audit.refuse_unsound(world.database)


def test_a_dataset_that_was_moved_to_another_ledger_is_refused(world: World) -> None:
    dataset, other_dataset = world.dataset(), world.dataset()
    priced = world.priced(dataset, privacy={"epsilon": 0.2})
    with world.database.write() as connection:
        connection.execute(
            sa.text("update datasets set ledger_id = :o where id = :d"), {"o": other_dataset, "d": dataset}
        )
    with pytest.raises(ApiError, match="dataset_damaged"):
        jobs.submit(world.database, world.analyst, "key", priced)
    assert all(audit.verify(world.database).values())


def test_a_family_whose_stored_name_was_changed_is_refused_at_the_start(world: World) -> None:
    """Otherwise the next dataset about the same people would open a second budget."""
    world.dataset(family="kin")
    audit.refuse_unsound(world.database)
    with world.database.write() as connection:
        connection.execute(sa.text("update ledgers set family = null"))
    with pytest.raises(audit.UnsoundLedger):
        audit.refuse_unsound(world.database)


JOB_CHANGES = {
    "less noise": "update jobs set spec = replace(spec, '\"noise_multiplier\"\\:', '\"noise_multiplier\"\\:0.0')",
    "another dataset": "update jobs set dataset_id = (select max(id) from datasets where id != dataset_id)",
    "no charge": "update jobs set charge = '[]'",
    "no number of an entry": "update jobs set charge = replace(charge, '\"entry\"\\:2', '\"entry\"\\:1e300')",
    "another entry": "update jobs set charge = replace(charge, '\"entry\"\\:2', '\"entry\"\\:3')",
    "folder of the dataset": "update datasets set folder = 'another'",
}


@pytest.mark.parametrize("statement", JOB_CHANGES.values(), ids=JOB_CHANGES)
@pytest.mark.parametrize("is_released", [False, True], ids=["before the start", "after the end"])
def test_a_job_that_is_not_as_charged_fails(world: World, statement: str, is_released: bool) -> None:
    dataset, _ = world.dataset(), world.dataset()
    job = world.submit(dataset, privacy={"epsilon": 0.2})
    claim = world.claim() if is_released else None
    if claim is not None:
        attempts.end(world.database, claim, output(claim), world.clock.ticks())
    with world.database.write() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0
    if is_released:
        world.tell()
    else:
        assert world.claim() is None
    failed = world.job(job.id)
    assert (failed.state, failed.error) == ("failed", "job_failed")


def test_a_cancelled_job_is_refunded_what_the_ledger_charged(world: World) -> None:
    dataset = world.dataset()
    remaining_before = world.submit(dataset, privacy={"epsilon": 0.2}).quote.remaining
    job = world.submit(dataset, privacy={"epsilon": 0.1})
    with world.database.write() as connection:
        larger = "update jobs set charge = (select charge from jobs order by number limit 1)"
        assert connection.execute(sa.text(larger)).rowcount == 2
    jobs.cancel(world.database, world.analyst, job.id)
    assert world.submit(dataset, privacy={"epsilon": 0.1}).quote.remaining.epsilon < remaining_before.epsilon
    audit.refuse_unsound(world.database)


def test_a_changed_entry_of_a_member_is_not_read(world: World) -> None:
    world.dataset(family="kin")
    member = world.dataset(family="kin")
    _alter(world, member, FIELDS["rows"])
    with world.database.write() as connection:
        changed = sa.text("update ledger_entries set body = replace(body, :old, :new) where kind = 'joined'")
        connection.execute(changed, {"old": '"rows":202', "new": '"rows":100000'})
        [body] = connection.scalars(sa.text("select body from ledger_entries where kind = 'joined'"))
        assert json.loads(body)["rows"] == 100_000
    with pytest.raises(ApiError, match="dataset_damaged"):
        quotes.read(world.database, world.settings, world.analyst, request(member))


@pytest.mark.parametrize("end", ["released", "failed", "cancelled", "refunded"])
def test_a_job_that_has_ended_is_not_run_again(world: World, end: str) -> None:
    """A second run would release a second answer for one charge, or one for a refunded charge."""
    dataset = world.dataset()
    job = world.submit(dataset, privacy={"epsilon": 0.2})
    claim = None if end == "refunded" else world.claim()
    if end in ("refunded", "cancelled"):
        jobs.cancel(world.database, world.analyst, job.id)
    else:
        assert claim is not None
        world.end(claim, attempts.RAISED if end == "failed" else None)
    kinds = world.kinds(dataset)
    assert kinds[-1] == end
    with world.database.write() as connection:
        again = "update jobs set state = 'queued', model = null, receipt = null, error = null, finished_at = null"
        assert connection.execute(sa.text(again)).rowcount == 1
    with pytest.raises(ApiError, match="already_finished"):  # a refund would return a budget that is spent
        jobs.cancel(world.database, world.analyst, job.id)
    assert world.claim() is None
    assert world.job(job.id).state == "failed"
    assert world.kinds(dataset) == kinds, "the ledger still holds"
    audit.refuse_unsound(world.database)


def test_a_declaration_that_cannot_be_read_stops_only_the_jobs_of_its_dataset(world: World) -> None:
    unreadable, intact = world.dataset(), world.dataset()
    ended_job = world.submit(unreadable, privacy={"epsilon": 0.1}, key="ended")
    claim = world.claimed()
    attempts.end(world.database, claim, attempts.RAISED, world.clock.ticks())
    waiting = world.submit(unreadable, privacy={"epsilon": 0.1}, key="waiting")
    job = world.submit(intact, privacy={"epsilon": 0.1})
    _alter(world, unreadable, lambda row: row.update(spec="{"))
    world.clock.pass_(3600.0)
    ready, _ = attempts.due(world.database, Holder(world.clock, float("inf")))
    assert ready == [], "its end cannot be published"
    claimed = world.claimed()
    assert claimed.id == job.id
    with world.database.read() as connection:
        states = {row.id: row.state for row in connection.execute(sa.text("select id, state from jobs"))}
    assert states == {ended_job.id: "running", waiting.id: "failed", job.id: "running"}


@pytest.mark.parametrize("bound", [2.0**53, 1e17, 1.2345678901234568e20])
def test_bounds_that_are_written_as_large_integers_are_registered_priced_and_released(
    world: World, bound: float
) -> None:
    columns = [{"name": "age", "type": "number", "lower": -bound, "upper": bound}, *SPEC["columns"][1:]]
    dataset = world.dataset(columns=columns)
    world.amend(dataset, Amendment(name="renamed"))
    world.release(dataset)
    assert world.check() == {"done": 1}
    audit.refuse_unsound(world.database)
