"""The examples of the OpenAPI document are what was asked and answered: they suit their schemas, and go well today."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.examples import FILE, tell
from tests.support.service import Service

EXAMPLES = json.loads(FILE.read_text())
RESPONSES = ("200", "201", "202")


@pytest.fixture(scope="module")
def document(shared: Service) -> dict[str, Any]:
    schema: dict[str, Any] = shared.client.get("/openapi.json").json()
    return schema


def _contents(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the operation, `request` or `response`, and the content of each body in the document."""
    for operations in document["paths"].values():
        for operation in operations.values():
            good = [operation["responses"].get(status, {}) for status in RESPONSES]
            for side, part in (
                ("request", operation.get("requestBody", {})),
                *(("response", response) for response in good),
            ):
                for media, content in part.get("content", {}).items():
                    if media in ("application/json", "multipart/form-data"):
                        yield operation["operationId"], side, content


def test_every_body_and_every_answer_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator  # takes a second, which collecting the suite should not pay

    contents = list(_contents(document))
    missing = [(name, side) for name, side, content in contents if "example" not in content]
    assert missing == [], "add a request to tests/support/examples.py, then run: python -m tests.support.examples"
    for name, side, content in contents:
        schema = content["schema"] | {"components": document["components"]}
        wrong = [error.message for error in Draft202012Validator(schema).iter_errors(content["example"])]
        assert wrong == [], (name, side)
        assert content["example"] == EXAMPLES[name][side]
    assert {name for name, _, _ in contents} == set(EXAMPLES)


def test_no_example_holds_a_secret() -> None:
    assert set(FILE.read_text().split('"token": "')[1:]) != set()
    assert all(part.startswith("purse_" + "x" * 43) for part in FILE.read_text().split('"token": "')[1:])


@pytest.mark.slow
def test_the_story_succeeds_and_equals_the_examples(service: Service) -> None:
    story = tell(service)
    assert set(story) == set(EXAMPLES), "run: python -m tests.support.examples"
    for name, bodies in story.items():
        assert set(bodies) == set(EXAMPLES[name])
        for side, body in bodies.items():
            assert set(body) == set(EXAMPLES[name][side]), (name, side)
    spec = EXAMPLES["register_dataset"]["request"]["spec"]
    again = spec | {"name": "as in the example"}
    dataset = service.registered(again, b"age,sex,income\n" + b"37,f,low\n52,m,high\n" * 300)
    for name, path in (("price_job", "quotes"), ("submit_job", "jobs"), ("submit_statistic", "statistics")):
        request = EXAMPLES[name]["request"] | {"dataset": dataset["id"]}
        answer = service.call("steward", "POST", f"/v1/{path}", json=request)
        assert answer.is_success, answer.text
