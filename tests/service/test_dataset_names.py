"""A dataset's name states the dataset in every route and request field, as its id does."""

from typing import Any

import pytest

from tests.support.service import JOB, Service

ANALYST = "the analyst"  # of `shared`
PREFIX = "/v1/datasets/{dataset_id}"
# A body for each operation that changes a dataset, in an order in which all of them succeed.
CHANGES: list[tuple[str, str, Any, int]] = [
    ("patch", "", {"frozen": True}, 200),
    ("patch", "", {"frozen": False}, 200),
    ("put", "/grants/{analyst}", None, 200),
    ("put", "/allotments/{analyst}", {"share": 0.5, "mode": "shared"}, 200),
    ("delete", "/allotments/{analyst}", None, 204),
    ("delete", "/grants/{analyst}", None, 204),
    ("put", "/sample", None, 200),
    ("delete", "/sample", None, 204),
    ("post", "/charges", {"label": "a", "event": {"type": "GaussianDpEvent", "noise_multiplier": 100.0}}, 201),
    ("post", "/sessions", {"events": [{"type": "GaussianDpEvent", "noise_multiplier": 100.0}]}, 201),
    ("delete", "", None, 200),
]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/jobs": JOB,
    "/v1/quotes": JOB,
    "/v1/statistics": {"method": {"name": "counts"}, "columns": ["sex"], "privacy": {"epsilon": 0.1}},
    "/v1/tunings": {
        "target": "income",
        "candidates": [{"method": {"name": "dp_gd", "steps": 3}}],
        "privacy": {"epsilon": 0.5},
    },
    "/v1/forecasts": {"target": "income", "runs": 3, "method": {"name": "dp_gd", "steps": 3}},
}


@pytest.fixture(scope="module")
def operations(shared: Service) -> list[tuple[str, str, dict[str, Any]]]:
    paths = shared.app.openapi()["paths"]
    return [(method, path, operation) for path, methods in paths.items() for method, operation in methods.items()]


@pytest.fixture
def dataset(shared: Service) -> str:
    """Return the id of a new dataset."""
    return shared.dataset()


@pytest.fixture
def name(shared: Service, dataset: str) -> str:
    """Return the name of that dataset."""
    return str(shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["name"])


def _refers(schema: dict[str, Any], schemas: dict[str, Any]) -> bool:
    """Return whether a request of this schema has a field `dataset`."""
    if "$ref" in schema:
        return _refers(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    members = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return "dataset" in schema.get("properties", {}) or any(_refers(member, schemas) for member in members)


def test_every_operation_that_takes_a_dataset_is_tried_below(
    shared: Service, operations: list[tuple[str, str, dict[str, Any]]]
) -> None:
    schemas = shared.app.openapi()["components"]["schemas"]
    fields, changes, queries = set(), set(), set()
    for method, path, operation in operations:
        media = operation.get("requestBody", {}).get("content", {}).get("application/json")
        fields |= {path} if media is not None and _refers(media["schema"], schemas) else set()
        changes |= {(method, path)} if "{dataset_id}" in path and method != "get" else set()
        for parameter in operation.get("parameters", ()):
            if "dataset" in parameter["name"]:
                assert "name" in parameter["description"], (method, path)
                queries |= {(path, parameter["name"])} if parameter["in"] == "query" else set()
    assert fields == set(BODIES)
    assert changes == {(method, PREFIX + suffix) for method, suffix, _, _ in CHANGES}
    assert queries == {("/v1/jobs", "dataset"), ("/v1/sessions", "dataset")}


def test_every_read_answers_to_the_name_as_to_the_id(
    shared: Service, dataset: str, name: str, operations: list[tuple[str, str, dict[str, Any]]]
) -> None:
    shared.attach(dataset)
    allotment = {"share": 0.5, "mode": "shared"}
    assert shared.call("steward", "PUT", f"/v1/datasets/{dataset}/allotments/{ANALYST}", json=allotment).is_success
    for path in (path for method, path, _ in operations if method == "get" and "{dataset_id}" in path):
        by_id, by_name = (
            shared.call("steward", "GET", path.format(dataset_id=reference, analyst=ANALYST))
            for reference in (dataset, name)
        )
        assert by_name.status_code == by_id.status_code == 200, path
        if not path.endswith("/head"):  # which states the time
            assert by_name.content == by_id.content, path


def test_every_change_is_made_by_name(shared: Service, dataset: str, name: str) -> None:
    for method, suffix, body, status in CHANGES:
        path = (PREFIX + suffix).format(dataset_id=name, analyst=ANALYST)
        if method == "put" and suffix == "/sample":
            answer = shared.attach(name)
        else:
            answer = shared.call("steward", method.upper(), path, json=body)
        assert answer.status_code == status, (method, path, answer.text)
    assert shared.call("steward", "GET", f"/v1/datasets/{dataset}").json()["data"] == "deleted"


@pytest.mark.parametrize("path", BODIES)
def test_every_request_field_takes_the_name(shared: Service, dataset: str, name: str, path: str) -> None:
    answer = shared.call("analyst", "POST", path, json={"dataset": name, **BODIES[path]})
    assert answer.is_success, answer.text
    assert answer.json()["dataset"] == dataset


def test_jobs_are_listed_by_the_name(shared: Service, name: str) -> None:
    job = shared.call("analyst", "POST", "/v1/jobs", json={"dataset": name, **JOB}).json()
    jobs = shared.call("analyst", "GET", "/v1/jobs", params={"dataset": name}).json()["items"]
    assert [listed_job["id"] for listed_job in jobs] == [job["id"]]
