"""The complete OpenAPI document, with the bodies that our own code reads and every error of each route."""

import json
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.http.body import JsonBody
from app.http.codes import CODES
from app.http.dependencies import locating
from app.http.errors import ApiError, responses
from app.http.rates import UNLIMITED
from app.http.routing import dependants, routes
from app.identity.dependencies import bearer
from app.openapi.descriptions import describe
from app.openapi.links import answer, connect, operation_id
from purse.wire.datasets import DatasetSpec
from purse.wire.problems import ProblemDetails

Schema = dict[str, Any]
_REF = "#/components/schemas/"
_INPUT_SUFFIX = "Input"  # of the name of a schema whose input form differs from its output form
_LOCATION = {"schema": {"type": "string"}, "required": True, "description": "Address of the created resource."}
_CHANGES = ("PUT", "PATCH", "DELETE")  # methods that always write
_FORM_FIELDS = (DatasetSpec,)  # JSON inside a multipart form: a route refers to these by name


def document(app: FastAPI, routers: Sequence[APIRouter], root_path: str = "") -> Schema:
    """Return the document, with `root_path` as the server's address."""
    schema: Schema = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        servers=[{"url": root_path}] if root_path else None,
    )
    ours = [
        (route, [dependant.call for dependant in dependants(route)])
        for route in routes(routers)
        if route.include_in_schema
    ]
    bodies: set[type[BaseModel]] = {call.model for _, calls in ours for call in calls if isinstance(call, JsonBody)}
    bodies.update(_FORM_FIELDS)
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    named = _add(schemas, [(ProblemDetails, "serialization"), *((model, "validation") for model in bodies)])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    describe(schemas)
    components["examples"] = {code: _example(code) for code in sorted(CODES)}
    for route, calls in ours:
        for method in route.methods or ():
            operation = schema["paths"][route.path_format][method.lower()]
            operation["operationId"] = operation_id(operation["summary"])
            _complete(operation, calls, named, _implied(method, route, calls))
            _exemplify(operation)
    _stream(schema["paths"])
    connect(schema["paths"])
    return schema


def _implied(method: str, route: APIRoute, calls: list[Any]) -> list[str]:
    """Return the codes of the errors that follow from a route's method, path and dependencies."""
    codes = ["internal"]
    if route.path not in UNLIMITED:
        codes += ["too_many_requests", "overloaded"]
    if bearer in calls:
        codes += ["unauthenticated", "forbidden", "sign_on_unavailable", "database_unavailable"]
    if "{" in route.path:
        codes.append("not_found")
    if method in _CHANGES:
        codes.append("disk_full")
    if any(each.path_params or each.query_params or each.header_params for each in dependants(route)):
        codes.append("invalid_request")
    if any(isinstance(call, JsonBody) for call in calls):
        codes += ["invalid_request", "out_of_range", "too_large", "unsupported_media_type", "request_timeout"]
    return codes


def _complete(operation: Schema, calls: list[Any], named: dict[type[BaseModel], str], codes: list[str]) -> None:
    if f"{_REF}HTTPValidationError" in str(operation["responses"].get("422")):
        del operation["responses"]["422"]
    for body in (call for call in calls if isinstance(call, JsonBody)):
        content = {"application/json": {"schema": {"$ref": named[body.model]}}}
        operation["requestBody"] = {"required": True, "content": content}
    if locating in calls:
        answer(operation)["headers"] = {"Location": _LOCATION}
    for status, response in responses(*codes).items():
        _merge(operation["responses"].setdefault(str(status), response), response)
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _exemplify(operation: Schema) -> None:
    """Add the example of a request and its response, recorded by tests/support/examples.py."""
    examples = _examples().get(operation["operationId"], {})
    for part, node in (("request", operation.get("requestBody", {})), ("response", answer(operation))):
        for content in node.get("content", {}).values() if part in examples else ():
            content["example"] = examples[part]


@cache
def _examples() -> dict[str, Schema]:
    examples: dict[str, Schema] = json.loads((Path(__file__).parent / "examples.json").read_text("utf-8"))
    return examples


def _merge(response: Schema, addition: Schema) -> None:
    """Add the error codes of another response of the same status."""
    if response is addition:
        return
    [(media, content)] = addition["content"].items()
    examples = response["content"][media]["examples"]
    for code, example in content["examples"].items():
        if code not in examples:
            examples[code] = example
            response["description"] += f"\n- `{code}`: {CODES[code].title}"


def _example(code: str) -> Schema:
    details = ApiError(code).details().model_dump(exclude_none=True)
    return {"summary": CODES[code].title, "description": CODES[code].meaning, "value": details}


def _add(schemas: Schema, models: list[tuple[type[BaseModel], Any]]) -> dict[type[BaseModel], str]:
    """Add the schemas of models; return the reference of each. Client generators require one schema for each name.

    If a model accepts more forms than it returns (a bound as a date), its input has a schema of its own, such as
    NumberColumnInput.
    """
    mapping, definitions = models_json_schema(models, ref_template=f"{_REF}{{model}}")
    inputs = jsonable_encoder(definitions["$defs"], exclude_none=True)  # FastAPI leaves out null values too
    twice = {name for name, schema in inputs.items() if schemas.get(name, schema) != schema}
    for name, schema in _renamed(inputs, twice).items():
        if name in twice:
            name, schema["title"] = f"{name}{_INPUT_SUFFIX}", f"{name}{_INPUT_SUFFIX}"
        if schemas.setdefault(name, schema) != schema:
            raise ValueError(
                f"two schemas have the name {name}, and the document needs one for each name. Rename a model"
            )
    return {model: _renamed(mapping[model, mode]["$ref"], twice) for model, mode in models}


def _renamed(node: Any, twice: Collection[str]) -> Any:
    """Return the node with references to these schemas replaced by references to their input forms."""
    match node:
        case dict():
            return {key: _renamed(value, twice) for key, value in node.items()}
        case list():
            return [_renamed(value, twice) for value in node]
        case str() if node.startswith(_REF) and node.removeprefix(_REF) in twice:
            return f"{node}{_INPUT_SUFFIX}"
        case _:
            return node


def _stream(paths: Schema) -> None:
    """Remove the schema of event streams: OpenAPI 3.1 cannot describe events (`itemSchema` came with 3.2)."""
    for operations in paths.values():
        for operation in operations.values():
            for response in operation["responses"].values():
                if "text/event-stream" in response.get("content", {}):
                    response["content"] = {"text/event-stream": {"schema": {}}}
