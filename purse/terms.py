"""Columns of terms: declared columns that are computed from other declared columns, row by row.

    number    product of ((x - center) / scale)^power or of B-splines, times 1 or 0 for a level of each category
    category  one level for each combination of levels

The declared bounds of a product follow from those of its columns by interval arithmetic. Every value is clamped to them
and encoded as that of any other column. Proof: docs/proofs/encoding.md.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice, product
from operator import itemgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from purse.coding import codes_of, nearest
from purse.errors import DesignError, faults
from purse.number_functions import Codes, Floats, Function, check_finite, functions_of
from purse.wire.columns import MAX_CATEGORIES, CategoryColumn, Column, NumberColumn
from purse.wire.terms import Factor, Term

_Kind = TypeVar("_Kind", NumberColumn, CategoryColumn)

MAX_NUMBERS = 512
_MOST_NAMED_COLUMNS = 20
MAX_CHARACTERS = 2**20  # of the names of all combinations of levels, which the job and its model store
REFERENCE = "(reference)"
_OTHER_CELL, _REFERENCE_CELL = -1, -2  # of rows that are in no listed cell


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a feature that is computed from declared columns.

    Parameters
    ----------
    functions : their product is the number of the feature; empty for a category
    categories : category columns of the term, in order
    table : returns one entry for each combination of the categories' codes: the code of the feature, or 1 or 0 as a
        factor of a number
    """

    functions: Sequence[Function]
    categories: Sequence[CategoryColumn]
    table: Callable[[], Floats]


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of a model, and the function from the codes of declared columns to its codes, row by row.

    Parameters
    ----------
    codes : returns the codes of the column for the codes of the declared columns
    parts : the parts of a computed column; None for a declared column
    """

    column: Column
    codes: Callable[[Codes], Floats]
    parts: Parts | None = None


@dataclass(frozen=True, slots=True)
class _Levels:
    """The levels of a category column after merging.

    Parameters
    ----------
    names : levels, the reference first
    table : index of the level of each code; len(names) for "other"
    is_compared : whether a row of the reference is in no cell
    """

    column: CategoryColumn
    names: tuple[str, ...]
    table: NDArray[np.int64]
    is_compared: bool


@dataclass(frozen=True, slots=True)
class _Cells:
    """The combinations of levels of some categories.

    Parameters
    ----------
    levels : of each category
    combinations : indices of the levels of each cell
    table : cell of each combination of codes, flat; _REFERENCE_CELL or _OTHER_CELL for a row in no cell
    """

    levels: Sequence[_Levels]
    combinations: Sequence[tuple[int, ...]]
    table: NDArray[np.int64]

    def of(self, codes: Codes) -> NDArray[np.int64]:
        """Return the cell of each row; a code that the column does not have counts as "other"."""
        flat: NDArray[np.int64] = np.zeros((), dtype=np.int64)
        for each in self.levels:
            last = len(each.table) - 1
            own = np.nan_to_num(codes[each.column.name], nan=last, posinf=last, neginf=last)
            own = np.where((own < 0) | (own > last), last, own)
            flat = flat * (last + 1) + own.astype(np.int64)
        return self.table[flat]


def expand(declared: Sequence[Column], terms: Sequence[Term]) -> list[Feature]:
    """Return the features of a list of terms, term by term.

    Parameters
    ----------
    declared : at least the columns that the terms use

    Raises
    ------
    DesignError
        if a term does not fit the declared columns, or there are too many features.
    """
    columns = {column.name: column for column in inputs(declared, terms)}
    products = [frozenset(map(_key, term.factors)) for term in terms]
    present = {frozenset[str](), *products}
    _check_size(columns, terms)
    features: list[Feature] = []
    characters_left = MAX_CHARACTERS
    for index, (term, own) in enumerate(zip(terms, products, strict=True)):
        is_compared = [own - {_key(factor)} in present for factor in term.factors]
        own_features = _features(f"terms.{index}", columns, term, is_compared, characters_left)
        features += own_features
        if not _is_column(term):
            characters_left -= sum(map(_characters, own_features))
        if sum(isinstance(feature.column, NumberColumn) for feature in features) > MAX_NUMBERS:
            raise DesignError("terms", f"must have at most {MAX_NUMBERS} numbers in all. Merge levels")
    names = [feature.column.name for feature in features]
    if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
        raise DesignError("terms", f"must have different names, and two of them have the name {repeated[0]}")
    return features


def features_of(columns: Sequence[Column], terms: Sequence[Term] | None) -> list[Feature]:
    """Return the features that terms make of declared columns; without terms, the columns themselves."""
    if terms is None:
        return [Feature(column, itemgetter(column.name)) for column in columns]
    return expand(columns, terms)


def first_names(names: Iterable[str]) -> str:
    """Return the first names for a message. They are public to everybody who can see the dataset."""
    first = list(islice(names, _MOST_NAMED_COLUMNS + 1))
    return ", ".join([*first[:_MOST_NAMED_COLUMNS], *["..."] * (len(first) > _MOST_NAMED_COLUMNS)])


def inputs(declared: Sequence[Column], terms: Sequence[Term]) -> list[Column]:
    """Return the declared columns that the terms use, in the order in which they occur.

    Raises
    ------
    DesignError
        if a column is not declared.
    """
    columns = {column.name: column for column in declared}
    used: dict[str, Column] = {}
    for index, term in enumerate(terms):
        for at, factor in enumerate(term.factors):
            if factor.column not in columns:
                reason = f"must be a declared column: {first_names(columns)}"
                raise DesignError(f"terms.{index}.factors.{at}.column", reason)
            used[factor.column] = columns[factor.column]
    return list(used.values())


def _key(factor: Factor) -> str:
    return factor.model_dump_json()


def _check_size(columns: Mapping[str, Column], terms: Sequence[Term]) -> None:
    """Raise a DesignError if the terms have too many combinations of categories."""
    count = 0
    for term in terms:
        used = [columns[factor.column] for factor in term.factors]
        sizes = [column.code_count for column in used if isinstance(column, CategoryColumn)]
        if not _is_column(term):
            count += math.prod(sizes)
    if count > MAX_CATEGORIES:
        raise DesignError("terms", f"must have at most {MAX_CATEGORIES} combinations of categories in all")


def _is_column(term: Term) -> bool:
    """Return whether a term is a declared column, unchanged."""
    return len(term.factors) == 1 and term.factors[0].is_plain


def _characters(feature: Feature) -> int:
    """Return the number of characters of the names of a category's levels."""
    return sum(map(len, feature.column.categories)) if isinstance(feature.column, CategoryColumn) else 0


def _features(
    field: str, columns: Mapping[str, Column], term: Term, is_compared: Sequence[bool], characters_left: int
) -> list[Feature]:
    """Return the features of one term.

    Parameters
    ----------
    is_compared : for each factor, whether the model has the term without it
    characters_left : the largest number of characters of the names of all combinations of levels
    """
    factors = term.factors
    if len({factor.column for factor in factors}) < len(factors):
        raise DesignError(f"{field}.factors", "must name each column once. For a power of a column, use `power`")
    if _is_column(term):
        column = columns[factors[0].column]
        return [Feature(column, itemgetter(column.name))]
    numbers: list[list[Function]] = []
    levels: list[_Levels] = []
    for index, (factor, compared) in enumerate(zip(factors, is_compared, strict=True)):
        own, column = f"{field}.factors.{index}", columns[factor.column]
        if isinstance(column, NumberColumn):
            numbers.append(functions_of(own, column, factor))
        else:
            levels.append(_levels(own, column, factor, compared and len(factors) > 1))
    cells = _cells(levels)
    if not cells.combinations:
        raise DesignError(field, "must have a category with a level beside its reference")
    if not numbers:
        return [_category(field, cells, characters_left)]
    if math.prod(map(len, numbers)) * len(cells.combinations) > MAX_NUMBERS:
        raise DesignError(field, f"must have at most {MAX_NUMBERS} numbers. Merge levels, or use fewer knots")
    products = product(product(*numbers), range(len(cells.combinations)))
    return [_number(field, functions, cells, cell) for functions, cell in products]


def _levels(field: str, column: CategoryColumn, factor: Factor, is_compared: bool) -> _Levels:
    """Return the levels of a category column that a factor describes."""
    if factor.has_number_settings:
        raise DesignError(field, f"must have no number settings, because {column.name} is a category")
    merged: dict[str, str] = {}
    declared = set(column.categories)
    for new in factor.merge or ():
        for category in new.categories:
            if category not in declared or category in merged:
                raise DesignError(f"{field}.merge", "must name declared categories of the column, each once")
            merged[category] = new.level
    names = list(dict.fromkeys(merged.get(category, category) for category in column.categories))
    if factor.reference is not None:
        if factor.reference not in names:
            raise DesignError(f"{field}.reference", "must be a level of the column")
        names.sort(key=lambda name: name != factor.reference)
    index = {name: position for position, name in enumerate(names)}
    table = [*(index[merged.get(category, category)] for category in column.categories), len(names)]
    return _Levels(column, tuple(names), np.array(table), is_compared)


def _cells(levels: Sequence[_Levels]) -> _Cells:
    """Return the combinations of levels, without references that other levels are compared with."""
    ranges = [range(1 if each.is_compared else 0, len(each.names)) for each in levels]
    combinations = list(product(*ranges))
    cell_of = np.full([len(each.names) + 1 for each in levels], _OTHER_CELL)
    cell_of[tuple(slice(0, len(each.names)) for each in levels)] = _REFERENCE_CELL
    for cell, combination in enumerate(combinations):
        cell_of[combination] = cell
    table = cell_of[np.ix_(*(each.table for each in levels))] if levels else cell_of
    return _Cells(levels, combinations, np.asarray(table).reshape(-1))


def _category(field: str, cells: _Cells, characters_left: int) -> Feature:
    """Return the category with one level for each cell, and one for the reference if there is one."""
    levels = cells.levels
    lengths = [[len(name) for name in each.names] for each in levels]
    characters = sum(own[index] for cell in cells.combinations for own, index in zip(lengths, cell, strict=True))
    if characters > characters_left:
        raise DesignError(
            field,
            f"must keep the names of all combinations of levels within {MAX_CHARACTERS} characters. Merge levels, or "
            "give them shorter names",
        )
    has_reference = any(each.is_compared for each in levels)
    names = [REFERENCE] * has_reference
    for combination in cells.combinations:
        names.append(":".join(each.names[index] for each, index in zip(levels, combination, strict=True)))
    column = _declared(
        field, CategoryColumn, name=":".join(each.column.name for each in levels), type="category", categories=names
    )
    code_of = np.array([*range(has_reference, len(names)), 0, len(names)])  # the last two by negative index
    parts = Parts((), [each.column for each in levels], lambda: code_of[cells.table].astype(np.float64))
    return Feature(column, lambda codes: code_of[cells.of(codes)].astype(np.float64), parts)


def _number(field: str, functions: Sequence[Function], cells: _Cells, cell: int) -> Feature:
    """Return the product of functions, times 1 for rows in a cell and 0 for others if there are categories."""
    names = [function.name for function in functions]
    names += [
        f"{each.column.name}={each.names[index]}"
        for each, index in zip(cells.levels, cells.combinations[cell], strict=True)
    ]
    low, high = 1.0, 1.0
    for function in functions:
        corners = [a * b for a in (low, high) for b in function.ends]
        low = min(corners)
        high = max(corners)
        check_finite(field, low, high)
    if cells.levels:
        low = min(low, 0.0)
        high = max(high, 0.0)
    origin = {"origin": 0.0} if low <= 0.0 <= high else {}
    column = _declared(field, NumberColumn, name=":".join(names), type="number", lower=low, upper=high, **origin)

    def codes(own: Codes) -> Floats:
        value: Floats = reduce(np.multiply, [function.values(own) for function in functions])
        if cells.levels:
            value = value * (cells.of(own) == cell)
        return codes_of(column, nearest(value))

    categories = [each.column for each in cells.levels]
    return Feature(column, codes, Parts(functions, categories, lambda: (cells.table == cell).astype(np.float64)))


def _declared(field: str, kind: type[_Kind], **fields: object) -> _Kind:
    """Return a column; a DesignError if its name, bounds or levels are not allowed."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise DesignError(field, f"must give a valid column: {faults(error, 1, kind)}") from None
