"""Filters and charges to and from JSON. Units are decimal strings, since canonical JSON integers end at 2^53."""

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from accounting.charges import Cost
from accounting.errors import CodecError, OutOfRange
from accounting.filter import MOST_ORDERS, Filter, filter_with
from accounting.privacy import Privacy
from accounting.records.documents import fields, number


def filter_to_json(rule: Filter) -> dict[str, Any]:
    """Return `{kind, epsilon, delta, orders, weights, thresholds, slack}`, with thresholds as decimal strings."""
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
    """Return the filter that `filter_to_json` wrote, with its registered thresholds.

    Raises
    ------
    CodecError
        if it is anything else, or a threshold is larger than (epsilon, delta) allow.
    """
    keys = ("kind", "epsilon", "delta", "orders", "weights", "thresholds", "slack")
    node = fields(document, keys, "a filter")
    if node["kind"] not in ("rdp", "gdp", "gdp_rdp", "pure"):
        raise CodecError("kind must be 'rdp', 'gdp', 'gdp_rdp' or 'pure'")
    thresholds = cost_from_json(node["thresholds"])
    try:
        privacy = Privacy(node["epsilon"], node["delta"])
        slack = number(node["slack"], 0.0, 1.0, "slack")
        orders = _floats(node["orders"], 1e9)
        weights = _floats(node["weights"], 1.0)
        limit = filter_with(node["kind"], privacy, orders, weights, slack)
    except OutOfRange as error:
        raise CodecError("no filter has these orders and weights for this budget") from error
    # Another platform's logarithms may differ by one unit, and its roots by 1e-12.
    curve = limit.curve(limit.thresholds)
    squares = len(curve) - len(orders) if limit.kind != "pure" else 0
    largest = [t + (1 + (t >> 36) if k < squares else 1 if orders else 0) for k, t in enumerate(curve)]
    largest += limit.thresholds[len(curve) :]
    if len(thresholds) != len(largest) or not all(0 < t <= m for t, m in zip(thresholds, largest, strict=True)):
        raise CodecError("thresholds: these are not the thresholds of the filter's budget")
    return Filter(limit.kind, privacy, limit.orders, limit.weights, thresholds, slack)


def cost_to_json(cost: Cost) -> list[str]:
    """Return the charge as decimal strings."""
    return [str(c) for c in cost]


def cost_from_json(document: Any) -> Cost:
    """Return the vector that `cost_to_json` wrote; `CodecError` for anything else."""
    is_short_list = isinstance(document, list) and 1 <= len(document) <= MOST_ORDERS + 1
    if not is_short_list or not all(map(_is_decimal, document)):
        raise CodecError(f"a charge must be a list of 1 to {MOST_ORDERS + 1} decimal strings")
    return tuple(int(c) for c in document)


def _is_decimal(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20


def _floats(document: Any, maximum: float) -> tuple[float, ...]:
    if not isinstance(document, list) or len(document) > MOST_ORDERS:
        raise CodecError(f"orders and weights must be lists of at most {MOST_ORDERS} numbers")
    return tuple(number(value, 0.0, maximum, "an order or weight") for value in document)


CostField = Annotated[Cost, PlainValidator(cost_from_json), PlainSerializer(cost_to_json)]
FilterField = Annotated[Filter, PlainValidator(filter_from_json), PlainSerializer(filter_to_json)]
