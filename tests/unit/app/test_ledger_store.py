"""The ledger in the database: state, entries and each analyst's sum move together or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from accounting.errors import BudgetExhausted, LedgerInvalid
from accounting.filter import Cost, Filter
from accounting.privacy import Privacy
from accounting.records.allotments import Standing
from accounting.records.events import Failed, Opened, Refunded, Started
from accounting.records.ledger import LedgerState, share
from accounting.records.replay import replay
from app.datasets import store as datasets
from app.identity import store as tokens
from app.ledger import store
from app.ledger.allotments import stands
from app.operations import metrics
from app.persistence.session import Database
from app.persistence.tables import allotments, analyst_spend, ledger_entries
from purse.wire.datasets import DatasetSpec
from tests.support.chains import charge_of
from tests.support.service import SPEC

AT = "2026-01-01T00:00:00.000Z"
BUDGET = Privacy(1.0, 0.0)
OWN = Privacy(0.5, 0.0)
UNIT = 2**40
OWNERS = {"ada": "", "bob": ""}  # identities, by name; each test's database fills them in


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/purse.sqlite3")
    database.migrate()
    spec = DatasetSpec.model_validate(SPEC | {"budget": {"epsilon": 1.0, "delta": 0.0, "filter": "pure"}})
    with database.write() as connection:
        opened = Opened("ds_1", 100, Filter.open("pure", BUDGET))
        datasets.add(connection, opened, spec, "0" * 64, AT)
        for name in OWNERS:
            OWNERS[name] = tokens.add(connection, name, "analyst", f"secret of {name}", AT).identity
    yield database
    database.close()


def _charge(database: Database, owner: str, job: str, cost: int) -> None:
    with database.write() as connection:
        state = store.load_state(connection, "ds_1")
        standing = stands(connection, "ds_1", state, OWNERS[owner])
        store.charge(connection, "ds_1", standing, charge_of(job, (cost,), OWN, dataset="ds_1"), AT, OWNERS[owner])


def _everything(database: Database) -> list[object]:
    with database.read() as connection:
        tables = ("ledgers", "datasets", "ledger_entries", "analyst_spend")
        return [connection.execute(sa.text(f"select * from {table} order by 1, 2")).all() for table in tables]


def test_the_shares_of_unchanged_ledgers_are_not_calculated_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    calculated = []

    def noted(state: LedgerState, cost: Cost) -> float:
        calculated.append(state.sequence)
        return share(state, cost)

    def shares() -> list[float | None]:
        with database.read() as connection:
            return metrics.spent_shares(connection)

    monkeypatch.setattr(metrics, "share", noted)
    _charge(database, "ada", "job_1", UNIT // 4)
    assert shares() == shares() == [0.25]
    _charge(database, "ada", "job_2", UNIT // 4)
    assert shares() == shares() == [0.5]
    assert calculated == [2, 3]
    with database.write() as connection:
        connection.execute(sa.text("update ledgers set state = '{'"))
    assert shares() == [None]


def test_the_state_equals_the_replay_of_the_entries(database: Database) -> None:
    _charge(database, "ada", "job_1", 5)
    _charge(database, "bob", "job_2", 7)
    with database.write() as connection:
        store.apply(connection, "ds_1", Started("job_1", 1), AT)
        store.apply(connection, "ds_1", Refunded("job_2", (7,), False), AT, OWNERS["bob"])
        store.apply(connection, "ds_1", Failed("job_1", 1), AT)
    with database.read() as connection:
        entries = store.entries(connection, "ds_1")
        state = store.load_state(connection, "ds_1")
        assert [e.sequence for e in entries] == [1, 2, 3, 4, 5, 6]
        assert replay(entries) == state
        assert state is not None
        assert state.spent == (5,)
        assert [e.sequence for e in store.entries(connection, "ds_1", last=2, limit=2)] == [3, 4]
        sums = connection.execute(sa.select(analyst_spend.c.owner_id, analyst_spend.c.charges, analyst_spend.c.spent))
        assert sums.all() == [(OWNERS["ada"], 1, '["5"]')], "without a live charge there is no sum"


def test_refused_charge_writes_nothing(database: Database) -> None:
    _charge(database, "ada", "job_1", UNIT - 10)
    rows_before = _everything(database)
    with pytest.raises(BudgetExhausted):
        _charge(database, "bob", "job_2", 11)
    assert _everything(database) == rows_before
    _charge(database, "bob", "job_2", 10)


def test_the_ledger_itself_refuses_charges_beyond_an_allotment(database: Database) -> None:
    """The check does not depend on the caller or on earlier checks."""
    allotment = {"ledger_id": "ds_1", "identity_id": OWNERS["ada"], "share": 0.5, "set_by": "s", "set_at": AT}
    with database.write() as connection:
        connection.execute(sa.insert(allotments).values(mode="reserved", **allotment))
    _charge(database, "ada", "job_1", UNIT // 2)
    rows_before = _everything(database)
    for owner, cost in (("ada", 1), ("bob", UNIT // 2 + 1)):
        with pytest.raises(BudgetExhausted):
            _charge(database, owner, "job_2", cost)
    assert _everything(database) == rows_before
    _charge(database, "bob", "job_2", UNIT // 2)


def test_refund_to_an_owner_without_charges_writes_nothing(database: Database) -> None:
    _charge(database, "ada", "job_1", 5)
    rows_before = _everything(database)
    with pytest.raises(LedgerInvalid), database.write() as connection:
        store.apply(connection, "ds_1", Refunded("job_1", (5,), False), AT, OWNERS["bob"])
    assert _everything(database) == rows_before


def test_refund_without_an_owner_is_refused_and_writes_nothing(database: Database) -> None:
    _charge(database, "ada", "job_1", 5)
    rows_before = _everything(database)
    with pytest.raises(ValueError, match="owner"), database.write() as connection:
        store.apply(connection, "ds_1", Refunded("job_1", (5,), False), AT)
    assert _everything(database) == rows_before


def test_charge_by_a_stale_standing_writes_nothing(database: Database) -> None:
    """A standing that was read before another charge would allow the same budget to be spent twice."""
    with database.read() as connection:
        state = store.load_state(connection, "ds_1")
    _charge(database, "ada", "job_1", 5)
    rows_before = _everything(database)
    with pytest.raises(sa.exc.IntegrityError), database.write() as connection:
        store.charge(connection, "ds_1", Standing(state), charge_of("job_2", (5,), OWN), AT, OWNERS["bob"])
    assert _everything(database) == rows_before


def test_unknown_dataset_has_no_state_and_no_ledger(database: Database) -> None:
    with database.read() as connection:
        with pytest.raises(LedgerInvalid):
            store.load_state(connection, "ds_2")
        assert store.entries(connection, "ds_2") == []
        assert not store.exists(connection, "ds_2")
    with pytest.raises(LedgerInvalid), database.write() as connection:
        store.apply(connection, "ds_2", Started("job_1", 1), AT)
    with database.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(ledger_entries)) == 1
