"""Suites that take their members from a union: none is left out by hand."""

from typing import Any, get_args


def every(union: Any, *given: Any) -> list[Any]:
    """The given members with their settings, and each member that is not among them with its defaults."""
    kinds = {type(member) for member in given}
    assert kinds <= set(get_args(union)), "no member of the union"
    return [*given, *(kind() for kind in get_args(union) if kind not in kinds)]


def name_of(kind: Any) -> str:
    """What its `name` says in JSON."""
    return str(kind.__dataclass_fields__["name"].default)
