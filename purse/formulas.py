"""Formulas such as "readmitted ~ age + I(age**2) + ward * sex", read into a target and terms without any data."""

import ast
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from purse.extras import needing

_OPTIONS: Final = {"bs": ("knots", "degree"), "C": ("reference", "merge")}
_QUOTED: Final = re.compile("`([^`]+)`")


def formula(text: str) -> dict[str, Any]:
    """Return the fields `target` and `terms` of a request.

    A formula without a left side gives no target. A formula of the intercept alone gives `"features": []`. Terms are
    combined by +, -, :, *, / and ** as in R. Everything in a formula is public, and is not evaluated here.

    Raises
    ------
    ValueError
        if the formula cannot be parsed, has no intercept, or calls a function that terms do not have.
    NotInstalled
        without `privy-purse[formula]`.
    """
    with needing("a formula"):
        from formulaic.errors import FormulaicError  # late: an extra
        from formulaic.parser import DefaultFormulaParser
    try:
        parsed = DefaultFormulaParser().get_terms(text)
    except (FormulaicError, SyntaxError):
        raise ValueError('the formula cannot be parsed. Write it as "target ~ age + ward * sex"') from None
    target_terms, column_terms = (list(parsed.lhs), parsed.rhs) if hasattr(parsed, "rhs") else ([], parsed.root)
    if isinstance(column_terms, tuple):
        raise ValueError("the formula has several parts, and a model has one. Leave out |")
    terms = [[*term.factors] for term in column_terms]
    if not any(_is_constant(term) for term in terms):
        raise ValueError("the formula leaves out the intercept, and every model has one. Leave out 0 and - 1")
    requested_terms = [{"factors": [_factor(factor) for factor in term]} for term in terms if not _is_constant(term)]
    request: dict[str, Any] = {"terms": requested_terms} if requested_terms else {"features": []}
    if not target_terms:
        return request
    target = [factor for term in target_terms for factor in term.factors]
    if len(target_terms) != 1 or len(target) != 1 or target[0].eval_method.name != "LOOKUP":
        raise ValueError("the formula must have one column on the left side of ~, because it is the target")
    return {"target": target[0].expr} | request


def _is_constant(factors: list[Any]) -> bool:
    return [factor.expr for factor in factors] == ["1"]


def _factor(factor: Any) -> dict[str, Any]:
    """Return the fields of a factor that the parser found."""
    text = str(factor.expr)
    if factor.eval_method.name == "LOOKUP":
        return {"column": text}
    quoted = {f"quoted_{index}": name for index, name in enumerate(_QUOTED.findall(text))}
    placeholders = iter(quoted)
    call = ast.parse(_QUOTED.sub(lambda _: next(placeholders), text), mode="eval").body

    def column(node: ast.expr) -> dict[str, Any]:
        if not isinstance(node, ast.Name):
            raise _refused(text)
        return {"column": quoted.get(node.id, node.id)}

    match call:
        case ast.Call(func=ast.Name(id="I"), args=[value], keywords=[]):
            return _power(value, column, text)
        case ast.Call(func=ast.Name(id=name), args=[value], keywords=options) if name in _OPTIONS:
            settings = {str(option.arg): _constant(option.value, text) for option in options}
            if settings.keys() <= {*_OPTIONS[name]} and (name == "C" or isinstance(settings.get("knots"), list)):
                return column(value) | settings | _merged(settings.get("merge"), text)
    raise _refused(text)


def _merged(levels: Any, text: str) -> dict[str, Any]:
    """Return the field `merge` of a mapping from level to categories."""
    if levels is None:
        return {}
    if not isinstance(levels, dict):
        raise _refused(text)
    return {"merge": [{"level": level, "categories": categories} for level, categories in levels.items()]}


def _power(node: ast.expr, column: Callable[[ast.expr], dict[str, Any]], text: str) -> dict[str, Any]:
    """Return the fields of ((column - center) / scale) ** power, of which each part may be missing."""
    settings: dict[str, Any] = {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        settings["power"], node = _number(node.right, text), node.left
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        settings["scale"], node = _number(node.right, text), node.left
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = 1 if isinstance(node.op, ast.Sub) else -1
        settings["center"], node = sign * _number(node.right, text), node.left
    return column(node) | settings


def _constant(node: ast.expr, text: str) -> Any:
    """Return the value of a literal, in which every number is finite."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        raise _refused(text) from None
    numbers = filter(_is_number, value if isinstance(value, list) else [value])
    if not all(abs(number) <= sys.float_info.max for number in numbers):
        raise ValueError(f"the formula must have finite numbers only. Correct {text}")
    return value


def _number(node: ast.expr, text: str) -> float:
    value: float = _constant(node, text)
    if not _is_number(value):
        raise _refused(text)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refused(text: str) -> ValueError:
    return ValueError(
        f"the formula must not contain {text}, because terms have no such function. Write a column, I(column ** 2), "
        "I((column - 50) / 10), bs(column, knots=[40, 60], degree=3), or "
        'C(column, reference="B", merge={"new": ["A", "B"]})'
    )
