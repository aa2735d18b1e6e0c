"""Plans to and from JSON, by a strict discriminated union of the mechanisms, whose fields define their JSON.

A document is accepted only if writing its plan gives the same document. No code is looked up by a name in a document.
"""

from dataclasses import asdict
from typing import Any, get_args

from pydantic import TypeAdapter

from accounting.errors import CodecError
from accounting.plan import MULTIPLIERS, Plan, PlannedQuery, ReleasePlan
from accounting.privacy import DELTA_RANGE, EPSILON_RANGE, REPLACE_ONE, Relation
from accounting.records.documents import fields, number, text, typed

MAX_QUERIES = 64

_QUERY = TypeAdapter(PlannedQuery)


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return `{"queries": [{name, count, mechanism, noise_multiplier, the mechanism's own fields}]}`.

    `"neighbors"` is added unless they are those of replace_one.

    Raises
    ------
    CodecError
        if it could not be read back: no query or too many, equal names, or a noise multiplier out of range.
    """
    document = _written(plan)
    plan_from_json(document)
    return document


def plan_from_json(document: Any) -> Plan:
    """Return the plan that `plan_to_json` wrote. Raise `CodecError` for anything else."""
    node = fields(document, ("queries",), "a plan", optional=("neighbors",))
    queries, neighbors = node["queries"], node.get("neighbors", REPLACE_ONE)
    if neighbors not in get_args(Relation):
        raise CodecError("neighbors must be replace_one or zero_out")
    if not isinstance(queries, list) or not 1 <= len(queries) <= MAX_QUERIES:
        raise CodecError(f"queries must be a list of 1 to {MAX_QUERIES} queries")
    plan = Plan(tuple(_query(query) for query in queries), neighbors)
    if len({query.name for query in plan.queries}) < len(plan.queries):
        raise CodecError("the queries of a plan must have distinct names")
    if not all(MULTIPLIERS[0] <= query.noise_multiplier <= MULTIPLIERS[1] for query in plan.queries):
        raise CodecError(f"noise_multiplier must lie in [{MULTIPLIERS[0]:g}, {MULTIPLIERS[1]:g}]")
    if _written(plan) != document:
        raise CodecError("the queries differ from the canonical form of their plan")
    return plan


def release_plan_to_json(release: ReleasePlan) -> dict[str, Any]:
    """Return `{plan, epsilon, delta, accountant, accountant_version}`."""
    return {
        "plan": plan_to_json(release.plan),
        "epsilon": release.epsilon,
        "delta": release.delta,
        "accountant": release.accountant,
        "accountant_version": release.accountant_version,
    }


def release_plan_from_json(document: Any) -> ReleasePlan:
    """Return the release plan that `release_plan_to_json` wrote. Raise `CodecError` for anything else."""
    keys = ("plan", "epsilon", "delta", "accountant", "accountant_version")
    release = fields(document, keys, "a release plan")
    return ReleasePlan(
        plan_from_json(release["plan"]),
        number(release["epsilon"], 0.0, EPSILON_RANGE[1], "epsilon"),
        number(release["delta"], 0.0, DELTA_RANGE[1], "delta"),
        text(release["accountant"], "accountant", 64),
        text(release["accountant_version"], "accountant_version", 64),
    )


def _written(plan: Plan) -> dict[str, Any]:
    queries = []
    for query in plan.queries:
        mechanism = asdict(query.mechanism)
        own = {"name": query.name, "count": query.count, "mechanism": mechanism.pop("name")}
        queries.append(own | {"noise_multiplier": query.noise_multiplier} | mechanism)
    return {"queries": queries} if plan.relation == REPLACE_ONE else {"queries": queries, "neighbors": plan.relation}


def _query(document: Any) -> PlannedQuery:
    """Return the query of a document with the mechanism's fields beside its own, and its name as `mechanism`."""
    node = dict(document) if isinstance(document, dict) else {}
    own = {key: node.pop(key) for key in ("name", "count", "noise_multiplier") if key in node}
    mechanism = {"name" if key == "mechanism" else key: value for key, value in node.items()}
    return typed(_QUERY, own | {"mechanism": mechanism}, "a query")
