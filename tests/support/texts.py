"""Texts of the product that people read outside the documentation: help, errors, OpenAPI descriptions and pages.

python -m tests.support.texts          # a line per kind
python -m tests.support.texts errors   # and the sentences to rewrite
"""

import ast
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import typer.main

from app.cli.commands import EVERY, program
from app.http.codes import CODES
from app.main import create_app
from app.settings import Settings
from tests.support import prose
from tests.support.prose import Prose

ROOT = Path(__file__).parents[2]
_ERROR_SOURCES = ("accounting", "app", "purse", "solvers")
_CODE = "`code`"
_INLINE_CODE = re.compile(r"`[^`]*`")
_LABEL = re.compile(r"^(?:[-*] )?(?:query )?[\w`.]+: |\bDefault: ")  # the field or term that the rest explains
_TEMPLATE_CODE = re.compile(r"{#.*?#}|{%.*?%}", re.DOTALL)
_TEMPLATE_VALUE = re.compile(r"{{.*?}}", re.DOTALL)
_INLINE_TAGS = frozenset(("a", "abbr", "em", "small", "span", "strong", "time"))
_HIDDEN_TAGS = frozenset(("pre", "script", "style"))


def of_help() -> Prose:
    """Return the figures of the help of every command, without examples."""
    return _of(dict.fromkeys(text for command in _commands(_program()) for text in _help(command)))


def of_errors() -> Prose:
    """Return the figures of the error codes and of every message that is raised."""
    codes = [text for code in CODES.values() for text in (f"{code.title}.", code.meaning)]
    files = (file for folder in _ERROR_SOURCES for file in sorted((ROOT / folder).rglob("*.py")))
    return _of([*codes, *(text for file in files for text in _raised(ast.parse(file.read_text("utf-8"))))])


def of_openapi() -> Prose:
    """Return the figures of all summaries and descriptions of the OpenAPI document."""
    with tempfile.TemporaryDirectory() as home:
        document = create_app(Settings(home=Path(home))).openapi()
    return _of(dict.fromkeys(_described(document)))


def of_pages() -> Prose:
    """Return the figures of the texts in the templates of the pages."""
    templates = sorted((ROOT / "app/pages/templates").glob("*.html"))
    return _of(text for template in templates for text in _visible(template.read_text("utf-8")))


def _of(texts: Iterable[str]) -> Prose:
    """Return the figures of the texts that are sentences; shorter ones are labels."""
    plain = (_LABEL.sub("", _INLINE_CODE.sub(_CODE, text).strip()) for text in texts)
    return prose.of_texts(text for text in plain if len(text.split()) >= prose.SHORTEST_CELL_WORDS)


def _program() -> Any:
    return typer.main.get_command(program(EVERY))


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        if not inner.hidden:
            yield from _commands(inner)


def _help(command: Any) -> Iterator[str]:
    yield from (command.help or "").partition("\b\nExample")[0].split("\n\n")
    yield from (str(parameter.help) for parameter in command.params if getattr(parameter, "help", None))


def _raised(tree: ast.AST) -> Iterator[str]:
    """Yield the message of each `raise` with a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in (*node.exc.args, *(keyword.value for keyword in node.exc.keywords)):
                text = _text(argument)
                if text is not None:
                    yield text


def _text(node: ast.expr) -> str | None:
    """Return a string constant or an f-string, whose values are code; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else _CODE for part in node.values)
    return None


def _described(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("description", "summary") and isinstance(value, str):
                yield from re.split(r"\n\n|\n(?=- )", value)
            elif name not in ("example", "examples"):
                yield from _described(value)
    elif isinstance(node, list):
        for value in node:
            yield from _described(value)


def _visible(template: str) -> Iterator[str]:
    reader = _Reader()
    reader.feed(_TEMPLATE_VALUE.sub(_CODE, _TEMPLATE_CODE.sub(" ", template)))
    reader.close()
    yield from reader.texts


class _Reader(HTMLParser):
    """The texts of the blocks of a page, with inline code in backticks."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = [""]
        self._is_hidden = False

    def handle_starttag(self, tag: str, _attributes: Any) -> None:
        """Begin a text with each block; scripts and code blocks are not read."""
        self._is_hidden |= tag in _HIDDEN_TAGS
        self._turn(tag)

    def handle_endtag(self, tag: str) -> None:
        """End the text with its block."""
        self._is_hidden &= tag not in _HIDDEN_TAGS
        self._turn(tag)

    def handle_data(self, data: str) -> None:
        """Add to the text of the block."""
        self.texts[-1] += "" if self._is_hidden else data

    def _turn(self, tag: str) -> None:
        if tag == "code":
            self.texts[-1] += "`"
        elif tag not in _INLINE_TAGS:
            self.texts.append("")


KINDS = {"help": of_help, "errors": of_errors, "openapi": of_openapi, "pages": of_pages}


def main(kinds: Sequence[str]) -> None:
    """Print the figures of each kind; of a single one, also the sentences to rewrite."""
    for kind in kinds or KINDS:
        faults = KINDS[kind]()
        print(f"{kind:10s} {faults}")
        if len(kinds) == 1:
            prose.print_faults(faults)


if __name__ == "__main__":
    main(sys.argv[1:])
