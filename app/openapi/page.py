"""The OpenAPI document as one HTML page, on which a script of our own can send requests."""

import json
import re
import shlex
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
        "curl": _curl(method, path, operation),
        "is_stream": any("text/event-stream" in content for content in contents),
    }


def _curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return a command that sends the request with the example body. Required parameters are words in capitals."""
    required = [each for each in operation.get("parameters", ()) if each["required"]]
    values = {each["name"]: each["name"].replace("-", "_").upper() for each in required}
    query = "&".join(f"{each['name']}={values[each['name']]}" for each in required if each["in"] == "query")
    parts = [f'curl -X {method} "$PURSE_URL{path.format(**values)}{query and f"?{query}"}"']
    if "security" in operation:
        parts.append('-H "Authorization: Bearer $PURSE_TOKEN"')
    parts += [f'-H "{each["name"]}: {values[each["name"]]}"' for each in required if each["in"] == "header"]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        if media == "application/json":
            parts.append(f"--json {shlex.quote(_indented(content['example']))}")
        elif media.startswith("multipart/"):
            parts.append("-F spec=@spec.json -F file=@data.csv")
        else:
            parts.append(f'-H "Content-Type: {media}" --data-binary @data.csv')
    return " \\\n  ".join(parts)


def _prose(text: str | None) -> str:
    """Return a description as HTML, with code between backticks and each item of a list on a line of its own."""
    html = _CODE.sub(r"<code>\1</code>", escape(text or ""))
    return _LISTED.sub("<br>• ", html).removeprefix("<br>")


def _indented(example: Any) -> str:
    return json.dumps(example, indent=2, ensure_ascii=False)
