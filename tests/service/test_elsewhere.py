"""Datasets whose records are elsewhere: registered without a file, charged, and never computed on."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from app.datasets import service as datasets
from app.datasets import store
from app.datasets.upload import Upload
from app.http.errors import ApiError
from app.ledger import audit
from purse.wire.datasets import Amendment, DatasetSpec
from tests.support.service import JOB, SPEC, Service
from tests.support.world import STEWARD, World

BUDGET = SPEC["budget"]
SPEC_ELSEWHERE: dict[str, Any] = {"name": "registry", "data": "elsewhere", "rows": 5000, "budget": BUDGET}
PERSONS: dict[str, Any] = {"unit": {"max_rows": 8, "persons": 700}, "rows": None}
GAUSSIAN = {"label": "training", "event": {"type": "GaussianDpEvent", "noise_multiplier": 4.0}}


def _declare(service: Service, **changes: Any) -> tuple[int, dict[str, Any]]:
    spec = json.dumps(SPEC_ELSEWHERE | changes)
    answer = service.call("steward", "POST", "/v1/datasets", files={"spec": (None, spec)})
    return answer.status_code, answer.json()


def _declared(service: Service, **changes: Any) -> str:
    status, dataset = _declare(service, **changes)
    assert status == 201, dataset
    service.grant(dataset["id"], "the analyst")
    return str(dataset["id"])


def test_a_dataset_without_a_file_has_a_budget_and_a_public_size(service: Service) -> None:
    status, dataset = _declare(service)
    assert (status, dataset["data"], dataset["rows"], dataset["persons"]) == (201, "elsewhere", 5000, None)
    assert (dataset["columns"], dataset["sessions"]) == ([], "refund")
    assert dataset["report"] == {"records": 0, "columns": [], "warnings": []}
    assert dataset["budget"]["remaining"]["epsilon"] == BUDGET["epsilon"]
    entries = service.entries(dataset["id"])
    assert [(entry["kind"], entry["body"]["rows"]) for entry in entries] == [("opened", 5000)]
    assert not (service.home / "datasets" / dataset["id"]).exists()
    audit.refuse_unsound(service.database)


def test_persons_are_stated_with_the_maximum_of_their_rows(service: Service) -> None:
    status, dataset = _declare(service, **PERSONS)
    assert (status, dataset["rows"], dataset["persons"]) == (201, None, 700)
    assert dataset["unit"] == {"name": "person", "max_rows": 8}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"rows": None}, "spec.rows"),
        ({"rows": 0}, "spec.rows"),
        ({"unit": {"max_rows": 8, "persons": 7}}, "spec.rows"),
        ({"rows": None, "unit": {"max_rows": 8}}, "spec.unit.persons"),
        ({"holdout": 0.2}, "spec.holdout"),
        ({"storage": "partitions"}, "spec.storage"),
        ({"dialect": {"delimiter": ";"}}, "spec.dialect"),
        ({"data": "stored"}, "spec.columns"),
        ({"data": "stored", "columns": SPEC["columns"]}, "spec.rows"),
        ({"data": "stored", "columns": SPEC["columns"], "rows": None, "unit": {"max_rows": 3}}, "spec.unit.column"),
        ({"sessions": "sometimes"}, "spec.sessions"),
    ],
)
def test_a_declaration_without_a_file_that_is_incomplete_is_refused(
    shared: Service, changes: dict[str, Any], where: str
) -> None:
    status, problem = _declare(shared, **changes)
    assert status == 422
    assert where in [violation["where"] for violation in problem["violations"]]


def test_the_spec_decides_whether_a_file_is_sent(shared: Service) -> None:
    with_file = shared.upload(SPEC_ELSEWHERE)
    assert (with_file.status_code, with_file.json()["violations"][0]["where"]) == (422, "body")
    without_file = shared.call("steward", "POST", "/v1/datasets", files={"spec": (None, json.dumps(SPEC))})
    assert (without_file.status_code, without_file.json()["violations"][0]["where"]) == (422, "body")


@pytest.mark.parametrize(
    ("role", "method", "path", "body"),
    [
        ("analyst", "POST", "/v1/jobs", JOB),
        ("analyst", "POST", "/v1/quotes", JOB),
        ("analyst", "POST", "/v1/statistics", {"method": {"name": "counts"}, "privacy": {"epsilon": 0.1}}),
        ("analyst", "POST", "/v1/statistics", {"method": {"name": "profile"}, "privacy": {"epsilon": 0.1}}),
        ("analyst", "POST", "/v1/tunings", JOB | {"candidates": [{}], "repeats": 2}),
        ("analyst", "POST", "/v1/forecasts", {"target": "income", "privacy": {"epsilons": [0.5]}}),
        ("analyst", "GET", "/v1/datasets/{id}/twin", None),
        ("analyst", "GET", "/v1/datasets/{id}/sample", None),
    ],
)
def test_nothing_is_computed_from_records_elsewhere(
    shared: Service, role: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    dataset = _declared(shared, name=f"of {method} {path} {body}"[:200], columns=SPEC["columns"])
    arguments = {} if body is None else {"json": body | {"dataset": dataset}}
    answer = shared.call(role, method, path.format(id=dataset), **arguments)
    assert (answer.status_code, answer.json()["code"]) == (409, "data_elsewhere"), answer.text
    assert shared.budget(dataset)["jobs"] == 0


def test_no_sample_is_attached_to_records_elsewhere(shared: Service) -> None:
    refused = shared.attach(_declared(shared, name="without a sample", columns=SPEC["columns"]))
    assert (refused.status_code, refused.json()["code"]) == (409, "data_elsewhere")


def test_a_charged_dataset_elsewhere_stays_and_an_uncharged_one_is_withdrawn(service: Service) -> None:
    first = _declared(service)
    withdrawn = service.call("steward", "DELETE", f"/v1/datasets/{first}").json()
    assert withdrawn["data"] == "withdrawn"
    second = _declared(service)  # the name is free again
    assert service.call("steward", "POST", f"/v1/datasets/{second}/charges", json=GAUSSIAN).status_code == 201
    refused = service.call("steward", "DELETE", f"/v1/datasets/{second}")
    assert (refused.status_code, refused.json()["code"]) == (409, "data_elsewhere")
    dataset = service.call("analyst", "GET", f"/v1/datasets/{second}").json()
    assert (dataset["data"], dataset["budget"]["share"] > 0) == ("elsewhere", True)
    audit.refuse_unsound(service.database)


def test_records_elsewhere_share_the_budget_of_a_family(service: Service) -> None:
    stored = service.dataset(family="survey")
    joined = _declared(service, family="survey")
    assert service.call("steward", "POST", f"/v1/datasets/{joined}/charges", json=GAUSSIAN).status_code == 201
    budgets = [service.budget(d) for d in (stored, joined)]
    assert budgets[0] == budgets[1]
    assert budgets[0]["share"] > 0
    for changes in ({"neighbors": "zero_out"}, PERSONS, {"budget": BUDGET | {"epsilon": 4.0}}):
        assert _declare(service, name="another", family="survey", **changes)[1]["code"] == "family_mismatch"


def _created(world: World) -> str:
    spec = DatasetSpec.model_validate(SPEC_ELSEWHERE)
    upload = Upload(spec, None, world.settings.home, world.settings.max_upload_bytes)
    return datasets.create(world.database, world.settings, STEWARD, upload).id


def test_a_restart_keeps_a_dataset_elsewhere(world: World) -> None:
    dataset = _created(world)
    world.charge(dataset, "training", 4.0)
    world.database.close()
    again = World.at(world.settings.home)
    with again.database.read() as connection:
        row = store.visible(connection, dataset, STEWARD)
        assert (row.data, row.checksum, row.n) == ("elsewhere", None, 5000)
        store.refuse_changed(connection, row)
    audit.refuse_unsound(again.database)


@pytest.mark.parametrize("change", ["rows = 50000", "data = 'stored'", "spec = replace(spec, '5000', '6000')"])
def test_a_changed_row_of_a_dataset_elsewhere_is_refused(world: World, change: str) -> None:
    dataset = _created(world)
    with world.database.write() as connection:
        connection.execute(sa.text(f"update datasets set {change}"))
    with pytest.raises(ApiError, match="dataset_damaged"):
        world.charge(dataset, "training", 4.0)
    with pytest.raises(audit.UnsoundLedger):
        audit.refuse_unsound(world.database)


def test_the_rule_for_sessions_changes_at_any_time_and_for_the_holdout_set(service: Service) -> None:
    dataset = service.dataset(holdout=0.2, sessions="no_refund")
    kept_out = service.call("steward", "GET", f"/v1/datasets/{dataset}").json()["holdout"]
    paths = [f"/v1/datasets/{each}" for each in (dataset, kept_out)]
    assert [service.call("steward", "GET", path).json()["sessions"] for path in paths] == ["no_refund"] * 2
    assert service.call("steward", "POST", f"{paths[0]}/charges", json=GAUSSIAN).status_code == 201
    changed = service.call("steward", "PATCH", paths[0], json={"sessions": "refused"})
    assert (changed.status_code, changed.json()["sessions"]) == (200, "refused")
    assert [service.call("steward", "GET", path).json()["sessions"] for path in paths] == ["refused"] * 2
    assert service.call("steward", "PATCH", paths[0], json={"sessions": "never"}).status_code == 422
    assert service.call("analyst", "PATCH", paths[0], json={"sessions": "refund"}).status_code == 403
    for each in (dataset, kept_out):
        again = service.call("steward", "PATCH", paths[0], json={"sessions": "refused"})
        page = service.call("auditor", "GET", f"/v1/datasets/{each}/ledger", params={"kind": "session_rule"}).json()
        assert again.status_code == 200
        assert [entry["body"]["rule"] for entry in page["items"]] == ["refused"]
    audit.refuse_unsound(service.database)


def test_a_changed_rule_for_sessions_agrees_with_the_registration(world: World) -> None:
    dataset = world.dataset()
    assert world.amend(dataset, Amendment(sessions="refused")).sessions == "refused"
    audit.refuse_unsound(world.database)
    assert world.submit(dataset, privacy={"epsilon": 0.2}).state == "queued"
    assert world.kinds(dataset) == ["opened", "session_rule", "charged"]
