"""Plans and event trees to and from JSON by an allow-list: exact keys, bounded size, finite numbers.

Nothing is looked up by a name that the document brings along.
An event tree reads as `accounting.mechanisms.events` writes it: a noise multiplier is noise std over the per-record
bound; a sampled event is one answer on one fresh batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from accounting.errors import CodecError, OutOfRange
from accounting.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    ObjectivePerturbation,
    Parallel,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
    Resampled,
    SvrgStep,
    WithoutReplacement,
)
from accounting.mechanisms.parallel import MOST_PARTS, Each
from accounting.mechanisms.random_allocation import MOST_SLOTS
from accounting.mechanisms.random_iterate import MOST_STEPS as MOST_RANDOM_STEPS
from accounting.mechanisms.resampled import MOST_ROWS
from accounting.mechanisms.without_replacement import MOST_ROWS as MOST_SAMPLED_ROWS
from accounting.numbers import LEAST_RATE
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.privacy import DELTA_RANGE, EPSILON_RANGE
from accounting.records.documents import canonical, fields, integer, number, parse, text

MAX_DEPTH = 8
MAX_NODES = 384
MAX_QUERIES = 64  # five events each, at most, and one around them
MAX_COUNT = 2**53
MULTIPLIER_RANGE = (1e-3, 1e12)
RATIO_RANGE = (1e-12, 1e6)

_Leaf = tuple[int, Mechanism, float]


def event_to_plan(event: Any) -> Plan:
    """The plan whose answers the event tree lists: one query per leaf, counts multiplied down the tree.

    Parameters
    ----------
    event : JSON value, at most 8 deep and 384 nodes

    Raises
    ------
    CodecError
        for an unknown type or key, a missing key, a number out of range, an empty or too large tree.
    """
    leaves = list(_leaves(event, 1, 1, iter(range(MAX_NODES))))
    return Plan(tuple(_query(f"query_{i}", count, mechanism, z) for i, (count, mechanism, z) in enumerate(leaves, 1)))


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """`{"queries": [{name, count, mechanism, noise_multiplier, the mechanism's own fields}]}`.

    Raises
    ------
    CodecError
        if that could not be read back: too many queries, equal names, a number out of range.
    """
    document = {"queries": [_query_to_json(query) for query in plan.queries]}
    plan_from_json(document)
    return document


def plan_from_json(document: Any) -> Plan:
    """The plan that `plan_to_json` wrote; `CodecError` for anything else."""
    queries = fields(document, ("queries",), "a plan")["queries"]
    if not isinstance(queries, list) or not 1 <= len(queries) <= MAX_QUERIES:
        raise CodecError(f"a plan holds a list of 1 to {MAX_QUERIES} queries")
    plan = Plan(tuple(_query_from_json(query) for query in queries))
    if len({query.name for query in plan.queries}) < len(plan.queries):
        raise CodecError("the queries of a plan have distinct names")
    return plan


def release_plan_to_json(release: ReleasePlan) -> dict[str, Any]:
    """`{plan, epsilon, delta, accountant, accountant_version}`."""
    return {
        "plan": plan_to_json(release.plan),
        "epsilon": release.epsilon,
        "delta": release.delta,
        "accountant": release.accountant,
        "accountant_version": release.accountant_version,
    }


def release_plan_from_json(document: Any) -> ReleasePlan:
    """The release plan that `release_plan_to_json` wrote; `CodecError` for anything else."""
    keys = ("plan", "epsilon", "delta", "accountant", "accountant_version")
    release = fields(document, keys, "a release plan")
    return ReleasePlan(
        plan_from_json(release["plan"]),
        number(release["epsilon"], 0.0, EPSILON_RANGE[1], "epsilon"),
        number(release["delta"], 0.0, DELTA_RANGE[1], "delta"),
        text(release["accountant"], "accountant", 64),
        text(release["accountant_version"], "accountant_version", 64),
    )


def _leaves(event: Any, count: int, depth: int, nodes: Iterator[int]) -> Iterator[_Leaf]:
    if depth > MAX_DEPTH or next(nodes, None) is None:
        raise CodecError(f"an event tree is at most {MAX_DEPTH} deep and holds at most {MAX_NODES} events")
    if not isinstance(event, dict):
        raise CodecError("an event must be an object")
    match event.get("type"):
        case "GaussianDpEvent":
            yield count, Gaussian(), _multiplier(event)
        case "LaplaceDpEvent":
            node = fields(event, ("type", "noise_multiplier"), "a Laplace event")
            yield count, Laplace(), number(node["noise_multiplier"], *MULTIPLIER_RANGE, "noise_multiplier")
        case "ExponentialMechanismDpEvent":
            node = fields(event, ("type", "epsilon"), "a choice")
            least, most = MULTIPLIER_RANGE
            yield count, Exponential(), 2.0 / number(node["epsilon"], 2.0 / most, 2.0 / least, "epsilon")
        case "PoissonSampledDpEvent":
            node = fields(event, ("type", "sampling_probability", "event"), "a sampled event")
            if next(nodes, None) is None:
                raise CodecError(f"an event tree holds at most {MAX_NODES} events")
            yield count, PoissonGaussian(_rate(node["sampling_probability"])), _multiplier(node["event"])
        case "RandomIterateDpEvent":
            node = fields(event, ("type", "steps", "event"), "a random iterate's event")
            if next(nodes, None) is None:
                raise CodecError(f"an event tree holds at most {MAX_NODES} events")
            yield count, RandomIterate(_random_steps(node["steps"])), _multiplier(node["event"])
        case "ObjectivePerturbationDpEvent":
            node = fields(event, ("type", "curvature_ratio", "event"), "an objective perturbation event")
            if next(nodes, None) is None:
                raise CodecError(f"an event tree holds at most {MAX_NODES} events")
            yield count, ObjectivePerturbation(_ratio(node["curvature_ratio"])), _multiplier(node["event"])
        case "RandomAllocationDpEvent":
            node = fields(event, ("type", "rate", "slots", "form", "event"), "an allocated event")
            if next(nodes, None) is None:
                raise CodecError(f"an event tree holds at most {MAX_NODES} events")
            mechanism = RandomAllocation(_rate(node["rate"]), _slots(node["slots"]), _form(node["form"]))
            yield count, mechanism, _multiplier(node["event"])
        case "SampledWithoutReplacementDpEvent":
            keys = ("type", "source_dataset_size", "sample_size", "event")
            node = fields(event, keys, "an event sampled without replacement")
            if next(nodes, None) is None:
                raise CodecError(f"an event tree holds at most {MAX_NODES} events")
            rows = _sampled_rows(node["source_dataset_size"])
            batch = integer(node["sample_size"], 1, rows, "sample_size")
            yield count, WithoutReplacement(batch, rows), _multiplier(node["event"])
        case "SampledWithReplacementDpEvent":
            keys = ("type", "source_dataset_size", "sample_size", "event")
            node = fields(event, keys, "a resampled event")
            if next(nodes, None) is None:
                raise CodecError(f"an event tree holds at most {MAX_NODES} events")
            rows = integer(node["source_dataset_size"], 2, MOST_ROWS, "source_dataset_size")
            integer(node["sample_size"], rows, rows, "sample_size")
            yield count, Resampled(Laplace(), rows), _laplace(node["event"])
        case "SelfComposedDpEvent":
            node = fields(event, ("type", "count", "event"), "a self-composed event")
            times = count * integer(node["count"], 1, MAX_COUNT, "count")
            yield from _leaves(node["event"], times, depth + 1, nodes)
        case "ComposedDpEvent":
            events = fields(event, ("type", "events"), "a composed event")["events"]
            if not isinstance(events, list) or not events:
                raise CodecError("a composed event holds a list of events")
            for part in events:
                yield from _leaves(part, count, depth + 1, nodes)
        case _:
            raise CodecError("an event's type must be one of those this service knows")


def _multiplier(event: Any) -> float:
    """The multiplier of a Gaussian leaf. Only a leaf may be sampled: a composition would reuse its batch."""
    node = fields(event, ("type", "noise_multiplier"), "a Gaussian event")
    if node["type"] != "GaussianDpEvent":
        raise CodecError("a sampled event must hold a Gaussian event")
    return number(node["noise_multiplier"], *MULTIPLIER_RANGE, "noise_multiplier")


def _laplace(event: Any) -> float:
    """The multiplier of a Laplace leaf."""
    node = fields(event, ("type", "noise_multiplier"), "a Laplace event")
    if node["type"] != "LaplaceDpEvent":
        raise CodecError("a resampled event must hold a Laplace event")
    return number(node["noise_multiplier"], *MULTIPLIER_RANGE, "noise_multiplier")


def _rate(value: Any) -> float:
    return number(value, LEAST_RATE, 1.0, "sampling probability")


def _steps(value: Any) -> int:
    return integer(value, 1, MAX_COUNT, "steps")


def _random_steps(value: Any) -> int:
    return integer(value, 2, MOST_RANDOM_STEPS, "steps")


def _contraction(value: Any) -> float:
    return number(value, 0.0, 1.0, "contraction")


def _parts(value: Any) -> int:
    return integer(value, 1, MOST_PARTS, "parts")


def _rows(value: Any) -> int:
    return integer(value, 2, MOST_ROWS, "rows")


def _run(value: Any) -> Laplace | Parallel:
    """The pure mechanism of a run on drawn rows."""
    if isinstance(value, dict) and value.get("name") == "parallel":
        node = fields(value, ("name", "each", "parts"), "the mechanism of drawn rows")
        return Parallel(_each(node["each"]), _parts(node["parts"]))
    each = _each(value)
    if not isinstance(each, Laplace):
        raise CodecError("only a pure mechanism can run on drawn rows")
    return each


def _each(value: Any) -> Each:
    """The mechanism of one part: one that has no fields of its own."""
    name = fields(value, ("name",), "the mechanism of one part")["name"]
    if not isinstance(name, str) or name not in _OF_PARTS:
        raise CodecError("the mechanism of one part must be one that this service knows")
    return _OF_PARTS[name]()


def _ratio(value: Any) -> float:
    return number(value, *RATIO_RANGE, "curvature ratio")


def _slots(value: Any) -> int:
    return integer(value, 1, MOST_SLOTS, "slots")


def _sampled_rows(value: Any) -> int:
    return integer(value, 1, MOST_SAMPLED_ROWS, "rows of a dataset or a batch")


def _form(value: Any) -> Any:
    if value not in ("independent", "ordered"):
        raise CodecError("an allocation's form is 'independent' or 'ordered'")
    return value


def _query(name: str, count: int, mechanism: Mechanism, noise_multiplier: float) -> PlannedQuery:
    try:
        return PlannedQuery(name, count, mechanism, noise_multiplier)
    except OutOfRange as error:
        raise CodecError("a query's count is out of range") from error


def _query_to_json(query: PlannedQuery) -> dict[str, Any]:
    mechanism = asdict(query.mechanism)
    name = mechanism.pop("name")
    written = {"name": query.name, "count": query.count, "mechanism": name, "noise_multiplier": query.noise_multiplier}
    return written | mechanism


def _query_from_json(document: Any) -> PlannedQuery:
    name = document.get("mechanism") if isinstance(document, dict) else None
    if not isinstance(name, str) or name not in _MECHANISMS:
        raise CodecError("a query's mechanism must be one that this service knows")
    make, readers = _MECHANISMS[name]
    node = fields(document, ("name", "count", "mechanism", "noise_multiplier", *readers), "a query")
    try:
        mechanism = make(**{field: read(node[field]) for field, read in readers.items()})
    except OutOfRange as error:
        raise CodecError("a field of a query's mechanism is out of range") from error
    return _query(
        text(node["name"], "name", 64),
        integer(node["count"], 1, MAX_COUNT, "count"),
        mechanism,
        number(node["noise_multiplier"], *MULTIPLIER_RANGE, "noise_multiplier"),
    )


_MECHANISMS: dict[str, tuple[Callable[..., Mechanism], dict[str, Callable[[Any], Any]]]] = {
    "gaussian": (Gaussian, {}),
    "last_iterate": (LastIterate, {"steps": _steps, "contraction": _contraction}),
    "exponential": (Exponential, {}),
    "laplace": (Laplace, {}),
    "objective_perturbation": (ObjectivePerturbation, {"curvature_ratio": _ratio}),
    "parallel": (Parallel, {"each": _each, "parts": _parts}),
    "poisson_gaussian": (PoissonGaussian, {"rate": _rate}),
    "random_iterate": (RandomIterate, {"steps": _random_steps}),
    "random_allocation": (RandomAllocation, {"rate": _rate, "slots": _slots, "form": _form}),
    "svrg_step": (SvrgStep, {"batch": _sampled_rows, "rows": _sampled_rows}),
    "without_replacement": (WithoutReplacement, {"batch": _sampled_rows, "rows": _sampled_rows}),
    "resampled": (Resampled, {"each": _run, "rows": _rows}),
}
"""Every mechanism by its name, with a reader for each of its own fields: the allow-list."""

_OF_PARTS: dict[str, Callable[[], Each]] = {"gaussian": Gaussian, "laplace": Laplace}


__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "MAX_QUERIES",
    "MULTIPLIER_RANGE",
    "canonical",
    "event_to_plan",
    "parse",
    "plan_from_json",
    "plan_to_json",
    "release_plan_from_json",
    "release_plan_to_json",
]
