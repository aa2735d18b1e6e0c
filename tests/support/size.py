"""Measure how much code there is and where it breaks the limits for its shape.

    python -m tests.support.size        # the figures
    python -m tests.support.size --list # and each place that breaks a limit

Code lines leave out blank lines, comments and docstrings. A function's parameters leave out `self`, `cls` and the
typing context of numba's intrinsics. Commands of the command line, and the constructors and functions of the Python
API, are exempt, because their parameters are what a person sets. Fields of JSON documents are exempt from the rule on
names, because released clients read them, and so are the parameters of Python's special methods.
"""

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("accounting", "solvers", "purse", "app")

MOST_CODE_LINES = {"product": 29_000, "tests": 46_000}
MOST_FILE_LINES = 350
MOST_PARAMETERS = 7

# Participles and particles that say nothing of the value they name.
PARTICLES = re.compile(
    "found told said asked given taken held made done known seen shown wanted kept left gone put sent set_ got had "
    "ended begun came meant owed spent_ away back beside before after whose what who else other others rest such "
    "few fewer far farther near nearer most more less least it that these those one ones another same".replace(" ", "|")
)
# Words that mean one thing, and the modules whose names use them. A place is the URL at which records are stored.
ONE_MEANING = {"place": re.compile(r"app/(cli/data|datasets/service|sources/(ingest|partitions))\.py")}
_SPACING = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
# Modules, and one function, whose parameters people set.
_EXEMPT = re.compile(
    r"app/cli/|purse/client/|purse/estimators/|purse/integrations/|purse/sessions\.py|solvers/solve\.py:solve$"
)
_IMPLICIT_PARAMETERS = ("self", "cls", "typing")
_JSON_DOCUMENTS = re.compile(r"purse/wire/|app/wire\.py|purse/client/requests\.py")


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: Path

    @cached_property
    def text(self) -> str:
        """Source text."""
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree."""
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        """Path from the project's root."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def lines(self) -> int:
        """Number of lines, all kinds."""
        return len(self.text.splitlines())

    @property
    def code_lines(self) -> int:
        """Number of lines without blank lines, comments and docstrings."""
        used: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _SPACING:
                used.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                used.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return len(used)

    def long_parameter_lists(self) -> Iterator[str]:
        """Yield the functions with more than MOST_PARAMETERS parameters."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
                if _EXEMPT.match(f"{self.name}:{node.name}"):
                    continue
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in _IMPLICIT_PARAMETERS for argument in arguments)
                if count > MOST_PARAMETERS:
                    yield f"{self.name}:{node.lineno} {node.name} has {count} parameters"

    def particle_names(self) -> Iterator[str]:
        """Yield the assignments to a bare particle or participle.

        Variables of comprehensions are exempt, and so are fields of JSON documents.
        """
        inside = {
            id(name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.comprehension)
            for name in ast.walk(node.target)
        }
        if _JSON_DOCUMENTS.match(self.name):
            fields = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
            inside |= {id(field.target) for node in fields for field in node.body if isinstance(field, ast.AnnAssign)}
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Store) or id(node) in inside:
                continue
            if PARTICLES.fullmatch(node.id.strip("_").lower()):
                yield f"{self.name}:{node.lineno} {node.id}"

    def parallel_calls(self) -> Iterator[str]:
        """Yield the assignments of a tuple in which two or more of the values make a call."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                values = [value for value in node.value.elts if any(isinstance(x, ast.Call) for x in ast.walk(value))]
                if isinstance(node.targets[0], ast.Tuple) and len(values) > 1:
                    yield f"{self.name}:{node.lineno} {ast.unparse(node.targets[0])}"

    def other_meanings(self) -> Iterator[str]:
        """Yield the names that use a word of ONE_MEANING outside of its modules."""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            for word, owners in ONE_MEANING.items():
                parts = set(token.string.lower().replace("in_place", "").split("_"))
                if token.type == tokenize.NAME and parts & {word, f"{word}s"} and not owners.fullmatch(self.name):
                    yield f"{self.name}:{token.start[0]} {token.string}"

    def late_imports(self) -> Iterator[str]:
        """Yield the functions that import a module without a comment `# late: <reason>` beside the first import."""
        lines = self.text.splitlines()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                imports = [each.lineno for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)]
                if imports and "  # late: " not in lines[min(imports) - 1]:
                    yield f"{self.name}:{min(imports)} {node.name}"

    def imported(self) -> Iterator[tuple[str, str]]:
        """Yield the module and the name of each import, inside functions too, except those for types alone."""
        for_types = {
            id(node)
            for block in ast.walk(self.tree)
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for node in ast.walk(block)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
                yield from ((node.module, alias.name) for alias in node.names)

    def particle_parameters(self) -> Iterator[str]:
        """Yield the parameters that are a bare particle or participle."""
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.endswith("__"):
                continue
            if _EXEMPT.match(f"{self.name}:{node.name}"):
                continue
            for parameter in ast.walk(node.args):
                if isinstance(parameter, ast.arg) and PARTICLES.fullmatch(parameter.arg.strip("_").lower()):
                    yield f"{self.name}:{parameter.lineno} {node.name}({parameter.arg})"


def modules(*folders: str) -> list[Module]:
    """Return the Python files of the named top-level folders."""
    return [Module(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def classes_of_one_name(product: list[Module]) -> dict[str, list[str]]:
    """Return the modules that define a class, for each name of a class that several of them define."""
    owners: dict[str, list[str]] = {}
    for module in product:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, []).append(module.name)
    return {name: places for name, places in owners.items() if len(places) > 1}


def import_circle(product: list[Module]) -> list[str]:
    """Return the modules of a circle of imports; empty if there is none."""
    names = {module: module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for module in product}
    ours = set(names.values())
    graph: TopologicalSorter[str] = TopologicalSorter()
    for module, name in names.items():
        imported = (f"{source}.{each}" if f"{source}.{each}" in ours else source for source, each in module.imported())
        graph.add(name, *(other for other in imported if other in ours and other != name))
    try:
        graph.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def excesses(product: list[Module]) -> dict[str, list[str]]:
    """Return the places in the product that break a limit for its shape, by limit."""
    return {
        f"files over {MOST_FILE_LINES} lines": [
            f"{module.name} has {module.lines} lines" for module in product if module.lines > MOST_FILE_LINES
        ],
        f"functions of more than {MOST_PARAMETERS} parameters": [
            place for module in product for place in module.long_parameter_lists()
        ],
        "assignments to bare particles": [place for module in product for place in module.particle_names()],
        "parameters that are bare particles": [place for module in product for place in module.particle_parameters()],
        "modules in a circle of imports": import_circle(product),
        "names with a word in another meaning": [place for module in product for place in module.other_meanings()],
        "assignments of several calls in one line": [place for module in product for place in module.parallel_calls()],
        "imports inside functions without a reason": [place for module in product for place in module.late_imports()],
    }


def _ties(product: list[Module]) -> dict[str, list[str]]:
    """Return the places in which tests are tied to each other, to the product's inside or to its prose."""
    from tests.support.ties import TestModule, private_names

    names = private_names(product)
    tests = [TestModule(module, names) for module in modules("tests")]
    return {
        "imports from another test module": [place for test in tests for place in test.imports_of_test_modules()],
        "uses of private names of the product in tests": [place for test in tests for place in test.private_uses()],
        "assertions about prose in tests": [place for test in tests for place in test.asserted_prose()],
        "assignments to bare particles in tests": [place for test in tests for place in test.module.particle_names()],
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print each place that breaks a limit")
    options = parser.parse_args()
    product = modules(*PRODUCT)
    for name, group in {"product": product, "tests": modules("tests")}.items():
        code = sum(module.code_lines for module in group)
        lines = sum(module.lines for module in group)
        print(f"{name:9s} {len(group):4d} files  {lines:6d} lines  {code:6d} of code (limit {MOST_CODE_LINES[name]})")
    for title, places in (excesses(product) | _ties(product)).items():
        print(f"{title}: {len(places)}")
        if options.list:
            print(*(f"  {place}" for place in places), sep="\n")


if __name__ == "__main__":
    main()
