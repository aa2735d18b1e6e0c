"""Plans and event trees as JSON: an allow-list, and nothing beside it."""

import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.errors import CodecError
from accounting.mechanisms import Gaussian, PoissonGaussian, WithoutReplacement
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.records.codec import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_QUERIES,
    canonical,
    event_to_plan,
    parse,
    plan_from_json,
    plan_to_json,
    release_plan_from_json,
    release_plan_to_json,
)

GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 3.5}
SAMPLED = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": GAUSSIAN}


def repeated(event: Any, count: Any) -> dict[str, Any]:
    return {"type": "SelfComposedDpEvent", "count": count, "event": event}


def composed(*events: Any) -> dict[str, Any]:
    return {"type": "ComposedDpEvent", "events": list(events)}


batches = st.integers(1, 10**10).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))
mechanisms = (
    st.just(Gaussian())
    | st.builds(PoissonGaussian, st.floats(1e-9, 1.0))
    | batches.map(lambda sizes: WithoutReplacement(*sizes))
)
queries = st.builds(PlannedQuery, st.just("q"), st.integers(1, 10**9), mechanisms, st.floats(1e-3, 1e12))
plans = st.lists(queries, min_size=1, max_size=6).map(
    lambda qs: Plan(tuple(PlannedQuery(f"q{i}", q.count, q.mechanism, q.noise_multiplier) for i, q in enumerate(qs)))
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# documents that come close: our own types and keys around arbitrary values
NEAR = st.recursive(
    JSON | st.just(GAUSSIAN) | st.builds(lambda z: GAUSSIAN | {"noise_multiplier": z}, JSON),
    lambda inner: (
        st.builds(repeated, inner, st.integers() | JSON)
        | st.lists(inner, max_size=3).map(lambda events: composed(*events))
        | st.builds(lambda e, q: SAMPLED | {"event": e, "sampling_probability": q}, inner, st.floats() | JSON)
    ),
    max_leaves=6,
)


@given(plans)
def test_what_a_plan_writes_reads_back_the_same(plan: Plan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan
    assert plan_from_json(parse(canonical(plan_to_json(plan)))) == plan
    release = ReleasePlan(plan, 0.5, 1e-6, "pld", "1")
    assert release_plan_from_json(parse(canonical(release_plan_to_json(release)))) == release
    again = event_to_plan(parse(canonical(plan.event())))
    assert again.event() == plan.event()
    assert [(q.count, q.mechanism, q.noise_multiplier) for q in again.queries] == [
        (q.count, q.mechanism, q.noise_multiplier) for q in plan.queries
    ]


@pytest.mark.slow
@given(NEAR)
@settings(max_examples=500, deadline=None)
def test_anything_else_is_refused_and_nothing_else_is_raised(document: Any) -> None:
    for read in (event_to_plan, plan_from_json, release_plan_from_json, lambda d: plan_from_json({"queries": d})):
        try:
            result = read(document)
        except CodecError:
            continue
        assert isinstance(result, Plan | ReleasePlan)
    try:
        plan = event_to_plan(document)
    except CodecError:
        return
    assert all(math.isfinite(q.noise_multiplier) and 1 <= q.count <= 10**9 for q in plan.queries)


def test_counts_multiply_down_the_tree() -> None:
    tree = composed(repeated(composed(GAUSSIAN, repeated(SAMPLED, 7)), 6), GAUSSIAN)
    assert [(q.name, q.count, q.mechanism) for q in event_to_plan(tree).queries] == [
        ("query_1", 6, Gaussian()),
        ("query_2", 42, PoissonGaussian(0.01)),
        ("query_3", 1, Gaussian()),
    ]


BAD_EVENTS: dict[str, Any] = {
    "null": None,
    "list": [GAUSSIAN],
    "text": "GaussianDpEvent",
    "empty": {},
    "no type": {"noise_multiplier": 1.0},
    "unknown type": {"type": "ZCDpEvent", "noise_multiplier": 1.0},
    "a module path": {"type": "os.system", "noise_multiplier": 1.0},
    "a class to import": {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent"},
    "an unhashable type": {"type": ["GaussianDpEvent"], "noise_multiplier": 1.0},
    "a private extra": GAUSSIAN | {"_": 1},
    "a missing key": {"type": "GaussianDpEvent"},
    "NaN": GAUSSIAN | {"noise_multiplier": math.nan},
    "infinity": GAUSSIAN | {"noise_multiplier": math.inf},
    "zero": GAUSSIAN | {"noise_multiplier": 0.0},
    "negative": GAUSSIAN | {"noise_multiplier": -1.0},
    "subnormal": GAUSSIAN | {"noise_multiplier": 5e-324},
    "huge": GAUSSIAN | {"noise_multiplier": 1e300},
    "a huge integer": GAUSSIAN | {"noise_multiplier": 10**400},
    "a bool": GAUSSIAN | {"noise_multiplier": True},
    "a number in a string": GAUSSIAN | {"noise_multiplier": "1.0"},
    "an array": GAUSSIAN | {"noise_multiplier": [1.0]},
    "rate 0": SAMPLED | {"sampling_probability": 0.0},
    "rate above 1": SAMPLED | {"sampling_probability": 1.0000001},
    "rate NaN": SAMPLED | {"sampling_probability": math.nan},
    "rate bool": SAMPLED | {"sampling_probability": True},
    "sampled twice": SAMPLED | {"event": SAMPLED},
    "a batch used twice": SAMPLED | {"event": repeated(GAUSSIAN, 2)},
    "a sampled composition": SAMPLED | {"event": composed(GAUSSIAN)},
    "nothing sampled": {k: v for k, v in SAMPLED.items() if k != "event"},
    "count 0": repeated(GAUSSIAN, 0),
    "count negative": repeated(GAUSSIAN, -1),
    "count float": repeated(GAUSSIAN, 2.0),
    "count bool": repeated(GAUSSIAN, True),
    "count text": repeated(GAUSSIAN, "2"),
    "count past 2^53": repeated(GAUSSIAN, 2**53 + 1),
    "count past 10^9": repeated(GAUSSIAN, 10**9 + 1),
    "count past 10^9 in steps": repeated(repeated(GAUSSIAN, 10**5), 10**5),
    "nothing composed": composed(),
    "no list": {"type": "ComposedDpEvent", "events": {"0": GAUSSIAN}},
    "one bad part": composed(GAUSSIAN, None),
    "NoOp": {"type": "NoOpDpEvent"},
}


@pytest.mark.parametrize("event", BAD_EVENTS.values(), ids=BAD_EVENTS.keys())
def test_bad_events_are_refused(event: Any) -> None:
    for tree in (event, composed(GAUSSIAN, event), repeated(event, 2)):
        with pytest.raises(CodecError):
            event_to_plan(tree)


def test_depth_and_size_are_bounded() -> None:
    def nested(depth: int) -> Any:
        return GAUSSIAN if depth == 1 else composed(nested(depth - 1))

    assert event_to_plan(nested(MAX_DEPTH)).queries
    with pytest.raises(CodecError, match="deep"):
        event_to_plan(nested(MAX_DEPTH + 1))
    with pytest.raises(CodecError, match="deep"):
        event_to_plan(nested(900))
    assert len(event_to_plan(composed(*[GAUSSIAN] * (MAX_NODES - 1))).queries) == MAX_NODES - 1
    with pytest.raises(CodecError, match="at most"):
        event_to_plan(composed(*[GAUSSIAN] * MAX_NODES))
    with pytest.raises(CodecError, match="at most"):
        event_to_plan(composed(*[SAMPLED] * (MAX_NODES // 2)))
    # a bush: every level doubles; refused after 384 nodes, not after 8^8
    bush: Any = GAUSSIAN
    for _ in range(7):
        bush = composed(*[bush] * 8)
    with pytest.raises(CodecError, match="at most"):
        event_to_plan(bush)


def test_the_largest_plan_has_an_event_tree_that_reads_back() -> None:
    most = tuple(PlannedQuery(f"q{i}", 2, PoissonGaussian(0.5), 3.0) for i in range(MAX_QUERIES))
    assert event_to_plan(Plan(most).event()).event() == Plan(most).event()
    assert plan_from_json(plan_to_json(Plan(most))) == Plan(most)


@pytest.mark.parametrize(
    "queries",
    [
        (),
        tuple(PlannedQuery(f"q{i}", 1, Gaussian(), 3.0) for i in range(MAX_QUERIES + 1)),
        (PlannedQuery("q", 1, Gaussian(), 3.0),) * 2,
        (PlannedQuery("q", 1, Gaussian(), 1e-5),),
        (PlannedQuery("", 1, Gaussian(), 1.0),),
    ],
    ids=["none", "too many", "equal names", "little noise", "no name"],
)
def test_a_plan_that_could_not_be_read_back_is_not_written(queries: tuple[PlannedQuery, ...]) -> None:
    with pytest.raises(CodecError):
        plan_to_json(Plan(queries))


PLAN = {"queries": [{"name": "g", "count": 2, "mechanism": "gaussian", "noise_multiplier": 3.0}]}
SAMPLED_QUERY = {"name": "s", "count": 2, "mechanism": "poisson_gaussian", "noise_multiplier": 3.0, "rate": 0.5}


@pytest.mark.parametrize(
    "query",
    [
        {"mechanism": "cauchy"},
        {"mechanism": None},
        {"mechanism": ["gaussian"]},
        {"rate": 0.5},
        {"rate": None},
        {"mechanism": "poisson_gaussian"},
        {"mechanism": "poisson_gaussian", "rate": 0},
        {"mechanism": "poisson_gaussian", "rate": "0.5"},
        {"count": 0},
        {"count": 1.0},
        {"count": 10**9 + 1},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": "3"},
        {"noise_multiplier": 1e-4},
        {"name": ""},
        {"name": "a\x00b"},
        {"name": "x" * 65},
        {"name": 7},
        {"weight": 1.0},
    ],
    ids=repr,
)
def test_bad_queries_are_refused(query: dict[str, Any]) -> None:
    assert plan_from_json(PLAN)
    assert plan_from_json({"queries": [*PLAN["queries"], SAMPLED_QUERY]})
    with pytest.raises(CodecError):
        plan_from_json({"queries": [PLAN["queries"][0] | query]})


@pytest.mark.parametrize(
    "document", [None, [], {}, {"queries": []}, {"queries": {}}, {"queries": PLAN["queries"] * 2}, PLAN | {"seed": 1}]
)
def test_bad_plans_are_refused(document: Any) -> None:
    with pytest.raises(CodecError):
        plan_from_json(document)


@pytest.mark.parametrize(
    "change",
    [{"epsilon": math.nan}, {"epsilon": -1.0}, {"epsilon": 101}, {"delta": 0.5}, {"delta": True}, {"accountant": 3},
     {"accountant_version": ""}, {"plan": {}}, {"seed": 1}],
    ids=repr,
)  # fmt: skip
def test_bad_release_plans_are_refused(change: dict[str, Any]) -> None:
    document = release_plan_to_json(ReleasePlan(plan_from_json(PLAN), 0.5, 1e-6, "rdp", "1"))
    assert release_plan_from_json(document)
    with pytest.raises(CodecError):
        release_plan_from_json(document | change)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 2**53, -(2**53), 10**400, {1: 2}, {None: 1}, b"bytes", object(), {1, 2}, "\ud800",
     {"\udfff": 1}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    for document in (value, [value], {"a": value}):
        with pytest.raises(CodecError):
            canonical(document)


def test_nesting_too_deep_is_refused_and_not_a_crash() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CodecError):
        canonical(deep)
    with pytest.raises(CodecError):
        parse("[" * 100_000)


def test_canonical_bytes_are_those_of_rfc_8785() -> None:
    """The example of RFC 8785, section 3.2.2 and 3.2.3."""
    document = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert canonical(document).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    keys = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    assert list(json.loads(canonical(keys)).values()) == [2, 4, 6, 7, 1, 5, 3]


@given(JSON)
def test_canonical_is_a_function_of_the_value(document: Any) -> None:
    try:
        raw = canonical(document)
    except CodecError:
        return
    assert raw == rfc8785.dumps(document)


@pytest.mark.parametrize(
    "raw",
    ['{"a": 1, "a": 1}', '{"x": {"a": 1, "b": 2, "a": 3}}', '{"a":1,"\\u0061":2}', "NaN", "[Infinity]", "[-Infinity]",
     "1e999", "[-1e999]", "", "{", "{'a': 1}", "1 2", b"\xff", b"\xef\xbb\xbf{}", "[" + "9" * 5000 + "]"],
    ids=lambda raw: repr(raw)[:20],
)  # fmt: skip
def test_parse_refuses(raw: str | bytes) -> None:
    with pytest.raises(CodecError):
        parse(raw)


def test_parse_reads_json() -> None:
    assert parse(b'{"a": [1, 2.5, "x", null, true]}') == {"a": [1, 2.5, "x", None, True]}
    assert parse('"\u20ac"') == "€"
