"""The OpenAPI document as one HTML page, on which a script of our own can send requests."""

import json
import re
from html import escape
from typing import Any

Node = dict[str, Any]
_CODE = re.compile("`([^`]+)`")
_LISTED = re.compile(r"(?:^|\n)- ")
_NO_ID = re.compile(r"[^a-z0-9]+")
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #ccc}h3{margin:2rem 0 .3rem}code{background:#f3f3f3;padding:.1em .3em}
table{border-collapse:collapse;margin:.5rem 0}td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0}
b.m{display:inline-block;min-width:4.5rem}small{color:#595959}code,pre{overflow-wrap:anywhere}
td{overflow-wrap:break-word}th{font-weight:400}th code{overflow-wrap:normal}td:nth-child(2){min-width:9rem}
nav{columns:18rem}nav li{break-inside:avoid}nav ul{padding-left:1rem}summary{cursor:pointer}
@media(max-width:40rem){tr{display:grid;padding:.4rem 0}td:nth-child(2){min-width:0}}
h1,h3,summary,output{overflow-wrap:anywhere}label{display:block;margin:.3rem 0}a{color:#0645ad}
input,textarea{max-width:100%;box-sizing:border-box}textarea{width:100%;min-height:8rem}
textarea,output{font:14px/1.4 monospace}output{display:block;white-space:pre-wrap}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#2a2a2a}
small{color:#aaa}a{color:#8ab4f8}}
"""


def page(document: Node) -> str:
    """Return the HTML of the document: routes by tag, then schemas."""
    info = document["info"]
    tags: dict[str, list[tuple[str, str, Node]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            tags.setdefault(tag, []).append((method, path, operation))
    routes = "".join(
        f"<h2>{escape(tag)}</h2>{''.join(_operation(*route) for route in of_tag)}" for tag, of_tag in tags.items()
    )
    contents = "".join(
        f"<li>{escape(tag)}<ul>{''.join(_link(*route) for route in of_tag)}</ul></li>" for tag, of_tag in tags.items()
    )
    schemas = "".join(_schema(name, node) for name, node in sorted(document["components"]["schemas"].items()))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(info["title"])}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<script src="docs/try.js" defer></script>'
        f"<main><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
        f'<p>{_prose(info.get("description", ""))}</p><p>For programs: <a href="openapi.json">openapi.json</a></p>'
        '<p data-try hidden><label>Token <input id="token" type="password" autocomplete="off" size="60"></label>'
        "This page keeps the token until it is closed. Requests below are sent to this service and take effect.</p>"
        f'<nav aria-label="Routes"><ul>{contents}</ul></nav>'
        f"{routes}<h2>Schemas</h2>{schemas}</main></html>"
    )


def _id(method: str, path: str) -> str:
    """Return the id of a route's heading."""
    return _NO_ID.sub("-", f"{method} {path}".lower()).strip("-")


def _link(method: str, path: str, operation: Node) -> str:
    """Return the entry of a route in the contents."""
    return f'<li><a href="#{_id(method, path)}">{escape(operation.get("summary", path))}</a></li>'


def _prose(text: str | None) -> str:
    """Return a description as HTML, with code between backticks and each item of a list on a line of its own."""
    html = _CODE.sub(r"<code>\1</code>", escape(text or ""))
    return _LISTED.sub("<br>• ", html).removeprefix("<br>")


def _operation(method: str, path: str, operation: Node) -> str:
    rows = [
        _row(parameter["name"], _kind(parameter.get("schema", {})), parameter.get("description", ""))
        for parameter in operation.get("parameters", ())
    ]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        rows.append(_row("body", _kind(content.get("schema", {})), media))
    errors: list[str] = []
    for status, response in operation["responses"].items():
        kinds = {_kind(content.get("schema", {})) for content in response.get("content", {}).values()}
        row = _row(status, " ".join(sorted(kinds)), response.get("description", ""))
        (errors if status >= "400" else rows).append(row)
    folded = f"<details><summary>Errors</summary><table>{''.join(errors)}</table></details>" if errors else ""
    return (
        f'<h3 id="{_id(method, path)}"><b class="m">{method.upper()}</b> <code>{escape(path)}</code></h3>'
        f"<p>{escape(operation.get('summary', ''))}. {_prose(operation.get('description', ''))}</p>"
        f"<table>{''.join(rows)}</table>{folded}{_form(method, path, operation)}"
    )


def _form(method: str, path: str, operation: Node) -> str:
    """Return the form of a request, which the script shows; empty for event streams."""
    if any("text/event-stream" in response.get("content", {}) for response in operation["responses"].values()):
        return ""
    fields = [
        f'<label>{escape(p["name"])} <input name="{escape(p["name"])}" data-in="{p["in"]}"'
        f"{' required' if p.get('required') else ''}></label>"
        for p in operation.get("parameters", ())
    ]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        example = content.get("example")
        if media.startswith("multipart/"):
            fields.append(_text("spec", example["spec"]))
        elif media == "application/json":
            fields.append(_text("body", example))
        if media != "application/json":
            fields.append('<label>file <input name="file" type="file"></label>')
    attributes = f'data-method="{method.upper()}" data-path="{escape(path)}"'
    return (
        f"<details data-try hidden><summary>Try {method.upper()} {escape(path)}</summary><form {attributes}>"
        f'{"".join(fields)}<button>Send</button><output aria-live="polite"></output></form></details>'
    )


def _text(name: str, example: Any) -> str:
    written = json.dumps(example, indent=2, ensure_ascii=False)
    return f'<label>{name} <textarea name="{name}" spellcheck="false">{escape(written)}</textarea></label>'


def _schema(name: str, node: Node) -> str:
    required = node.get("required", ())
    rows = [
        _row(
            field, _kind(schema) + ("" if field in required else " <small>optional</small>"), schema.get("description")
        )
        for field, schema in node.get("properties", {}).items()
    ]
    text = _prose(node.get("description", "")).replace("\n", "<br>")
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{text}</p><table>{"".join(rows)}</table>'


def _kind(schema: Node) -> str:
    """Return a short description of a schema, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f'<a href="#{name}">{name}</a>'
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(_kind(member) for member in schema[union])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum") or [schema["const"]]
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))


def _row(name: str, kind: str, text: str | None) -> str:
    return f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{kind}</td><td>{_prose(text)}</td></tr>'
