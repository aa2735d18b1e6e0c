"""What a promise rests on: the files that a method's run, its mechanisms and the door's answers are made of.

A file rests on what it imports by name; a name that a package passes on is followed to the file that defines it.
`python -m tests.support.review` writes docs/reviewing.md.
"""

import ast
from functools import cache
from pathlib import Path
from typing import get_args

from solvers.methods import Method

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reviewing.md"
FLOORS = ("accounting", "solvers")
# Followed no further: the shape of a problem (a wrong bound there fails the contract tests of its union), what chooses
# sizes but not noise, and what is told to people.
PUBLIC = ("solvers.losses", "solvers.regularizers", "solvers.domains", "solvers.potentials")
FRAME = (
    "accounting.privacy",
    "accounting.numbers",
    "accounting.plan",
    "accounting.noise.source",
    "accounting.noise.lattice",
    "accounting.noise.batch_sizes",
    "solvers.data_access.meter",
    "solvers.data_access.data",
    "solvers.problem",
)


@cache
def _tree(module: str) -> ast.Module | None:
    for file in (ROOT / (module.replace(".", "/") + ".py"), ROOT / module.replace(".", "/") / "__init__.py"):
        if file.is_file():
            return ast.parse(file.read_text())
    return None


def _is_package(module: str) -> bool:
    return (ROOT / module.replace(".", "/") / "__init__.py").is_file()


@cache
def defined_in(module: str, name: str) -> str:
    """The module that `from module import name` leads to."""
    if _tree(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    if _is_package(module) and (tree := _tree(module)) is not None:
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module and name in {a.asname or a.name for a in node.names}:
                return defined_in(node.module, name)
    return module


def rests_on(module: str) -> set[str]:
    """The modules of ours that a module imports from, by name, types aside."""
    found: set[str] = set()
    tree = _tree(module)
    assert tree is not None, module
    for node in _run(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in FLOORS:
            found |= {defined_in(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] in FLOORS}
    return found


def _run(tree: ast.Module) -> list[ast.AST]:
    """The nodes that run: not those under `if TYPE_CHECKING`."""
    todo: list[ast.AST] = [tree]
    kept: list[ast.AST] = []
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        kept.append(node)
        todo.extend(ast.iter_child_nodes(node))
    return kept


def slice_of(*modules: str) -> set[str]:
    """All that these rest on, themselves included; packages' own files and the public shapes left out."""
    seen: set[str] = set()
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module in seen or module.startswith(PUBLIC):
            continue
        seen.add(module)
        todo.extend(rests_on(module))
    return {module for module in seen if not _is_package(module)}


def lines(modules: set[str]) -> int:
    """How many lines they have."""
    return sum(len((ROOT / (m.replace(".", "/") + ".py")).read_text().splitlines()) for m in modules)


def methods() -> dict[str, str]:
    """Each method's name and module."""
    return {str(m.__dataclass_fields__["name"].default): m.__module__ for m in get_args(Method)}


if __name__ == "__main__":
    for name, module in methods().items():
        s = slice_of(module)
        print(name, lines(s), len(s))
        print("   ", sorted(s))
