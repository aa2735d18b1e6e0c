"""Find what ties tests to the inside of the product, to its prose, or to each other."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain

from tests.support.size import Module

PROSE_WORDS = 4  # a literal text of this many words or more is prose
_WORD = re.compile(r"['\"(]?[A-Za-z]{2,}[.,:;?)'\"]*")  # numbers, marks and pieces of code or markup are not words
_PRODUCT = ("accounting", "solvers", "purse", "app")


def private_names(product: Iterable[Module]) -> frozenset[str]:
    """Return the names with one leading underscore that the product defines."""
    return frozenset(chain.from_iterable(_definitions(module) for module in product))


def _definitions(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()):
                pass
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if _is_private(name):
            yield name


def _is_private(name: str) -> bool:
    """Return whether the name is private. `_replace` of a NamedTuple and `_repr_html_` of Jupyter are public."""
    return name.startswith("_") and not name.endswith("_") and not name.startswith("__") and name != "_replace"


class TestModule:
    """One test module or helper of tests.

    Parameters
    ----------
    module : its source
    product_names : private names of the product, as `private_names` returns them
    """

    __test__ = False

    def __init__(self, module: Module, product_names: frozenset[str]) -> None:
        self.module, self._product_names = module, product_names

    def _at(self, node: ast.expr | ast.stmt, text: str) -> str:
        return f"{self.module.name}:{node.lineno} {text}"

    def imports_of_test_modules(self) -> Iterator[str]:
        """Yield the imports from a module of tests; `tests.support` and `tests.reference` are shared on purpose."""
        for node in ast.walk(self.module.tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                if any(part.startswith("test_") for name in names for part in name.split(".")[1:]):
                    yield self._at(node, node.module)

    @cached_property
    def _own_names(self) -> frozenset[str]:
        return frozenset(_definitions(self.module))

    def private_uses(self) -> Iterator[str]:
        """Yield the uses of a private name of the product: imports, attributes and names of patched attributes."""
        for node in ast.walk(self.module.tree):
            match node:
                case ast.ImportFrom(module=str(source)) if source.split(".")[0] in _PRODUCT:
                    names = [alias.name for alias in node.names]
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    continue
                case ast.Attribute(attr=name) if name not in self._own_names:
                    names = [name]
                case ast.Constant(value=str(name)):  # of a patched attribute
                    names = [name]
                case _:
                    continue
            for name in names:
                if _is_private(name) and name in self._product_names:
                    yield self._at(node, name)

    def asserted_prose(self) -> Iterator[str]:
        """Yield the literal sentences that assertions and `match=` patterns compare with."""
        for node in ast.walk(self.module.tree):
            match node:
                case ast.Assert(test=test):
                    compared = [part for part in ast.walk(test) if isinstance(part, ast.Compare)]
                    texts = [side for part in compared for side in (part.left, *part.comparators)]
                case ast.keyword(arg="match", value=value):
                    texts = [value]
                case _:
                    continue
            sentences = [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
            for sentence in sentences:
                if sum(_WORD.fullmatch(part) is not None for part in sentence.split()) >= PROSE_WORDS:
                    yield self._at(texts[0], repr(sentence))
