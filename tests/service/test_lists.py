"""Every list is a page: newest first, by a cursor, of what suits all that is asked; and nothing secret decides it."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.datasets import store as datasets
from app.http.lists import Paging
from app.jobs import attempts, store
from app.jobs import service as jobs
from app.jobs.filters import JobFilters
from app.persistence.tables import jobs as tables
from tests.support.service import Service
from tests.support.world import World, output

LISTS = ("/v1/tokens", "/v1/datasets", "/v1/jobs", "/v1/datasets/{}/grants", "/v1/datasets/{}/allotments")


def _listed(service: Service, path: str, role: str = "steward", /, **query: Any) -> list[dict[str, Any]]:
    """Return the whole list, read in pages of two."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = service.call(role, "GET", path, params={"limit": 2} | query | cursor)
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        if answer.json()["next"] is None:
            return items
        cursor = {"cursor": answer.json()["next"]}


@pytest.fixture(scope="module")
def full(shared: Service) -> tuple[Service, list[str]]:
    """Return a service with three datasets, analysts and jobs, and the datasets."""
    datasets = [shared.dataset(family=family) for family in ("spring", "summer")] + [shared.dataset()]
    for name in ("lea", "tom"):
        shared.analyst(name, *datasets)
    for name in ("the analyst", "lea", "tom"):
        path = f"/v1/datasets/{datasets[0]}/allotments/{name}"
        assert shared.call("steward", "PUT", path, json={"share": 0.9}).status_code == 200
    for name, dataset in (("lea", datasets[0]), ("tom", datasets[0]), ("lea", datasets[1])):
        request = {"dataset": dataset, "method": {"name": "counts"}, "privacy": {"epsilon": 0.1}}
        job = shared.call(name, "POST", "/v1/statistics", json=request)
        assert job.status_code == 202, job.text
        shared.finished(job.json()["id"])
    assert shared.call("steward", "PATCH", f"/v1/datasets/{datasets[2]}", json={"frozen": True}).status_code == 200
    return shared, datasets


@pytest.mark.slow
@pytest.mark.parametrize("path", LISTS)
def test_the_newest_is_first_and_the_other_order_is_the_same_list(full: tuple[Service, list[str]], path: str) -> None:
    service, [dataset, *_] = full
    newest, oldest = (_listed(service, path.format(dataset), **order) for order in ({}, {"order": "asc"}))
    assert newest == oldest[::-1]
    assert len(newest) >= 3
    times = [item["created_at"] for item in newest if "created_at" in item]
    assert times == sorted(times, reverse=True)
    assert service.call("steward", "GET", path.format(dataset), params={"order": "down"}).status_code == 422
    assert service.call("steward", "GET", path.format(dataset), params={"sort": "name"}).status_code == 422


@pytest.mark.slow
def test_a_ledger_is_read_from_its_first_entry_and_backwards_when_asked(full: tuple[Service, list[str]]) -> None:
    service, [dataset, *_] = full
    path = f"/v1/datasets/{dataset}/ledger"
    chain = _listed(service, path)
    assert [entry["sequence"] for entry in chain] == list(range(1, len(chain) + 1))
    assert _listed(service, path, order="desc") == chain[::-1]
    charged = _listed(service, path, kind="charged")
    assert [entry["body"]["analyst"] for entry in charged] == ["lea", "tom"]
    lea = charged[0]["body"]["job"]
    assert _listed(service, path, analyst="lea") == [entry for entry in chain if entry["body"].get("job") == lea]
    assert {entry["kind"] for entry in _listed(service, path, analyst="lea")} == {"charged", "started", "released"}
    assert service.call("steward", "GET", path, params={"kind": "spent"}).status_code == 422


@pytest.mark.slow
def test_jobs_are_filtered_by_request_and_result(full: tuple[Service, list[str]]) -> None:
    service, [first, second, _] = full
    whole = _listed(service, "/v1/jobs")
    assert [(job["analyst"], job["dataset"]) for job in whole] == [("lea", second), ("tom", first), ("lea", first)]
    middle = whole[1]["created_at"]
    for query, expected in (
        ({"dataset": first}, whole[1:]),
        ({"state": "done"}, whole),
        ({"state": "failed"}, []),
        ({"method": "counts"}, whole),
        ({"method": "means"}, []),
        ({"kind": "statistic"}, whole),
        ({"kind": "model"}, []),
        ({"analyst": "lea"}, [whole[0], whole[2]]),
        ({"analyst": "lea", "dataset": second}, whole[:1]),
        ({"since": middle}, whole[:2]),
        ({"until": middle}, whole[2:]),
        ({"since": whole[-1]["created_at"][:10]}, whole),
        ({"until": "2024-02-29"}, []),
    ):
        assert _listed(service, "/v1/jobs", **query) == expected, query
    assert _listed(service, "/v1/jobs", "lea", analyst="tom") == []
    assert _listed(service, "/v1/jobs", "lea") == [whole[0], whole[2]]
    for wrong in ({"since": "2026-02-30"}, {"since": "yesterday"}, {"until": "1700000000"}, {"state": "ended"}):
        assert service.call("steward", "GET", "/v1/jobs", params=wrong).status_code == 422, wrong


@pytest.mark.slow
def test_datasets_and_tokens_are_filtered(full: tuple[Service, list[str]]) -> None:
    service, [spring, summer, frozen] = full
    name = service.call("steward", "GET", f"/v1/datasets/{summer}").json()["name"]
    for query, expected in (
        ({"name": name}, [summer]),
        ({"name": "nobody"}, []),
        ({"family": "spring"}, [spring]),
        ({"state": "frozen"}, [frozen]),
        ({"state": "open"}, [summer, spring]),
        ({"state": "deleted"}, []),
    ):
        assert [dataset["id"] for dataset in _listed(service, "/v1/datasets", **query)] == expected, query
    without_columns = _listed(service, "/v1/datasets", columns="false")
    assert without_columns == [dataset | {"columns": []} for dataset in _listed(service, "/v1/datasets")]
    assert _listed(service, "/v1/datasets", "lea", family="spring") == [], "analysts cannot read families"
    assert [token["name"] for token in _listed(service, "/v1/tokens", role="analyst")] == ["tom", "lea", "the analyst"]
    assert [token["role"] for token in _listed(service, "/v1/tokens", name="lea")] == ["analyst"]


@pytest.mark.slow
def test_an_unpublished_end_does_not_move_a_job_in_a_list(world: World) -> None:
    """The order of a list must not reveal how long the computation on the records took."""
    dataset = world.dataset()
    ids = [world.submit(dataset, privacy={"epsilon": 0.1}).id for _ in range(2)]
    claims = [world.claim(), world.claim()]

    def job_pages() -> list[Any]:
        queries = (JobFilters(), JobFilters(state="running"), JobFilters(state="done"))
        return [jobs.page(world.database, world.analyst, Paging(), filters) for filters in queries]

    pages_before = job_pages()
    assert [job.id for job in pages_before[1].items] == ids[::-1]
    for claim in reversed(claims):
        assert claim is not None
        assert attempts.end(world.database, claim, output(claim), world.clock.ticks())
        assert job_pages() == pages_before
    world.tell()
    assert [job.id for job in job_pages()[2].items] == ids[::-1]


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        (JobFilters(since="2026-11-22T00:00:00.000Z"), "sqlite_autoindex_jobs"),
        (JobFilters(dataset="ds_a"), "ix_jobs_dataset"),
        (JobFilters(state="running"), "ix_jobs_open"),
        (JobFilters(method="dp_gd"), "ix_jobs_method"),
        (JobFilters(kind="profile"), "ix_jobs_kind"),
        (JobFilters(analyst="ada"), "ix_jobs_owner"),
    ],
)
def test_every_list_of_jobs_uses_an_index(shared: Service, filters: JobFilters, index: str) -> None:
    with shared.database.read() as connection:
        statement = Paging().of(store.listed(*filters.conditions()), tables.c.number)
        text = statement.compile(connection, compile_kwargs={"literal_binds": True}).string
        plan = [row.detail for row in connection.exec_driver_sql(f"explain query plan {text}")]
    jobs_read = [step for step in plan if " jobs" in step]
    assert jobs_read, plan
    assert all(index in step for step in jobs_read), plan


def test_the_list_of_datasets_is_read_in_the_order_of_an_index(tmp_path: Path) -> None:
    """Otherwise a page of a service with many datasets would sort all of them."""
    world, queries = World.at(tmp_path / "home"), list[tuple[str, Any]]()
    with world.database.read() as connection:

        @sa.event.listens_for(connection, "before_cursor_execute")
        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
            queries.append((statement, parameters))

        datasets.page(connection, world.steward, Paging(), datasets.NO_FILTERS)
        statement, values = queries[0]
        plan = [row[-1] for row in connection.exec_driver_sql(f"explain query plan {statement}", values)]
    assert "ix_datasets_created" in plan[0]
    assert not any("TEMP B-TREE" in step for step in plan)
    world.database.close()
