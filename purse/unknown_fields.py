"""Messages about fields of a document that its schema does not have.

A message repeats the name of the unknown field, shortened and escaped, and lists the schema's own names. It never
repeats a value.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, get_args

from pydantic import BaseModel, RootModel, Tag

UNKNOWN_FIELD_TYPES = frozenset({"extra_forbidden", "unexpected_keyword_argument", "no_such_attribute"})
"""Pydantic's types of error whose `loc` ends with the name of the unknown field."""

MAX_SHOWN_CHARACTERS = 64
_DEFINITIONS = "#/$defs/"


def shown(name: str) -> str:
    """Return a caller's field name with control and invisible characters escaped, at most 64 characters of it."""
    escaped = "".join(
        character if character.isprintable() and character not in "`\\" else ascii(character)[1:-1]
        for character in name[: MAX_SHOWN_CHARACTERS + 1]
    ).replace("`", r"\x60")
    return escaped if len(escaped) <= MAX_SHOWN_CHARACTERS else f"{escaped[: MAX_SHOWN_CHARACTERS - 3]}..."


def unknown(name: str, known_names: Collection[str], kind: str = "field", where: str = "") -> str:
    """Return the message about an unknown name: what is wrong, which names are known, and which one was probably meant.

    Parameters
    ----------
    name : the caller's
    known_names : names that the schema has there
    kind : "field", "query parameter" or "part"
    where : the object that holds it, such as "in the request body", if the message needs to say so
    """
    wrong = " ".join(filter(None, (f"Unknown {kind} `{shown(name)}`", where)))
    if not known_names:
        return f"{wrong}."
    similar = get_close_matches(name[:MAX_SHOWN_CHARACTERS], known_names, 1)
    suggestion = f" Did you mean `{similar[0]}`?" if similar else ""
    return f"{wrong}. Known {kind}s: {', '.join(known_names)}.{suggestion}"


def unknown_field(model: type[BaseModel] | None, path: Sequence[int | str], root: str | None = None) -> str:
    """Return the message about an unknown field in a document of a model.

    Parameters
    ----------
    model : that refused the document; None if it is not known
    path : pydantic's `loc`, which begins with the member's tag if the model is a union; its last part is the field
    root : what the document is; "body" for the body of a request
    """
    if model is not None and issubclass(model, RootModel) and len(path) > 1:
        model, path = _member(model, str(path[0])), path[1:]
    *parents, name = path
    names = known_fields(model, parents) if model is not None else ()
    return unknown(str(name), names, where="in the request body" if root == "body" and not parents else "")


def known_fields(model: type[BaseModel], parents: Sequence[int | str]) -> list[str]:
    """Return the names of the fields that an object inside a model's document may have; empty if it is not found.

    Parameters
    ----------
    parents : pydantic's `loc` of the object: fields, positions in lists, and names of the members of unions
    """
    schema = _schema(model)
    nodes: list[Mapping[str, Any]] = [schema]
    for part in parents:
        nodes = [inner for node in nodes for inner in _inside(schema, node, part)]
    return list(dict.fromkeys(name for node in nodes for name in _fields(schema, node)))


@lru_cache(maxsize=64)
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    return model.model_json_schema()


def _member(model: type[RootModel[Any]], tag: str) -> type[BaseModel]:
    """Return the member of a union with this tag, or the union itself if there is none."""
    for annotated in get_args(model.model_fields["root"].annotation):
        member, *metadata = get_args(annotated) or (annotated,)
        if Tag(tag) in metadata:
            tagged: type[BaseModel] = member
            return tagged
    return model


def _objects(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that a node refers to, with the members of unions one by one."""
    if "$ref" in node:
        yield from _objects(schema, schema["$defs"][node["$ref"].removeprefix(_DEFINITIONS)])
        return
    members = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
    if not members or "properties" in node:
        yield node
    if "discriminator" not in node:
        for member in members:
            yield from _objects(schema, member)
    elif members:
        yield node


def _inside(schema: Mapping[str, Any], node: Mapping[str, Any], part: int | str) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes that a part of a path leads to: a field, a position in a list, or a member of a union."""
    for candidate in _objects(schema, node):
        reference = candidate.get("discriminator", {}).get("mapping", {}).get(part)
        if reference is not None:
            yield {"$ref": reference}
        elif isinstance(part, int) and isinstance(candidate.get("items"), Mapping):
            yield candidate["items"]
        elif part in candidate.get("properties", {}):
            yield candidate["properties"][part]
        elif part == candidate.get("title"):
            yield candidate


def _fields(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[str]:
    for candidate in _objects(schema, node):
        yield from candidate.get("properties", ())
