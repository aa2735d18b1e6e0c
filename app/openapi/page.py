"""The OpenAPI document as one HTML page, on which a script of our own can send requests."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

_CODE = re.compile("`([^`]+)`")
_LISTED = re.compile(r"(?:^|\n)- ")
_NO_ID = re.compile(r"[^a-z0-9]+")


def page(document: dict[str, Any]) -> str:
    """Return the HTML of the document: routes by tag, then schemas."""
    from jinja2 import Environment, FileSystemLoader  # late: a server is ready without it

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    templates.filters |= {"prose": _prose, "indented": _indented}
    tags: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tags.setdefault(operation["tags"][0], []).append(_route(method.upper(), path, operation))
    schemas = sorted(document["components"]["schemas"].items())
    return templates.get_template("page.html").render(info=document["info"], tags=tags.items(), schemas=schemas)


def _route(method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    contents = [response.get("content", {}) for response in operation["responses"].values()]
    return {
        "id": _NO_ID.sub("-", f"{method} {path}".lower()).strip("-"),
        "method": method,
        "path": path,
        "operation": operation,
        "is_stream": any("text/event-stream" in content for content in contents),
    }


def _prose(text: str | None) -> str:
    """Return a description as HTML, with code between backticks and each item of a list on a line of its own."""
    html = _CODE.sub(r"<code>\1</code>", escape(text or ""))
    return _LISTED.sub("<br>• ", html).removeprefix("<br>")


def _indented(example: Any) -> str:
    return json.dumps(example, indent=2, ensure_ascii=False)
