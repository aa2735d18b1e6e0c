"""Descriptions of fields, copied from docstrings into the OpenAPI document.

The dataclasses of `solvers` do not depend on the web. Their docstrings describe their fields under "Parameters", as
`field : description`.
"""

import json
import re
from inspect import cleandoc
from typing import Any

from purse.wire.base import Page

Schema = dict[str, Any]
_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)
_DETAILS = re.compile(r"^(?:Parameters$|Precondition|Proofs?:|References?:|Deviations?:)", re.MULTILINE)
_FIELD = re.compile(r"^(\w+(?:, \w+)*) : (.*(?:\n[ \t]+.*)*)", re.MULTILINE)


def describe(schemas: dict[str, Schema]) -> None:
    """Add missing descriptions, and move defaults that are objects there, because client generators reject them.

    If a docstring contains mathematics, the document has only its summary. The documentation of methods has the rest.
    """
    for name, schema in schemas.items():
        if name.startswith("Page_"):
            schema.setdefault("description", cleandoc(Page.__doc__ or ""))
        settings = schemas.get(name.removesuffix("Run"), schema)  # most of a run's fields are its method's
        described = parameters(settings.get("description", "")) | parameters(schema.get("description", ""))
        for field, node in schema.get("properties", {}).items():
            if field in described:
                node.setdefault("description", described[field])
            elif "const" in node:
                node.setdefault("description", f"Must be `{node['const']}`.")
            if node.get("description"):
                node["description"] = sentence(" ".join(node["description"].split()))
            if isinstance(node.get("default"), dict):
                node["description"] += f" If left out: `{json.dumps(node.pop('default'))}`."
    for schema in schemas.values():
        if _DETAILS.search(schema.get("description", "")):
            schema["description"] = schema["description"].partition("\n\n")[0]


def sentence(text: str) -> str:
    """Return the text with a full stop, which lists in docstrings leave out."""
    return text if text.endswith((".", ":", "?")) else f"{text}."


def parameters(docstring: str) -> dict[str, str]:
    """Return the descriptions of fields under "Parameters" in a docstring."""
    section = _SECTION.search(docstring)
    if section is None:
        return {}
    fields = _FIELD.findall(section.group(1))
    return {name: " ".join(text.split()) for names, text in fields for name in names.split(", ")}
