"""The OpenAPI document is complete: every field is described, every error is listed, every body is there."""

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from app.http.body import JsonBody
from app.http.codes import CODES
from app.http.errors import MEDIA_TYPE
from app.http.routing import dependants, routes
from app.identity.dependencies import bearer
from app.main import ROUTERS
from purse.violations import plain_message
from purse.wire.columns import NumberColumn
from tests.support.service import JOB, Service

REF = "#/components/"
LINKED = "$response.body#/id"


@pytest.fixture(scope="module")
def document(shared: Service) -> dict[str, Any]:
    response = shared.client.get("/openapi.json")
    assert response.status_code == 200
    schema: dict[str, Any] = response.json()
    return schema


def _values(part: Any, key: str) -> Iterator[str]:
    """Yield the texts under this key, anywhere in a document."""
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if isinstance(part, dict) and isinstance(part.get(key), str):
        yield part[key]
    for each in inner:
        yield from _values(each, key)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"{method.upper()} {path}", operation


def _codes(operation: dict[str, Any]) -> set[str]:
    return {
        code
        for response in operation["responses"].values()
        for code in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", ())
    }


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


@pytest.mark.slow
def test_it_is_valid(document: dict[str, Any]) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # takes two seconds: not where the suite is collected

    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    document["paths"]["/v1/jobs"]["post"]["responses"]["202"]["content"]["application/json"]["itemSchema"] = {}
    assert not OpenAPIV31SpecValidator(document).is_valid(), "what the framework would add is no OpenAPI 3.1"


def test_operations_are_named_by_their_summaries_and_links_lead_to_them(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in _operations(document)]
    assert len(set(names)) == len(names)
    assert {"submit_job", "list_jobs", "read_job", "read_dataset_budget", "grant_dataset", "check_liveness"} <= set(
        names
    )
    links = document["paths"]["/v1/jobs"]["post"]["responses"]["202"]["links"]
    assert links["read_released_model_job_id"] == {
        "operationId": "read_released_model",
        "parameters": {"job_id": LINKED},
    }
    for name, operation in _operations(document):
        for response in operation["responses"].values():
            assert {link["operationId"] for link in response.get("links", {}).values()} <= set(names), name


def test_a_text_that_does_not_match_a_pattern_is_explained_without_the_pattern(document: dict[str, Any]) -> None:
    patterns = set(_values(document, "pattern")) - {"^[0-9]+$"}  # a header of answers
    assert len(patterns) > 5
    for pattern in patterns:
        message = plain_message({"type": "string_pattern_mismatch", "ctx": {"pattern": pattern}})
        assert pattern not in message


def test_no_default_is_an_object(document: dict[str, Any]) -> None:
    fields = [node for s in document["components"]["schemas"].values() for node in s.get("properties", {}).values()]
    assert not [node for node in fields if isinstance(node.get("default"), dict)]
    described = document["components"]["schemas"]["JobRequest"]["properties"]["regularizer"]["description"]
    assert described.endswith('If left out: `{"strength": 0.0001, "name": "l2"}`.')


@pytest.mark.slow
def test_new_objects_are_at_the_stated_location(service: Service, document: dict[str, Any]) -> None:
    responses = {
        "/v1/tokens": service.call("steward", "POST", "/v1/tokens", json={"name": "ada", "role": "analyst"}),
        "/v1/datasets": service.upload(),
    }
    dataset = responses["/v1/datasets"].json()["id"]
    responses["/v1/jobs"] = service.call("steward", "POST", "/v1/jobs", json=JOB | {"dataset": dataset})
    statistic = {"method": {"name": "means"}, "privacy": {"epsilon": 0.01}, "dataset": dataset}
    responses["/v1/statistics"] = service.call("steward", "POST", "/v1/statistics", json=statistic)
    tuned = {"target": "income", "candidates": [{}], "privacy": {"epsilon": 0.05}, "dataset": dataset}
    responses["/v1/tunings"] = service.call("steward", "POST", "/v1/tunings", json=tuned)
    event = {"type": "GaussianDpEvent", "noise_multiplier": 100.0}
    charge = f"/v1/datasets/{dataset}/charges"
    responses[charge] = service.call("steward", "POST", charge, json={"label": "survey", "event": event})
    for path, response in responses.items():
        place = response.headers["Location"]
        if path == charge:
            [entry] = service.call("steward", "GET", place).json()["items"]
            assert entry["hash"] == response.json()["hash"]
        else:
            assert place == f"{path.replace('statistics', 'jobs').replace('tunings', 'jobs')}/{response.json()['id']}"
    located = [name for name, operation in _operations(document) if "Location" in str(operation["responses"])]
    made_by = [name for name, operation in _operations(document) if {"201", "202"} & set(operation["responses"])]
    assert located == made_by


@pytest.mark.slow
def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = set(_references(document))
    assert references
    for reference in references:
        assert reference.startswith(REF)
        _, kind, name = reference.removeprefix("#/").split("/")
        assert name in document["components"][kind], reference


def test_every_schema_is_described(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_every_parameter_is_described(document: dict[str, Any]) -> None:
    missing = [
        f"{name} {parameter['name']}"
        for name, operation in _operations(document)
        for parameter in operation.get("parameters", ())
        if not (parameter.get("description") or parameter["schema"].get("description"))
    ]
    assert missing == []


def test_every_route_has_a_summary_and_a_description(document: dict[str, Any]) -> None:
    assert [name for name, operation in _operations(document) if not operation.get("summary")] == []
    assert [name for name, operation in _operations(document) if not operation.get("description")] == []


def test_every_route_is_in_the_document(document: dict[str, Any]) -> None:
    expected = {f"{method} {r.path}" for r in routes(ROUTERS) for method in r.methods or () if r.include_in_schema}
    assert {name for name, _ in _operations(document)} == expected


def test_every_error_is_a_problem_document_with_known_codes(document: dict[str, Any]) -> None:
    for name, operation in _operations(document):
        for status, response in operation["responses"].items():
            if status.startswith(("4", "5")):
                assert set(response["content"]) == {MEDIA_TYPE}, name
                examples = response["content"][MEDIA_TYPE]["examples"]
                assert examples
                assert {CODES[code].status for code in examples} == {int(status)}, name
        assert "internal" in _codes(operation), name
    assert set(document["components"]["examples"]) == set(CODES)


def test_every_code_that_a_route_can_answer_with_is_used_somewhere(document: dict[str, Any]) -> None:
    used_codes = set().union(*(_codes(operation) for _, operation in _operations(document)))
    before_any_route = {"method_not_allowed", "malformed_request", "headers_too_large"}
    assert set(CODES) - used_codes == before_any_route


def test_protected_routes_list_401_and_403_and_carry_the_scheme(document: dict[str, Any]) -> None:
    for route in routes(ROUTERS):
        if not route.include_in_schema:
            continue
        protected = any(d.call is bearer for d in dependants(route))
        for method in route.methods or ():
            operation = document["paths"][route.path][method.lower()]
            assert ({"unauthenticated", "forbidden"} <= _codes(operation)) == protected
            assert bool(operation.get("security")) == protected
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_bodies_read_by_hand_are_described_like_any_other(document: dict[str, Any]) -> None:
    bodies_read = 0
    for route in routes(ROUTERS):
        for body in [d.call for d in dependants(route) if isinstance(d.call, JsonBody)]:
            bodies_read += 1
            [method] = (route.methods or set()) - {"HEAD"}
            operation = document["paths"][route.path][method.lower()]
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            name = reference.rsplit("/", 1)[-1]
            schema = document["components"]["schemas"][name]
            assert name.removesuffix("-Input") == body.model.__name__
            members = [document["components"]["schemas"][m["$ref"].rsplit("/", 1)[-1]] for m in schema.get("oneOf", ())]
            if not members:
                assert set(schema["properties"]) == set(body.model.model_fields)
            assert all(member["additionalProperties"] is False for member in members or [schema])
            assert {"invalid_request", "out_of_range", "too_large", "unsupported_media_type"} <= _codes(operation)
    assert bodies_read >= 4


def test_a_bound_is_accepted_as_a_date_and_returned_as_a_number(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    input_schema, output_schema = schemas["NumberColumnInput"], schemas["NumberColumn"]
    assert "NumberColumnInput" in str(schemas["DatasetSpec"])
    assert "NumberColumnInput" not in str(schemas["Dataset"])
    for end, null in (("lower", []), ("upper", []), ("default", ["null"]), ("origin", ["null"])):
        kinds = {kind["type"]: kind for kind in input_schema["properties"][end]["anyOf"]}
        assert list(kinds) == ["number", "string", *null]
        assert "string" not in str(output_schema["properties"][end])
    pattern = kinds["string"]["pattern"]
    column = {"name": "seen", "type": "number", "date": "seconds", "upper": 2e9}
    for text in ("2020-01-31", "2020-01-31T12:30", "2020-01-31T12:30:15", "31.01.2020", "2020-01-31 12:30", "2020"):
        try:
            is_taken = bool(NumberColumn.model_validate(column | {"lower": text}))
        except ValueError:
            is_taken = False
        assert bool(re.search(pattern, text)) == is_taken, text


def test_no_request_names_a_seed(document: dict[str, Any]) -> None:
    assert not [
        name
        for name, schema in document["components"]["schemas"].items()
        if any("seed" in field for field in schema.get("properties", ()))
    ]


def test_docs_are_one_page_with_one_script_and_nothing_from_elsewhere(
    shared: Service, document: dict[str, Any]
) -> None:
    response = shared.client.get("/docs")
    assert response.status_code == 200
    assert re.findall(r"<script[^>]*>", response.text) == ['<script src="docs/try.js" defer>']
    assert response.text.count(" src=") == 1
    policy = response.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "form-action 'none'"} <= set(policy)
    assert shared.client.get("/docs/try.js").headers["Content-Type"].startswith("text/javascript")
    assert not re.search(r"https?://|innerHTML|eval|Storage|cookie", shared.client.get("/docs/try.js").text)
    for path in document["paths"]:
        assert path in response.text
    headings, links = re.findall(r'<h3 id="([^"]+)"', response.text), re.findall(r'href="#([^"]+)"', response.text)
    assert len(headings) == len(set(headings))
    assert set(links) <= set(headings)
    commands = [unescape(each) for each in re.findall(r"<pre>(.*?)</pre>", response.text, re.DOTALL)]
    assert len(commands) == sum(map(len, document["paths"].values()))
    [command] = [each for each in commands if each.startswith('curl -X POST "$PURSE_URL/v1/tokens" ')]
    words = shlex.split(command.replace("$PURSE_TOKEN", shared.tokens["steward"]))
    headers = dict([words[words.index("-H") + 1].split(": ")])
    created = shared.client.post("/v1/tokens", json=json.loads(words[words.index("--json") + 1]), headers=headers)
    assert created.status_code == 201, created.text
    assert "`" not in re.sub(r"<textarea.*?</textarea>", "", response.text, flags=re.DOTALL)


def test_creations_state_a_location_and_temporary_refusals_state_a_delay(
    document: dict[str, Any],
) -> None:
    creations, retries = 0, 0
    for name, operation in _operations(document):
        for status, response in operation["responses"].items():
            headers = {field for field, node in response.get("headers", {}).items() if node["required"]}
            if status in ("201", "202"):
                assert "Location" in headers, name
                creations += 1
            if status in ("429", "503"):
                assert "Retry-After" in headers, (name, status)
                retries += 1
    assert (creations > 5, retries > 50) == (True, True)


# What changes with every request, or belongs to nobody else's cache: lists, states, and what is made by asking.
CHANGING = (
    r"/v1/(tokens|datasets|jobs|sessions|uploads|webhooks)$|/v1/(datasets|jobs|sessions|uploads|webhooks)/\{\w+\}$|"
    r"/twin$|/(events|head|ledger|grants|allotments|sample)$|/(grants|allotments)/|^/(health|metrics)"
)


def test_documents_that_stay_have_a_tag(document: dict[str, Any]) -> None:
    tagged = {name for name, operation in _operations(document) if "304" in operation["responses"]}
    assert tagged == {
        name for name, _ in _operations(document) if name.startswith("GET") and not re.search(CHANGING, name[4:])
    }
    for name in tagged:
        operation = document["paths"][name[4:]]["get"]
        assert "ETag" in operation["responses"]["200"]["headers"]


@pytest.mark.slow
def test_a_known_tag_is_answered_with_304(shared: Service) -> None:
    job = shared.done(JOB | {"dataset": shared.dataset()})["id"]
    for role, path in (
        ("analyst", f"/v1/jobs/{job}/model"),
        ("auditor", f"/v1/jobs/{job}/receipt"),
        (None, "/v1/keys"),
        (None, "/openapi.json"),
        (None, "/docs"),
    ):
        first = shared.call(role, "GET", path)
        assert first.status_code == 200
        again = shared.call(role, "GET", path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b""), path
        without_match = shared.call(role, "GET", path, headers={"If-None-Match": '"another"'})
        assert (without_match.status_code, without_match.content) == (200, first.content)
    tag = shared.call("analyst", "GET", f"/v1/jobs/{job}/model").headers["ETag"]
    assert shared.call(None, "GET", f"/v1/jobs/{job}/model", headers={"If-None-Match": tag}).status_code == 401


def test_every_field_is_described_in_sentences(document: dict[str, Any]) -> None:
    fields = [
        (f"{name}.{field}", node["description"])
        for name, schema in document["components"]["schemas"].items()
        for field, node in schema.get("properties", {}).items()
    ]
    assert len(fields) > 300
    assert [name for name, text in fields if not text.endswith((".", "?"))] == []
    assert [name for name, text in fields if len(text.split()) < 2] == []
    assert [name for name, text in fields if len(re.findall(r"[.?!] (?=[A-Z`])", text)) > 4] == [], "at most five"
