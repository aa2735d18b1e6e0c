"""Imports inside functions: which of them load a library that their module does not load when it is imported.

Such an import keeps a library out of an installation that lacks it (the client's has none of the server's), or out of
a start that does not need it. Any other import belongs at the top of its module, unless a comment `# late:` beside an
import of the same function states another reason.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterator, Sequence

from tests.support.size import PRODUCT, Module

_MARK = re.compile(r"# .*\blate\b")


def without_reason(product: Sequence[Module]) -> list[str]:
    """Return the functions whose imports neither load a further library nor state a reason."""
    libraries = _libraries(product)
    places = []
    for module in product:
        lines = module.text.splitlines()
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            late = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
            names = {name for node in late for name in _imported(node, libraries)}
            further = set[str]().union(*(libraries.get(name, {name}) for name in names)) - libraries[_name(module)]
            is_marked = any(_MARK.search(lines[node.lineno - 1]) for node in late)
            if late and not further and not is_marked:
                places.append(f"{module.name}:{late[0].lineno} {function.name}")
    return places


def _name(module: Module) -> str:
    return module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _libraries(product: Sequence[Module]) -> dict[str, set[str]]:
    """Return the libraries that an import of each module loads, directly or by other modules of the product."""
    ours = [_name(module) for module in product]
    imported = {name: set(_with_packages(name, ours)) for name in ours}
    for module in product:
        for node in _at_import(module.tree.body):
            imported[_name(module)].update(_imported(node, imported))
    libraries = {name: names - imported.keys() for name, names in imported.items()}
    is_complete = False
    while not is_complete:
        is_complete = True
        for name, names in imported.items():
            of_imports = set[str]().union(*(libraries[each] for each in names & imported.keys()))
            is_complete = is_complete and of_imports <= libraries[name]
            libraries[name] |= of_imports
    return libraries


def _imported(node: ast.Import | ast.ImportFrom, ours: Collection[str]) -> Iterator[str]:
    """Yield the modules of the product that an import loads, and its libraries except the standard one."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = [name if (name := f"{node.module}.{alias.name}") in ours else str(node.module) for alias in node.names]
    for name in names:
        top, *_ = name.split(".")
        if top in PRODUCT:
            yield from _with_packages(name, ours)
        elif top not in sys.stdlib_module_names:
            yield top


def _with_packages(name: str, ours: Collection[str]) -> Iterator[str]:
    """Yield the modules of the product that are loaded with this one: its packages, and itself."""
    words = name.split(".")
    prefixes = (".".join(words[: count + 1]) for count in range(len(words)))
    return (prefix for prefix in prefixes if prefix in ours)


def _at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when the module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.Try | ast.With):
            yield from _at_import(node.body)
