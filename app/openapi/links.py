"""Stable operation names, and links that pass an id from one operation to another."""

import re
from typing import Any

Schema = dict[str, Any]
_ARTICLES = ("a", "an", "the")
# Path parameters that an operation issues: its path, and the field of its response.
_ISSUED = {
    "token_id": ("/v1/tokens", "id"),
    "analyst": ("/v1/tokens", "name"),
    "dataset_id": ("/v1/datasets", "id"),
    "upload_id": ("/v1/uploads", "id"),
    "job_id": ("/v1/jobs", "id"),
    "session_id": ("/v1/datasets/{dataset_id}/sessions", "id"),
    "webhook_id": ("/v1/webhooks", "id"),
}


def operation_id(summary: str) -> str:
    """Return the operation's name, such as `read_dataset_budget` for the summary "Read a dataset's budget".

    Generated clients name their functions by it, so a change of a summary renames a function.
    """
    words = re.findall(r"[a-z]+", summary.lower().replace("'s ", " "))
    return "_".join(word for word in words if word not in _ARTICLES)


def connect(paths: Schema) -> None:
    """Add links from each operation that issues an id or a name to every operation that takes it."""
    for path, operations in paths.items():
        for parameter in re.findall(r"{(\w+)}", path):
            if parameter not in _ISSUED:
                continue
            issuer, field = _ISSUED[parameter]
            links = answer(paths[issuer]["post"]).setdefault("links", {})
            for operation in operations.values():
                name = operation["operationId"]
                links[f"{name}_{parameter}"] = {
                    "operationId": name,
                    "parameters": {parameter: f"$response.body#/{field}"},
                }


def answer(operation: Schema) -> Schema:
    """Return the successful response of an operation."""
    responses: dict[str, Schema] = operation["responses"]
    return next(response for status, response in responses.items() if str(status)[0] == "2")
