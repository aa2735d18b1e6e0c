"""A dataset's name states the dataset in every route, as its id does; test_grants.py tries each request field."""

from typing import Any

import pytest

from tests.support.service import Service

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


def test_every_operation_that_takes_a_dataset_is_tried(operations: list[tuple[str, str, dict[str, Any]]]) -> None:
    changes, queries = set(), set()
    for method, path, operation in operations:
        changes |= {(method, path)} if "{dataset_id}" in path and method != "get" else set()
        for parameter in operation.get("parameters", ()):
            if "dataset" in parameter["name"]:
                assert "name" in parameter["description"], (method, path)
                queries |= {(path, parameter["name"])} if parameter["in"] == "query" else set()
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
