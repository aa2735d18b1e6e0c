"""The work of finding a dataset by its name, in instructions of SQLite."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from app.datasets import names, store
from app.http.lists import Paging
from app.identity.store import Principal
from app.persistence.tables import datasets, grants, metadata

GRANTS = 50
FOUND_STEPS = 10  # to read a row that the index of names has found; the grants are more
Finder = Callable[[sa.Connection, str, Principal], object]


def identified(connection: sa.Connection, name: str, principal: Principal) -> object:
    identifier = names.identify(connection, name, principal)
    return None if identifier == name else identifier


def listed(connection: sa.Connection, name: str, principal: Principal) -> object:
    return store.page(connection, principal, Paging(), store.DatasetFilters(name=name)) or None


@pytest.fixture(scope="module")
def connection() -> sa.Connection:
    """Return a database with datasets name0, ..., which no test changes. The analyst has grants on all but the last."""
    opened = sa.create_engine("sqlite://").connect()
    metadata.create_all(opened)
    for i in range(GRANTS + 1):
        row = {column.name: 0 if isinstance(column.type, sa.Integer) else "" for column in datasets.c}
        named = {"id": f"ds_{i}", "ledger_id": f"ds_{i}", "name": f"name{i}", "holdout_of": None, "data": "stored"}
        opened.execute(sa.insert(datasets).values(**row | named | {"content_sha256": str(i)}))
    for i in range(GRANTS):
        grant = {"dataset_id": f"ds_{i}", "identity_id": "id_ada", "granted_by": "", "granted_at": ""}
        opened.execute(sa.insert(grants).values(**grant))
    return opened


def steps(connection: sa.Connection, find: Finder, name: str, principal: Principal) -> int:
    """Return how many instructions SQLite's virtual machine runs to report that the name is unknown."""
    count = 0

    def counted() -> int:
        nonlocal count
        count += 1
        return 0

    driver = connection.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(counted, 1)
    try:
        assert find(connection, name, principal) is None
    finally:
        driver.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("find", [identified, listed])
@pytest.mark.parametrize("groups", [(), ("name0", "team")], ids=["no groups", "groups"])
def test_a_name_without_a_grant_takes_the_work_of_an_unknown_name(
    connection: sa.Connection, find: Finder, groups: tuple[str, ...]
) -> None:
    ada = Principal("id_ada", "ada", "analyst", datasets=groups)
    work = [steps(connection, find, name, ada) for name in (f"name{GRANTS}", "unknown")]
    assert 0 <= work[0] - work[1] <= FOUND_STEPS < GRANTS
