"""Filters and charges as JSON; their thresholds and units as decimal strings, since canonical JSON ends at 2^53."""

from typing import Any

from accounting.charges import Cost
from accounting.errors import CodecError, OutOfRange
from accounting.filter import MOST_ORDERS, Filter, filter_with
from accounting.privacy import Privacy
from accounting.records.documents import fields, number


def filter_to_json(rule: Filter) -> dict[str, Any]:
    """`{kind, epsilon, delta, orders, weights, thresholds}`, the thresholds as decimal strings."""
    return {
        "kind": rule.kind,
        "epsilon": rule.privacy.epsilon,
        "delta": rule.privacy.delta,
        "orders": list(rule.orders),
        "weights": list(rule.weights),
        "thresholds": cost_to_json(rule.thresholds),
        "slack": rule.slack,
    }


def filter_from_json(document: Any) -> Filter:
    """The filter that `filter_to_json` wrote, its thresholds as they were registered.

    Raises
    ------
    CodecError
        if it is anything else; also if a threshold is more than (epsilon, delta) allow.
    """
    keys = ("kind", "epsilon", "delta", "orders", "weights", "thresholds", "slack")
    node = fields(document, keys, "a filter")
    if node["kind"] not in ("rdp", "gdp", "gdp_rdp", "pure"):
        raise CodecError("a filter's kind is 'rdp', 'gdp', 'gdp_rdp' or 'pure'")
    thresholds = cost_from_json(node["thresholds"])
    try:
        privacy = Privacy(node["epsilon"], node["delta"])
        slack = number(node["slack"], 0.0, 1.0, "slack")
        orders, weights = _floats(node["orders"], 1e9), _floats(node["weights"], 1.0)
        limit = filter_with(node["kind"], privacy, orders, weights, slack)
    except OutOfRange as error:
        raise CodecError("no filter has these orders and weights for this budget") from error
    # another platform's logarithms may differ in the last unit, its root in the last 1e-12
    curve = limit.curve(limit.thresholds)
    squares = len(curve) - len(orders) if limit.kind != "pure" else 0
    most = [t + (1 + (t >> 36) if k < squares else 1 if orders else 0) for k, t in enumerate(curve)]
    most += limit.thresholds[len(curve) :]
    if len(thresholds) != len(most) or not all(0 < t <= m for t, m in zip(thresholds, most, strict=True)):
        raise CodecError("the filter's thresholds are not those of its budget")
    return Filter(limit.kind, privacy, limit.orders, limit.weights, thresholds, slack)


def cost_to_json(cost: Cost) -> list[str]:
    """The charge as decimal strings."""
    return [str(c) for c in cost]


def cost_from_json(document: Any) -> Cost:
    """The vector that `cost_to_json` wrote; `CodecError` for anything else."""
    if not isinstance(document, list) or not 1 <= len(document) <= MOST_ORDERS + 1:
        raise CodecError("a charge is a short list of decimal strings")
    if not all(isinstance(c, str) and c.isascii() and c.isdecimal() and len(c) < 20 for c in document):
        raise CodecError("a charge is a short list of decimal strings")
    return tuple(int(c) for c in document)


def _floats(document: Any, most: float) -> tuple[float, ...]:
    if not isinstance(document, list) or len(document) > MOST_ORDERS:
        raise CodecError("orders and weights are short lists of numbers")
    return tuple(number(value, 0.0, most, "an order or weight") for value in document)
