"""The migrations lead to exactly the tables that the code names."""

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.jobs import service
from app.ledger import store as ledger
from app.persistence.schema import NEWEST, config, create, upgrade
from app.persistence.session import Database
from app.persistence.tables import identities, ledgers, metadata
from app.sources.spec import JobSpec
from app.worker.dispatcher import Dispatcher
from tests.support.inline_engine import InlineEngine
from tests.support.service import SPEC
from tests.support.world import World, run_out


def _migrated(folder: Path) -> Database:
    """By all the steps: `migrate` would make a new database at once."""
    database = Database(_url(folder))
    with database.write() as connection:
        upgrade(connection)
    return database


def _url(folder: Path) -> str:
    """On PostgreSQL, where a test is asked to be (tests.service.test_postgres)."""
    return os.environ.get("PURSE_DATABASE_URL") or f"sqlite:///{folder}/purse.sqlite3"


def _differences(database: Database, target: sa.MetaData) -> list[object]:
    with database.write() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, target))


def _statements(connection: sa.Connection) -> dict[str, set[str]]:
    rows = connection.execute(sa.text("select name, sql from sqlite_master where sql is not null"))
    plain = ((name, re.sub(r'"(\w+)"', r"\1", sql)) for name, sql in rows)  # after a renaming names are quoted
    added = r", (kind VARCHAR|has_epoch BOOLEAN|(request_id|method|holdout_of) VARCHAR)"  # to the last line
    plain = ((name, re.sub(added, r",\n\1", sql)) for name, sql in plain)
    return {name: {line.strip().rstrip(",").rstrip() for line in sql.splitlines()} for name, sql in plain}


def test_the_newest_step_is_the_one_that_a_start_looks_for(tmp_path: Path) -> None:
    database = _migrated(tmp_path)
    with database.read() as connection:
        assert ScriptDirectory.from_config(config(connection)).get_heads() == [NEWEST]
        assert connection.scalars(sa.text("select version_num from alembic_version")).all() == [NEWEST]
    database.close()


@pytest.mark.slow
def test_autogenerate_finds_no_difference(tmp_path: Path) -> None:
    database = _migrated(tmp_path)
    assert _differences(database, metadata) == []
    other = sa.MetaData()
    sa.Table("tokens", other, sa.Column("id", sa.String(64), primary_key=True))
    assert _differences(database, other) != []
    database.close()


def test_a_new_database_is_what_the_steps_lead_to(tmp_path: Path) -> None:
    """Its version table too; and one that holds any table goes by the steps."""
    (tmp_path / "new").mkdir()
    new, migrated = Database(f"sqlite:///{tmp_path}/new/purse.sqlite3"), _migrated(tmp_path)
    new.migrate()
    with new.read() as made, migrated.read() as led:
        assert _statements(made) == _statements(led)
        assert made.scalars(sa.text("select version_num from alembic_version")).all() == [NEWEST]
    with migrated.write() as connection:
        assert not create(connection)
    new.close()
    migrated.close()


def test_checks_and_keys_are_the_same_too(tmp_path: Path) -> None:
    """Autogenerate does not look at CHECK constraints: so the statements themselves, line by line."""
    database = _migrated(tmp_path)
    direct = sa.create_engine("sqlite://")
    metadata.create_all(direct)
    with database.read() as migrated, direct.connect() as created:
        found, expected = _statements(migrated), _statements(created)
    assert {name: lines for name, lines in found.items() if name != "alembic_version"} == expected
    assert any("CHECK" in line for line in expected["jobs"])
    database.close()


def test_migrating_again_and_at_the_same_time_changes_nothing(tmp_path: Path) -> None:
    first, second = (Database(_url(tmp_path)) for _ in range(2))
    threads = [threading.Thread(target=database.migrate) for database in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.migrate()
    assert _differences(first, metadata) == []
    first.close()
    second.close()


def _upgrade(database: Database, revision: str) -> None:
    with database.write() as connection:
        command.upgrade(config(connection), revision)


def _insert(connection: sa.Connection, table: str, **values: object) -> None:
    names = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join(f":{name}" for name in values)
    connection.execute(sa.text(f"insert into {table} ({names}) values ({marks})"), values)


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Database]:
    """A database of version 0.1, with a row in each of its tables."""
    database = Database(_url(tmp_path))
    _upgrade(database, "0001")
    with database.write() as connection:
        _insert(connection, "tokens", id="tok_1", name="ada", role="analyst", sha256="1" * 64, created_at="t0")
        dataset = {"id": "ds_1", "name": "people", "rows": 7, "spec": "{}", "file_sha256": "2" * 64, "folder": "ds_1"}
        _insert(connection, "datasets", **dataset, state="{}", created_at="t0")
        entry = {"dataset_id": "ds_1", "sequence": 1, "kind": "opened", "body": "{}", "previous_hash": "", "hash": "3"}
        _insert(connection, "ledger_entries", **entry)
        _insert(connection, "analyst_spend", dataset_id="ds_1", owner_id="tok_1", charges=2, spent='["9"]')
        job = {"dataset_id": "ds_1", "owner_id": "tok_1", "analyst": "ada", "request_sha256": "4", "request": "{}"}
        job |= {"quote": "{}", "plan": "{}", "charge": "{}", "created_at": "t1"}
        ended = {"finished_at": "t3", "started_at": "t2", "progress": 5}
        _insert(
            connection, "jobs", id="job_1", number=1, idempotency_key="a", state="queued", attempt=0, progress=0, **job
        )
        running = {"started_at": "t2", "lease_until": 1e9, "progress": 3}
        _insert(
            connection, "jobs", id="job_2", number=2, idempotency_key="b", state="running", attempt=2, **job, **running
        )
        done = {"model": "{}", "receipt": "{}"}
        _insert(
            connection,
            "jobs",
            id="job_3",
            number=3,
            idempotency_key="c",
            state="done",
            attempt=1,
            **job,
            **ended,
            **done,
        )
    yield database
    database.close()


def test_rows_of_the_first_version_are_kept(old: Database) -> None:
    tables = ("tokens", "datasets", "ledger_entries", "analyst_spend", "jobs")

    def rows() -> dict[str, list[dict[str, object]]]:
        with old.read() as connection:
            found = {name: connection.execute(sa.text(f"select * from {name} order by 1, 2")).all() for name in tables}
        return {name: [dict(row._mapping) for row in found[name]] for name in tables}

    before = rows()
    old.migrate()
    after = rows()
    assert after["datasets"][0]["content_sha256"] == "2" * 64
    assert {row.pop("owner_id") for name in ("jobs", "analyst_spend") for row in after[name]} == {"idn_1"}
    for name in tables:
        assert len(before[name]) == len(after[name]) > 0
        for then, now in zip(before[name], after[name], strict=True):
            assert {key: now[key] for key in then.keys() & now.keys()} == {
                key: then[key] for key in then.keys() & now.keys()
            }
    # nobody holds what was running: it goes on at once, and one attempt of it may have been lost
    now = {str(job["id"]): (job["lost"], job["holder"], job["ended"], job["due"]) for job in after["jobs"]}
    assert now == {"job_1": (0, None, None, None), "job_2": (1, None, None, None), "job_3": (0, None, None, None)}
    assert _differences(old, metadata) == []
    with old.read() as connection:
        if connection.dialect.name == "sqlite":
            assert connection.execute(sa.text("pragma foreign_key_check")).all() == []
            assert connection.scalar(sa.text("pragma integrity_check")) == "ok"


def test_jobs_of_before_are_found_by_the_method_of_their_quotes(old: Database) -> None:
    _upgrade(old, "0018")
    with old.write() as connection:
        connection.execute(sa.text("""update jobs set quote = '{"method": {"name": "dp_gd"}}' where id = 'job_1'"""))
    _upgrade(old, "head")
    with old.read() as connection:
        found = connection.scalars(sa.text("select id from jobs where method = 'dp_gd'")).all()
    assert found == ["job_1"]


def test_who_could_spend_on_a_dataset_still_can(old: Database) -> None:
    """Every analyst with a live token has a grant on what is there; a revoked one has none, and others need none."""
    with old.write() as connection:
        for number, (role, revoked) in enumerate([("analyst", None), ("analyst", "t9"), ("steward", None)], 2):
            token = {"id": f"tok_{number}", "name": f"n{number}", "role": role, "sha256": str(number) * 64}
            _insert(connection, "tokens", **token, created_at="t1", revoked_at=revoked)
    old.migrate()
    with old.read() as connection:
        found = connection.execute(sa.text("select dataset_id, identity_id, granted_by from grants order by 2")).all()
    assert found == [("ds_1", "idn_1", "migration"), ("ds_1", "idn_2", "migration")]


def test_no_two_tokens_become_one_identity(old: Database) -> None:
    """Tokens of one name may be two people's: the newest live one keeps it, and what is not signed says whose it is."""
    with old.write() as connection:
        for number, (name, revoked) in enumerate([("ada", None), ("ada", "t9"), ("ada (2)", None)], 2):
            token = {"id": f"tok_{number}", "name": name, "role": "steward", "sha256": str(number) * 64}
            _insert(connection, "tokens", **token, created_at=f"t{number}", revoked_at=revoked)
    old.migrate()
    with old.read() as connection:
        rows = connection.execute(sa.text("select i.id, i.name, i.role from identities i order by i.id")).all()
        assert rows == [
            ("idn_1", "ada (3)", "analyst"),
            ("idn_2", "ada", "steward"),
            ("idn_3", "ada (4)", "steward"),
            ("idn_4", "ada (2)", "steward"),
        ]
        owners = connection.execute(sa.text("select identity_id, revoked_at from tokens order by id")).all()
        assert owners == [("idn_1", None), ("idn_2", None), ("idn_3", "t9"), ("idn_4", None)]
        named = connection.execute(sa.text("select analyst from jobs order by number")).scalars().all()
        assert named == ["ada (3)", "ada (3)", "ada"], "a receipt that is signed keeps its name"


@pytest.mark.parametrize(
    ("query", "search"),
    [
        (
            "where number > 0 and owner_id = 'idn_1' order by number limit 9",
            "INDEX ix_jobs_owner (owner_id=? AND number>?)",
        ),
        (
            "where dataset_id = 'ds_1' and kind = 'profile' and state = 'done' "
            "order by finished_at desc, number desc limit 1",
            "INDEX ix_jobs_released (dataset_id=? AND kind=? AND state=?)",
        ),
    ],
    ids=["an owner's", "a dataset's latest profile"],
)
def test_what_is_asked_often_walks_no_jobs(old: Database, query: str, search: str) -> None:
    old.migrate()
    with old.read() as connection:
        plan = connection.execute(sa.text(f"explain query plan select id from jobs {query}")).all()
    assert [row.detail for row in plan] == [f"SEARCH jobs USING {search}"]


OLD_REQUEST = (
    '{"dataset":"ds_t7eu63753nxlhl4ahglk","domain":{"name":"free"},"features":null,"loss":null,"method":{"name":"dp_gd",'
    '"release":null,"step":null,"steps":3},"positive":null,"privacy":{"delta":null,"epsilon":0.5},"regularizer":{"name":'
    '"l2","strength":0.0001},"row_norm":null,"target":"income"}'
)
OLD_PLAN = (
    '{"loss":{"name":"logistic"},"method":{"name":"dp_gd","release":"average","step":1.299802243162085,"steps":3},'
    '"release_plan":{"accountant":"exact_gaussian","accountant_version":"1","delta":0.000001,"epsilon":'
    '0.49999999886769003,"plan":{"queries":[{"count":3,"mechanism":"gaussian","name":"gradient","noise_multiplier":'
    "27.912409278376277}]}}}"
)
"""As revision 0004 wrote them, for tests.support.service.SPEC."""

KINDS: list[dict[str, Any]] = [
    {"target": "sex"},
    {"target": "sex", "features": ["income"], "row_norm": 0.5, "positive": "f"},
    {"target": "age", "features": [], "row_norm": 1e6},
    {"target": "sex", "loss": {"name": "softmax"}, "regularizer": {"name": "none"}},
    {"target": "sex", "loss": {"name": "huber_hinge"}, "domain": {"name": "l2_ball", "radius": 1.5}},
    {"target": "income", "features": ["sex", "age"]},
    {"target": "income", "positive": "high"},
]
"""Requests of every kind of target, each with what may be left out given or not."""


def _back(home: Path) -> None:
    """The database as revision 0004 had it: made by its steps, with what it could hold of what there is."""
    path = home / "purse.sqlite3"
    path.rename(home / "newest")
    newest, database = Database(f"sqlite:///{home}/newest"), Database(f"sqlite:///{path}")
    tables = sa.MetaData()
    with newest.read() as source, database.write() as connection:
        command.upgrade(config(connection), "0004")
        tables.reflect(connection)
        for table in tables.sorted_tables:
            if table.name in metadata.tables:
                query = sa.select(metadata.tables[table.name])
                if table.name == "tokens":
                    query = query.add_columns(identities.c.name, identities.c.role).join(identities)
                for row in source.execute(query):
                    older = dict(row._mapping) | _older(source, table.name, row)
                    known = {name: value for name, value in older.items() if name in table.c}
                    connection.execute(table.insert().values(known))
    newest.close()
    database.close()


def _older(source: sa.Connection, table: str, row: sa.Row[Any]) -> dict[str, str]:
    """What a row had under another name, or elsewhere."""
    match table:
        case "jobs":
            spec = json.loads(row.spec)
            kept = {name: spec[name] for name in ("method", "release_plan")}
            plan = {"plan": json.dumps(kept | {"loss": spec["problem"]["loss"]})}
            return plan | {"owner_id": f"tok{row.owner_id[3:]}"}
        case "datasets":
            return {"state": source.execute(sa.select(ledgers.c.state).where(ledgers.c.id == row.id)).scalar_one()}
        case "ledger_entries":
            return {"dataset_id": row.ledger_id}
        case "analyst_spend":
            return {"dataset_id": row.ledger_id, "owner_id": f"tok{row.owner_id[3:]}"}
        case "tokens":
            return {"id": f"tok{row.identity_id[3:]}"}
        case _:
            return {}


def _documents(world: World) -> dict[str, JobSpec]:
    """As they are read: a field that came after a revision has its default."""
    with world.database.read() as connection:
        rows = connection.execute(sa.text("select id, spec from jobs")).all()
    return {row.id: JobSpec.model_validate_json(row.spec) for row in rows}


@pytest.mark.slow
def test_open_jobs_of_revision_4_become_what_they_were_priced_as(tmp_path: Path) -> None:
    world = World.at(tmp_path / "home")
    income = {"name": "income", "type": "category", "categories": ["low", "middle", "high"]}
    dataset = world.dataset(budget={"epsilon": 50.0, "delta": 1e-6}, columns=[*SPEC["columns"][:2], income])
    gd: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 3}, "privacy": {"epsilon": 0.1}}
    gd["preparation"] = {"name": "declared"}  # all there was
    for asked in KINDS:
        world.submit(dataset, **gd | asked)
    claim = world.claim()  # one of them runs
    assert claim is not None
    before, books = _documents(world), world.kinds(dataset)
    world.database.close()
    _back(world.settings.home)
    world = World.at(world.settings.home)
    assert _documents(world) == before
    assert world.kinds(dataset) == books
    world.check()


@pytest.mark.slow
def test_a_queued_job_of_revision_4_runs_under_its_charge(tmp_path: Path) -> None:
    world = World.at(tmp_path / "home")
    dataset = world.dataset(rows=199)
    asked: list[dict[str, Any]] = [
        {},
        {},
        {"method": {"name": "dp_gd", "steps": 3}},
        {},
    ]  # of OLD_PLAN, which its ledger will say
    done, cancelled, waiting, broken = (world.submit(dataset, privacy={"epsilon": 0.5}, **a).id for a in asked)
    claim = world.claim()
    assert claim is not None
    assert world.end(claim)
    service.cancel(world.database, world.analyst, cancelled)
    with world.database.read() as connection:
        spent = ledger.load_state(connection, dataset)
    world.database.close()
    _back(world.settings.home)
    database = Database(f"sqlite:///{world.settings.home}/purse.sqlite3")
    with database.write() as connection:
        old = {"request": OLD_REQUEST, "plan": OLD_PLAN, "id": waiting}
        connection.execute(sa.text("update jobs set request = :request, plan = :plan where id = :id"), old)
        connection.execute(sa.text("update jobs set plan = '{}' where id = :id"), {"id": broken})
    database.close()

    world = World.at(world.settings.home)
    with world.database.read() as connection:
        assert ledger.load_state(connection, dataset) == spent
    dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine())
    dispatcher.step()
    run_out(world, dispatcher)
    states = {job: world.job(job).state for job in (done, cancelled, waiting, broken)}
    assert states == {done: "done", cancelled: "cancelled", waiting: "done", broken: "failed"}
    receipt = json.loads(service.released(world.database, world.analyst, waiting, "receipt"))["receipt"]
    assert receipt["method"] == json.loads(OLD_PLAN)["method"]
    assert receipt["queries"] == json.loads(OLD_PLAN)["release_plan"]["plan"]["queries"]
    assert world.check() == {"done": 2, "cancelled": 1, "failed": 1}
