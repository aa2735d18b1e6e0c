"""Requests for Table 1, read into groups of records. Pure functions of public facts."""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from app.sources.design import StatisticDesign, positions_of
from app.wire import StatisticRequest
from purse.coding import codes_of
from purse.errors import DesignError
from purse.terms import first_names
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from purse.wire.table1 import Condition
from solvers import groups
from solvers.groups import Groups
from solvers.statistics import AnyStatistic, Table1

_BEYOND = 2.0  # no code is larger in size


def table(spec: DatasetSpec, request: StatisticRequest) -> StatisticDesign:
    """Return the columns of a request for Table 1: those that group, those described, and others of conditions.

    Raises
    ------
    DesignError
        if a column is not declared, or does not fit its part.
    """
    declared = {column.name: position for position, column in enumerate(spec.columns)}
    by, where = request.by, request.where or []
    if by is None:
        raise DesignError("by", "must name one or two category columns, whose categories are the groups of table1")
    grouping = [spec.columns[position] for position in positions_of("by", declared, by)]
    if not all(isinstance(column, CategoryColumn) for column in grouping):
        raise DesignError("by", "must name category columns, because each category is a group")
    described = [name for name in declared if name not in by] if request.columns is None else request.columns
    if set(by) & set(described):
        raise DesignError("columns", "must not contain a column of `by`, because it is the same in the whole group")
    if not described:
        raise DesignError("by", "must leave a column to describe. Group by fewer columns")
    conditions = list(dict.fromkeys(condition.column for condition in where))
    positions_of("columns", declared, described)
    for index, condition in enumerate(where):
        if condition.column not in declared:
            raise DesignError(f"where.{index}.column", f"must be a declared column: {first_names(declared)}")
    names = list(dict.fromkeys([*by, *described, *conditions]))
    return replace(StatisticDesign.of(spec, names), where=tuple(where))


def refuse_groups(request: StatisticRequest) -> None:
    """Raise `DesignError` if a request for another statistic has fields of Table 1."""
    for field in ("by", "where"):
        if getattr(request, field) is not None:
            raise DesignError(field, "must be left out, because only the method table1 describes groups")


def method(request: StatisticRequest, design: StatisticDesign) -> AnyStatistic:
    """Return the requested statistic; that of Table 1 with its groups.

    Raises
    ------
    DesignError
        if a condition does not fit its column, or the method states groups in codes.
    """
    statistic = request.method
    if not isinstance(statistic, Table1):
        return statistic
    if statistic != Table1(bins=statistic.bins):
        raise DesignError("method.groups", "must be left out. State the groups as `by` and `where`")
    features = {column.name: index for index, column in enumerate(design.features)}
    by = len(request.by or ())
    described = len(features) - by if request.columns is None else len(request.columns)
    conditions = tuple(
        _condition(f"where.{index}", design.features[features[each.column]], features[each.column], each)
        for index, each in enumerate(design.where)
    )
    return replace(statistic, groups=Groups(by, described, conditions))


def _condition(field: str, column: Column, feature: int, condition: Condition) -> groups.CodeCondition:
    op, value = condition.op, condition.value
    if isinstance(value, list) != (op == "in"):
        raise DesignError(f"{field}.value", "must be a list if `op` is in, and a single value otherwise")
    codes = _codes(field, column, value if isinstance(value, list) else [value])
    if op in ("==", "!=", "in"):
        return groups.CodeCondition(feature, tuple((code, code) for code in codes), op == "!=")
    if isinstance(column, CategoryColumn):
        raise DesignError(f"{field}.op", "must be ==, != or in, because categories have no order")
    [code] = codes
    below, above = (-_BEYOND, code), (code, _BEYOND)
    accepted, is_negated = {"<": (above, True), "<=": (below, False), ">": (below, True), ">=": (above, False)}[op]
    return groups.CodeCondition(feature, (accepted,), is_negated)


def _codes(field: str, column: Column, values: list[Any]) -> list[float]:
    if isinstance(column, CategoryColumn):
        values = [f"{value:.15g}" if isinstance(value, float) else value for value in values]  # as a form reads a 1
        position = {category: index for index, category in enumerate(column.categories)}
        if not position.keys() >= set(values):
            raise DesignError(f"{field}.value", "must be one of the column's declared categories")
        return [float(position[value]) for value in values]
    return [_code(field, column, value) for value in values]


def _code(field: str, column: NumberColumn, value: float | str) -> float:
    """Return the code of a value as the encoder of files computes it."""
    try:  # a date is read as the declaration reads its own dates
        number = column.model_validate(column.model_dump() | {"default": value}).default
    except ValidationError:
        number = None
    low, high = column.ends
    if number is None or not low <= number <= high:
        expected = "a number or an ISO date" if column.date else "a number"
        limits = f"from {low:.15g} to {high:.15g}"
        reason = f"must be {expected} in the column's declared range, {limits}, because values are clamped to it"
        raise DesignError(f"{field}.value", reason)
    return float(codes_of(column, np.array([number]))[0])
