"""Imports inside functions: which of them load a library that their module does not load when it is imported.

Such an import keeps a library out of an installation that lacks it (the client's has none of the server's), or out of
a start that does not need it. Any other import belongs at the top of its module, unless a comment `# late:` beside an
import of the same function states another reason.
"""

import ast
import re
import sys
from collections.abc import Iterator

from tests.support.size import PRODUCT, Module, modules

_MARK = re.compile(r"# .*\blate\b")


def without_reason(folder: str) -> list[str]:
    """Return the functions of a folder whose imports neither load a further library nor state a reason."""
    sources = {_name(module): module for module in modules(*PRODUCT)}
    places = []
    for module in modules(folder):
        loaded = _libraries(_name(module), sources, set())
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            late = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
            further = {library for node in late for library in _of_import(node, sources, set())} - loaded
            lines = module.text.splitlines()
            is_marked = any(_MARK.search(lines[node.lineno - 1]) for node in late)
            if late and not further and not is_marked:
                places.append(f"{module.name}:{late[0].lineno} {function.name}")
    return places


def _name(module: Module) -> str:
    return module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _libraries(name: str, sources: dict[str, Module], visited: set[str]) -> set[str]:
    """Return the libraries that an import of this module loads, directly or by other modules of the product."""
    top, *_ = name.split(".")
    if top not in PRODUCT:
        return set() if top in sys.stdlib_module_names else {top}
    words = name.split(".")
    chain = [".".join(words[: count + 1]) for count in range(len(words))]
    libraries = set[str]()
    for each in chain:
        if each in sources and each not in visited:
            visited.add(each)
            for node in _at_import(sources[each].tree.body):
                libraries |= _of_import(node, sources, visited)
    return libraries


def _of_import(node: ast.Import | ast.ImportFrom, sources: dict[str, Module], visited: set[str]) -> set[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = [
            name if (name := f"{node.module}.{alias.name}") in sources else str(node.module) for alias in node.names
        ]
    return set[str]().union(*(_libraries(name, sources, visited) for name in names))


def _at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when the module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.Try | ast.With):
            yield from _at_import(node.body)
