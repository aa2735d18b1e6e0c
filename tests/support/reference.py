"""The reference from code: what the command line, the HTTP interface and the packages say of themselves, as pages."""

import inspect
import re
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from app.cli.commands import EVERY, program
from app.main import create_app
from app.settings import Settings

PACKAGES = {
    "purse": "The package that users import, with the client, receipts and estimators.",
    "purse.estimators": "Estimators for data on your own machine, with the interface of scikit-learn.",
    "accounting": "Privacy arithmetic without data.",
    "solvers": "Training and statistics on NumPy arrays.",
    "solvers.methods": "All methods. Each has a page under Methods.",
    "solvers.losses": "All losses.",
    "solvers.regularizers": "All regularizers.",
    "solvers.domains": "All domains.",
}


_LINE = 90  # characters of a signature that fit on a line of the site
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])|(?<=\()self(?:, /)?(?:, )?")
_ENTRIES = re.compile(r"\n(?! )")  # each line of a section that is not indented
_SPECIAL = re.compile(r"[\\*_\[]")
_PARAMETER = re.compile(r", (?![^\[(]*[\])])")


def pages() -> dict[str, str]:
    """Each page by its name."""
    return {"commands": "\n".join(commands()), "http": "\n".join(http()), "python": "\n".join(python())}


def commands() -> Iterator[str]:
    """Each command's help."""
    yield "# Every command\n"

    def help_texts(name: str, command: Any) -> Iterator[str]:
        yield f"## `{name}`\n\n````text\n{command.get_help(typer.Context(command, info_name=name))}\n````\n"
        for sub, subcommand in getattr(command, "commands", {}).items():
            yield from help_texts(f"{name} {sub}", subcommand)

    for name, command in typer.main.get_command(program(EVERY)).commands.items():  # type: ignore[attr-defined]
        yield from help_texts(f"purse {name}", command)


def http() -> Iterator[str]:
    """Each operation, and each body's fields, of the OpenAPI document."""
    with tempfile.TemporaryDirectory() as home:
        document = create_app(Settings(home=Path(home))).openapi()
    yield "# Every operation and every field\n\nThe OpenAPI document, `/openapi.json` of a running server, as a page.\n"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"## {method.upper()} {path}\n"
            yield from _operation(operation)
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"## {name}\n\n{_cell(schema.get('description', ''))}\n"
        needed = schema.get("required", ())
        yield from _table([_field(key, value, key in needed) for key, value in schema.get("properties", {}).items()])


def _operation(operation: dict[str, Any]) -> Iterator[str]:
    yield _cell(operation.get("description", operation["summary"])) + "\n"
    parameters = operation.get("parameters", ())
    yield from _table([_field(each["name"], each["schema"], each.get("required", False)) for each in parameters])
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body, {kind}: {_type(body['schema'])}\n"
    answers = operation["responses"]
    good = ", ".join(f"{code} {_type(_schema(answers[code]))}".strip() for code in answers if code < "4")
    yield f"Answers {good}; refuses with {', '.join(code for code in answers if code >= '4')}.\n"


def python() -> Iterator[str]:
    """Each public name's signature and promise."""
    yield "# Every public name\n"
    for package, summary in PACKAGES.items():
        yield f"## {package}\n\n{summary}\n"
        module = import_module(package)
        for name in sorted(n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")):
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and not value.__module__.startswith("typing"):
                yield f"### `{package}.{name}`\n\n````python\n{name}{_signature(value)}\n````\n"
                yield from map(_described, re.split(r"\n\s*\n", inspect.getdoc(value) or ""))
                yield "".join(_methods(value))


def _described(block: str) -> str:
    """Return a paragraph of a docstring as Markdown. Entries of a section are a list, and a formula stays as it is."""
    lines = block.splitlines()
    if len(lines) > 2 and set(lines[1]) == {"-"}:
        return "\n".join([f"**{lines[0]}**\n", *map(_entry, _ENTRIES.split("\n".join(lines[2:]))), ""])
    if any(line.startswith(" ") for line in lines):
        return f"````text\n{block}\n````\n"
    return _prose(block) + "\n"


def _entry(text: str) -> str:
    """Return an entry of a section as an item of a list: a name before its description, or a description alone."""
    name, separator, description = text.partition(" : ")
    if not separator:
        name, separator, description = text.partition("\n")
    return f"- `{name}`: {_prose(description)}" if separator else f"- {_prose(text)}"


def _prose(text: str) -> str:
    """Return text as one line of Markdown. Characters with a meaning there are escaped, except in code."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [_SPECIAL.sub(r"\\\g<0>", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _methods(value: Any) -> Iterator[str]:
    for name, method in vars(value).items() if inspect.isclass(value) else ():
        if inspect.isfunction(method) and not name.startswith("_"):
            promise = (inspect.getdoc(method) or "").partition("\n\n")[0]
            yield f"#### `{name}`\n\n````python\n{name}{_signature(method)}\n````\n\n{_cell(promise)}\n\n"


def _signature(value: Any) -> str:
    """Return the signature without the modules of types; a long one has a line for each parameter."""
    try:
        signature = _MODULE.sub("", str(inspect.signature(value)))
    except ValueError:
        return "(...)"
    if len(signature) <= _LINE:
        return signature
    parameters, end = signature[1:].rsplit(")", 1)
    return "(\n    " + ",\n    ".join(_PARAMETER.split(parameters)) + f",\n){end}"


def _schema(answer: dict[str, Any]) -> dict[str, Any]:
    return next((body.get("schema", {}) for body in answer.get("content", {}).values()), {})


def _field(name: str, schema: dict[str, Any], needed: bool) -> str:
    return f"| `{name}` | {_type(schema)} | {'yes' if needed else ''} | {_cell(schema.get('description', ''))} |"


def _table(rows: list[str]) -> Iterator[str]:
    if rows:
        yield "\n".join(["| name | type | needed | |", "| --- | --- | --- | --- |", *rows, ""])


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    choices = [part for key in ("anyOf", "oneOf") for part in schema.get(key, ())]
    if choices:
        return " or ".join(dict.fromkeys(_type(part) for part in choices))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    return str(schema.get("type", ""))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
