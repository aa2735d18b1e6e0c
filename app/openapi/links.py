"""What leads from one operation to the next: names that stay, and links that carry an id."""

import re
from typing import Any

Schema = dict[str, Any]
# Path parameters that an operation hands out: of which one, and where in its answer.
_ISSUED = {
    "token_id": ("/v1/tokens", "id"),
    "analyst": ("/v1/tokens", "name"),
    "dataset_id": ("/v1/datasets", "id"),
    "upload_id": ("/v1/uploads", "id"),
    "job_id": ("/v1/jobs", "id"),
    "webhook_id": ("/v1/webhooks", "id"),
}


def operation_id(method: str, path: str) -> str:
    """`get_dataset_budget` of GET /v1/datasets/{dataset_id}/budget: a function of what the contract fixes."""
    one = re.sub(r"s/{\w+}", "", path.removeprefix("/v1"))
    return f"{method}{re.sub(r'[^a-z]+', '_', one)}"


def connect(paths: Schema) -> None:
    """Adds links from what hands out an id, or a name, to every operation that takes it."""
    for path, operations in paths.items():
        for taken in re.findall(r"{(\w+)}", path):
            if taken not in _ISSUED:
                continue
            maker, place = _ISSUED[taken]
            links = answer(paths[maker]["post"]).setdefault("links", {})
            for operation in operations.values():
                name = operation["operationId"]
                links[f"{name}_{taken}"] = {"operationId": name, "parameters": {taken: f"$response.body#/{place}"}}


def answer(operation: Schema) -> Schema:
    """The response to a request that went well."""
    found: Schema = next(response for status, response in operation["responses"].items() if str(status)[0] == "2")
    return found
