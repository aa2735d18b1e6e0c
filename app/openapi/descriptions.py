"""Descriptions that a docstring already holds, put where the OpenAPI document wants them.

The dataclasses of `solvers` know nothing of the web: their fields are described in their docstrings, under
"Parameters", as `field : description`.
"""

import json
import re
from inspect import cleandoc
from typing import Any

from purse.wire.base import Page

Schema = dict[str, Any]
_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(\w+(?:, \w+)*) : (.*(?:\n[ \t]+.*)*)", re.MULTILINE)


def describe(schemas: dict[str, Schema]) -> None:
    """Fills in what is missing, and tells in words the defaults that are objects: generators of clients take none."""
    for name, schema in schemas.items():
        if name.startswith("Page_"):
            schema.setdefault("description", cleandoc(Page.__doc__ or ""))
        settings = schemas.get(name.removesuffix("Run"), schema)  # most of a run's fields are its method's
        known = parameters(settings.get("description", "")) | parameters(schema.get("description", ""))
        for field, node in schema.get("properties", {}).items():
            if field in known:
                node.setdefault("description", known[field])
            elif "const" in node:
                node.setdefault("description", f"{node['const']}, the name that chooses this one.")
            if node.get("description"):
                node["description"] = sentence(node["description"])
            if isinstance(node.get("default"), dict):
                node["description"] += f" If left out: `{json.dumps(node.pop('default'))}`."


def sentence(text: str) -> str:
    """With a full stop where there is none; a docstring's list does without."""
    return text if text.endswith((".", ":", "?")) else f"{text}."


def parameters(docstring: str) -> dict[str, str]:
    """The fields that a docstring describes under "Parameters"."""
    section = _SECTION.search(docstring)
    if section is None:
        return {}
    found = _FIELD.findall(section.group(1))
    return {name: " ".join(text.split()) for names, text in found for name in names.split(", ")}
