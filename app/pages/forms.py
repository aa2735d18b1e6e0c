"""Forms made from the API's own schemas: a schema and the form's values become fields, and fields become a document.

A field's name is its path in the document, such as `method.epochs`. An empty field is left out of the document, so the
API's own default applies. Text that cannot be read as the schema's type is passed on unchanged, and the API rejects it.
"""

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

Schema = Mapping[str, Any]
Kind = Literal["number", "integer", "text", "numbers", "lines", "flag", "choice", "choices", "union", "group", "list"]
MAX_OPTIONS = 300  # of one field; if there are more names, they are typed, one per line
NO_HINTS: Mapping[str, str] = MappingProxyType({})
_REFERENCE_PREFIX = "#/components/schemas/"
_MAX_DEPTH, _MAX_ITEMS = 6, 1000
_TYPED_TAB = "\\t"  # a person cannot type a tab, because its key moves to the next field
_OBJECT_DEFAULT = "If left out: "  # introduces a default that is an object in a schema's description
_MEMBER = re.compile(r"^candidates\.\d+\.")  # a candidate has the defaults of a job
_SYMBOL = re.compile(r"(?:eta|[a-z])(?:_\d)?(?:[,.]| >)")  # a letter of a paper, which keeps its case
_WORDS_FOR_NULL = (("if null", "if left empty"), ("null means", "an empty field means"), ("If null", "If left empty"))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form, or a group of fields.

    Parameters
    ----------
    name : path in the document
    kind : kind of control; a union's members have their own fields in `parts`, a list has one group per member there
    hint : description
    required : whether the document is invalid without this field
    value : text that was filled in
    options : choices of a choice, of choices, of a union
    minimum, maximum : bounds of a number
    default : words for what applies if the field stays empty
    parts : fields inside this one
    """

    name: str
    kind: Kind
    hint: str = ""
    required: bool = False
    value: str = ""
    options: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    default: str = ""
    parts: tuple["Field", ...] = ()

    @property
    def label(self) -> str:
        """The last part of the name, in words."""
        return self.name.rpartition(".")[2].replace("_", " ")

    @property
    def input(self) -> str:
        """The name of the control; for a union, of the control that chooses a member."""
        return f"{self.name}.name" if self.kind == "union" else self.name

    @property
    def chosen(self) -> tuple[str, ...]:
        """The selected options."""
        return tuple(self.value.split("\n")) if self.value else ()


@dataclass(frozen=True, slots=True)
class Forms:
    """Fields of the schemas in one OpenAPI document."""

    schemas: Mapping[str, Schema]

    def fields(
        self,
        schema: str,
        values: Mapping[str, str],
        options: Mapping[str, Sequence[str]],
        without: Container[str] = (),
        prefix: str = "",
    ) -> list[Field]:
        """Return the fields of a schema.

        Parameters
        ----------
        values : what was filled in, by the names of controls
        options : choices for fields whose schema accepts any text; such a field is typed if there are more than
            `MAX_OPTIONS`
        without : names of fields to leave out
        prefix : prefix of all names
        """
        fields = self._properties(self.schemas[schema], prefix, values, options, _MAX_DEPTH)
        return [field for field in fields if field.name not in without]

    def _properties(
        self, schema: Schema, prefix: str, values: Mapping[str, str], options: Mapping[str, Sequence[str]], depth: int
    ) -> Iterator[Field]:
        required = schema.get("required", ())
        for name, node in schema.get("properties", {}).items():
            if "const" not in node:
                field = self._field(f"{prefix}{name}", node, name in required, values, options, depth)
                if field is not None:
                    yield field

    def _field(
        self,
        name: str,
        node: Schema,
        is_required: bool,
        values: Mapping[str, str],
        options: Mapping[str, Sequence[str]],
        depth: int,
    ) -> Field | None:
        kinds = [kind for kind in self._kinds(node) if kind.get("type") != "null"]
        hint, _, object_default = node.get("description", "").partition(_OBJECT_DEFAULT)
        common: dict[str, Any] = {"hint": _hint(hint), "required": is_required}
        common["value"] = values.get(name, "")
        if name in options and len(options[name]) <= MAX_OPTIONS:
            several = kinds[0].get("type") == "array"
            checked = [option for option in options[name] if f"{name}:{option}" in values]
            value = "\n".join(checked) if several else common.pop("value")
            common |= {"value": value, "default": ("none" if "default" in node else "all") if several else ""}
            return Field(name, "choices" if several else "choice", **common, options=tuple(options[name]))
        if not depth:
            return None
        members = {_const(kind): kind for kind in kinds if _const(kind)}
        if members and len(members) == len(kinds):
            value = values.get(f"{name}.name", "")
            member = members.get(value, {})
            parts = tuple(self._properties(member, f"{name}.", values, options, depth - 1))
            common |= {"value": value, "default": "".join(re.findall(r'"name": "(\w+)"', object_default))}
            return Field(name, "union", **common, options=tuple(members), parts=parts)
        [first, *_] = kinds
        items = list(self._kinds(first["items"])) if first.get("type") == "array" else []
        if [item.get("type") for item in items] == ["object"]:
            # one member more than the schema allows is kept, so that the API rejects it
            indices = member_indices(values, name)[: first.get("maxItems", _MAX_ITEMS) + 1]
            paths = (f"{name}.{index}" for index in indices)
            groups = (
                Field(path, "group", parts=tuple(self._properties(items[0], f"{path}.", values, options, depth - 1)))
                for path in paths
            )
            return Field(name, "list", **common, parts=tuple(groups))
        if first.get("type") == "object":
            parts = tuple(self._properties(first, f"{name}.", values, options, depth - 1))
            return Field(name, "group", **common, parts=parts)
        return _plain(name, first, node, common)

    def _kinds(self, node: Schema) -> Iterator[Schema]:
        """Yield the schemas of which a value satisfies one, with references resolved and unions flattened."""
        inside = node.get("anyOf") or node.get("oneOf")
        if inside:
            for member in inside:
                yield from self._kinds(member)
        elif "$ref" in node:
            yield from self._kinds(self.schemas[node["$ref"].removeprefix(_REFERENCE_PREFIX)])
        else:
            yield node


def document(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the document that the filled-in fields describe."""
    values: dict[str, Any] = {}
    for field in fields:
        key = field.name.rpartition(".")[2]
        if field.kind == "group":
            inner = document(field.parts)
            if inner or field.required:
                values[key] = inner
        elif field.kind == "list" and (field.parts or field.required):
            values[key] = [document(group.parts) for group in field.parts]
        elif field.value and field.kind == "union":
            values[key] = {"name": field.value, **document(field.parts)}
        elif field.value:
            values[key] = _read(field)
    return values


def missing(fields: Iterable[Field]) -> list[Field]:
    """Return the required fields that are still empty."""
    empty: list[Field] = []
    for field in fields:
        if field.kind == "list":
            empty += [inner for group in field.parts for inner in missing(group.parts)]
        elif field.kind == "group":
            if field.required or document(field.parts):
                empty += missing(field.parts)
        elif field.required and not field.value:
            empty.append(field)
        else:
            empty += missing(field.parts)
    return empty


def with_defaults(
    fields: Iterable[Field], defaults: Mapping[str, str], hints: Mapping[str, str] = NO_HINTS
) -> list[Field]:
    """Return the fields with words of a page.

    Parameters
    ----------
    defaults : words for what applies if a field stays empty, by the field's name
    hints : descriptions that replace those of the schema, by the field's name
    """
    return [
        replace(
            field,
            default=defaults.get(_MEMBER.sub("", field.name), field.default),
            hint=hints.get(field.name, field.hint),
            parts=tuple(with_defaults(field.parts, defaults, hints)),
        )
        for field in fields
    ]


def member_indices(values: Mapping[str, str], path: str) -> list[int]:
    """Return the indices of a list's members that have values, in order."""
    parts = (name.removeprefix(f"{path}.").partition(".") for name in values if name.startswith(f"{path}."))
    return sorted({int(index) for index, dot, _ in parts if dot and index.isdecimal() and len(index) < 6})


def without(values: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the values outside this group."""
    return {name: value for name, value in values.items() if not name.startswith(f"{path}.")}


def form_values(fields: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of the form that describes this document."""
    values: dict[str, str] = {}
    for key, value in fields.items():
        name = f"{prefix}{key}"
        match value:
            case None:
                pass
            case dict():
                values |= form_values(value, f"{name}.")
            case [dict(), *_]:
                values |= form_values({str(i): part for i, part in enumerate(value)}, f"{name}.")
            case list():
                values |= {name: "\n".join(map(_text, value))} | {f"{name}:{part}": "on" for part in value}
            case _:
                values[name] = _text(value)
    return values


def _hint(description: str) -> str:
    """Return a description of the API as a hint of a form, in which null is an empty field."""
    hint = description.strip()
    for null, empty in _WORDS_FOR_NULL:
        hint = hint.replace(null, empty)
    return hint if _SYMBOL.match(hint) else hint[:1].upper() + hint[1:]


def _const(node: Schema) -> str:
    return str(node.get("properties", {}).get("name", {}).get("const", ""))


def _plain(name: str, kind: Schema, node: Schema, common: dict[str, Any]) -> Field | None:
    default = node.get("default", kind.get("default"))
    common |= {"minimum": kind.get("minimum", kind.get("exclusiveMinimum"))}
    common |= {"maximum": kind.get("maximum", kind.get("exclusiveMaximum"))}
    match kind:
        case {"enum": [*values]}:
            return Field(name, "choice", **common, options=tuple(map(str, values)), default=_text(default))
        case {"const": value}:
            return Field(name, "choice", **common, options=(str(value),))
        case {"type": "boolean"}:
            return Field(name, "flag", **common, options=("true", "false"), default=_text(default))
        case {"type": "number" | "integer" | "string" as type_}:
            kinds: dict[str, Kind] = {"number": "number", "integer": "integer", "string": "text"}
            return Field(name, kinds[type_], **common, default=_text(default))
        case {"type": "array", "items": {"type": "number"}}:
            return Field(name, "numbers", **common, default=_text(default))
        case {"type": "array", "items": {"type": "string"}}:
            return Field(name, "lines", **common)
        case _:
            return None


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(str, value))
        case _:
            return _TYPED_TAB if value == "\t" else str(value)


def _read(field: Field) -> Any:
    match field.kind:
        case "number" | "integer":
            return read_number(field.value)
        case "numbers":
            return [read_number(part.strip()) for part in re.split("[,\n]", field.value)]
        case "flag":
            return {"true": True, "false": False}.get(field.value, field.value)
        case "choices":
            return list(field.chosen)
        case "lines":
            return [line.strip() for line in field.value.splitlines() if line.strip()]
        case _:
            return "\t" if field.value == _TYPED_TAB else field.value


def read_number(text: str) -> int | float | str:
    """Return the finite number that a text is, or the text itself."""
    try:
        value = float(text)
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    return int(text) if text.strip().lstrip("+-").isdecimal() else value
