"""Forms made from the interface's own schemas: a schema and what was filled in give fields, and fields a document.

A field's name is its place in the document, `method.epochs`. What is left empty is left out, so that the interface's
own default holds; what cannot be read as the schema's type is passed on as it is, for the interface to refuse.
"""

import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Schema = Mapping[str, Any]
Kind = Literal["number", "integer", "text", "numbers", "lines", "flag", "choice", "choices", "union", "group", "list"]
_REF = "#/components/schemas/"
_DEEPEST, _MOST_ITEMS = 6, 1000
MOST_OPTIONS = 300  # of a field; a name out of more is typed, and several are typed one a line
_TAB = "\\t"  # as it is typed, where the key goes on to the next field
_LEFT_OUT = "If left out: "  # as descriptions tell a default that is an object
_NULL = re.compile(r"\b(if) null\b", re.IGNORECASE)  # what a document says where a form is left empty


@dataclass(frozen=True, slots=True)
class Field:
    """One field, or a group of them.

    Parameters
    ----------
    name : its place in the document
    kind : what is filled in; of a union the name of a member, whose own fields are `parts`; of a list a group for each
    hint : what it means
    required : whether the document lacks something without it
    value : what was filled in
    options : of a choice, of choices, of a union
    least, most : bounds of a number
    default : what holds if it is left empty
    parts : fields inside it
    """

    name: str
    kind: Kind
    hint: str = ""
    required: bool = False
    value: str = ""
    options: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    default: str = ""
    parts: tuple["Field", ...] = ()

    @property
    def label(self) -> str:
        """Its last name, in words."""
        return self.name.rpartition(".")[2].replace("_", " ")

    @property
    def input(self) -> str:
        """The name of its control; of a union that of the choice among members."""
        return f"{self.name}.name" if self.kind == "union" else self.name

    @property
    def chosen(self) -> tuple[str, ...]:
        """The choices that were made."""
        return tuple(self.value.split("\n")) if self.value else ()


@dataclass(frozen=True, slots=True)
class Forms:
    """Fields of the schemas of one OpenAPI document."""

    schemas: Mapping[str, Schema]

    def fields(
        self,
        schema: str,
        filled: Mapping[str, str],
        options: Mapping[str, Sequence[str]],
        without: Container[str] = (),
        prefix: str = "",
    ) -> list[Field]:
        """The fields of a schema.

        Parameters
        ----------
        filled : what was filled in, by the names of controls
        options : for a field of this name, what may be chosen though the schema takes any text; typed if there are
            more than `MOST_OPTIONS`
        without : fields that somebody else fills in
        prefix : before all names
        """
        found = self._of(self.schemas[schema], prefix, filled, options, _DEEPEST)
        return [field for field in found if field.name not in without]

    def _of(
        self, schema: Schema, prefix: str, filled: Mapping[str, str], options: Mapping[str, Sequence[str]], depth: int
    ) -> Iterator[Field]:
        required = schema.get("required", ())
        for name, node in schema.get("properties", {}).items():
            if "const" not in node:
                found = self._field(f"{prefix}{name}", node, name in required, filled, options, depth)
                if found is not None:
                    yield found

    def _field(
        self,
        name: str,
        node: Schema,
        is_required: bool,
        filled: Mapping[str, str],
        options: Mapping[str, Sequence[str]],
        depth: int,
    ) -> Field | None:
        kinds = [kind for kind in self._kinds(node) if kind.get("type") != "null"]
        hint, _, left_out = node.get("description", "").partition(_LEFT_OUT)
        common: dict[str, Any] = {"hint": _NULL.sub(r"\1 left empty", hint.strip()), "required": is_required}
        common["value"] = filled.get(name, "")
        if name in options and len(options[name]) <= MOST_OPTIONS:
            several = kinds[0].get("type") == "array"
            picked = [option for option in options[name] if f"{name}:{option}" in filled]
            value = "\n".join(picked) if several else common.pop("value")
            common |= {"value": value, "default": ("none" if "default" in node else "all") if several else ""}
            return Field(name, "choices" if several else "choice", **common, options=tuple(options[name]))
        if not depth:
            return None
        named = {_const(kind): kind for kind in kinds if _const(kind)}
        if named and len(named) == len(kinds):
            value = filled.get(f"{name}.name", "")
            parts = tuple(self._of(named[value], f"{name}.", filled, options, depth - 1)) if value in named else ()
            default = re.findall(r'"name": "(\w+)"', left_out)
            common |= {"value": value, "default": "".join(default)}
            return Field(name, "union", **common, options=tuple(named), parts=parts)
        [first, *_] = kinds
        items = list(self._kinds(first["items"])) if first.get("type") == "array" else []
        if [item.get("type") for item in items] == ["object"]:
            found = numbers(filled, name)[: first.get("maxItems", _MOST_ITEMS) + 1]  # one too many is told
            each = (f"{name}.{number}" for number in found)
            groups = (
                Field(at, "group", parts=tuple(self._of(items[0], f"{at}.", filled, options, depth - 1))) for at in each
            )
            return Field(name, "list", **common, parts=tuple(groups))
        if first.get("type") == "object":
            inner = tuple(self._of(first, f"{name}.", filled, options, depth - 1))
            return Field(name, "group", **common, parts=inner)
        return _plain(name, first, node, common)

    def _kinds(self, node: Schema) -> Iterator[Schema]:
        """What a value may be, references followed and unions laid out."""
        inside = node.get("anyOf") or node.get("oneOf")
        if inside:
            for member in inside:
                yield from self._kinds(member)
        elif "$ref" in node:
            yield from self._kinds(self.schemas[node["$ref"].removeprefix(_REF)])
        else:
            yield node


def document(fields: Sequence[Field]) -> dict[str, Any]:
    """What was filled in, as the schema has it."""
    found: dict[str, Any] = {}
    for field in fields:
        key = field.name.rpartition(".")[2]
        if field.kind == "group":
            inner = document(field.parts)
            if inner or field.required:
                found[key] = inner
        elif field.kind == "list" and (field.parts or field.required):
            found[key] = [document(group.parts) for group in field.parts]
        elif field.value and field.kind == "union":
            found[key] = {"name": field.value, **document(field.parts)}
        elif field.value:
            found[key] = _read(field)
    return found


def numbers(said: Mapping[str, str], place: str) -> list[int]:
    """The numbers of a list's members of which anything is filled in, in order."""
    found = (name.removeprefix(f"{place}.").partition(".") for name in said if name.startswith(f"{place}."))
    return sorted({int(number) for number, dot, _ in found if dot and number.isdecimal() and len(number) < 6})


def without(said: Mapping[str, str], place: str) -> dict[str, str]:
    """What is filled in elsewhere than in this group."""
    return {name: value for name, value in said.items() if not name.startswith(f"{place}.")}


def filled(found: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A document as somebody would have filled it in."""
    said: dict[str, str] = {}
    for key, value in found.items():
        name = f"{prefix}{key}"
        match value:
            case None:
                pass
            case dict():
                said |= filled(value, f"{name}.")
            case [dict(), *_]:
                said |= filled({str(i): part for i, part in enumerate(value)}, f"{name}.")
            case list():
                said |= {name: "\n".join(map(_told, value))} | {f"{name}:{part}": "on" for part in value}
            case _:
                said[name] = _told(value)
    return said


def _const(node: Schema) -> str:
    return str(node.get("properties", {}).get("name", {}).get("const", ""))


def _plain(name: str, kind: Schema, node: Schema, common: dict[str, Any]) -> Field | None:
    default = node.get("default", kind.get("default"))
    common |= {"least": kind.get("minimum", kind.get("exclusiveMinimum"))}
    common |= {"most": kind.get("maximum", kind.get("exclusiveMaximum"))}
    match kind:
        case {"enum": [*values]}:
            return Field(name, "choice", **common, options=tuple(map(str, values)), default=_told(default))
        case {"type": "boolean"}:
            return Field(name, "flag", **common, options=("true", "false"), default=_told(default))
        case {"type": "number" | "integer" | "string" as type_}:
            of: dict[str, Kind] = {"number": "number", "integer": "integer", "string": "text"}
            return Field(name, of[type_], **common, default=_told(default))
        case {"type": "array", "items": {"type": "number"}}:
            return Field(name, "numbers", **common, default=_told(default))
        case {"type": "array", "items": {"type": "string"}}:
            return Field(name, "lines", **common)
        case _:
            return None


def _told(default: Any) -> str:
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case list():
            return ", ".join(map(str, default))
        case _:
            return _TAB if default == "\t" else str(default)


def _read(field: Field) -> Any:
    match field.kind:
        case "number" | "integer":
            return _number(field.value)
        case "numbers":
            return [_number(part.strip()) for part in field.value.split(",")]
        case "flag":
            return {"true": True, "false": False}.get(field.value, field.value)
        case "choices":
            return list(field.chosen)
        case "lines":
            return [line.strip() for line in field.value.splitlines() if line.strip()]
        case _:
            return "\t" if field.value == _TAB else field.value


def _number(text: str) -> int | float | str:
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    return int(text) if text.strip().lstrip("+-").isdecimal() else value
