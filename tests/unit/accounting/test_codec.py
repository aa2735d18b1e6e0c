"""Plans and event trees as JSON, of which only listed fields are accepted."""

import contextlib
import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.errors import CalibrationFailed, CodecError, OutOfRange
from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian, WithoutReplacement
from accounting.plan import Plan, PlannedQuery, Query, ReleasePlan
from accounting.records.codec import (
    MAX_QUERIES,
    plan_from_json,
    plan_to_json,
    release_plan_from_json,
    release_plan_to_json,
)
from accounting.records.documents import canonical, parse
from tests.support.json_values import json_values

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
INTEGERS = st.integers(1 - 2**53, 2**53 - 1) | st.sampled_from([2**53 + 1, -(2**53) - 1, 10**21, -(10**400)])
JSON = json_values(INTEGERS)
# documents that come close: our own keys around arbitrary values
OWN = st.sampled_from(
    ["name", "count", "mechanism", "noise_multiplier", "rate", "batch", "rows", "steps", "each", "parts"]
)
NAMES = st.sampled_from(["gaussian", "poisson_gaussian", "parallel", "resampled", "svrg_step", "last_iterate"])
VALUES = JSON | NAMES | st.integers(1, 9) | st.floats(0.1, 1.0) | NAMES.map(lambda name: {"name": name})
SIMILAR_DOCUMENTS = st.dictionaries(OWN, VALUES) | st.builds(
    lambda own, extra: {"name": "q", "count": 2, "mechanism": "gaussian", "noise_multiplier": 3.0} | own | extra,
    st.fixed_dictionaries({"mechanism": NAMES}),
    st.dictionaries(OWN, VALUES, max_size=3),
)


@pytest.mark.slow
@given(plans)
def test_a_written_plan_reads_back_the_same(plan: Plan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan
    assert plan_from_json(parse(canonical(plan_to_json(plan)))) == plan
    release = ReleasePlan(plan, 0.5, 1e-6, "pld", "1")
    assert release_plan_from_json(parse(canonical(release_plan_to_json(release)))) == release
    assert parse(canonical(plan.event())) == json.loads(json.dumps(plan.event()))


@pytest.mark.slow
@given(SIMILAR_DOCUMENTS)
@settings(max_examples=200, deadline=None)
def test_anything_else_is_refused_and_nothing_else_is_raised(document: Any) -> None:
    for candidate in (document, {"queries": document}, {"queries": [document]}):
        for read in (plan_from_json, release_plan_from_json):
            try:
                decoded = read(candidate)
            except CodecError:
                continue
            plan = decoded.plan if isinstance(decoded, ReleasePlan) else decoded
            assert isinstance(plan, Plan)
            assert plan_to_json(plan) == candidate
            assert all(math.isfinite(q.noise_multiplier) and 1 <= q.count <= 10**9 for q in plan.queries)


@pytest.mark.parametrize(
    "queries",
    [
        (),
        tuple(PlannedQuery(f"q{i}", 1, Gaussian(), 3.0) for i in range(MAX_QUERIES + 1)),
        (PlannedQuery("q", 1, Gaussian(), 3.0),) * 2,
        (PlannedQuery("q", 1, Gaussian(), 1e-5),),
        (PlannedQuery("q", 1, Gaussian(), 1e13),),
    ],
    ids=["none", "too many", "equal names", "little noise", "much noise"],
)
def test_a_plan_that_could_not_be_read_back_is_not_written(queries: tuple[PlannedQuery, ...]) -> None:
    with pytest.raises(CodecError):
        plan_to_json(Plan(queries))


@pytest.mark.parametrize("make", [PlannedQuery, Query])
def test_a_query_that_could_not_be_written_is_refused(make: Any) -> None:
    for name in ("", "x" * 65, "a\x00", "a\n"):
        with pytest.raises(OutOfRange):
            make(name, 1, Gaussian(), 1.0)
    for count in (0, 10**9 + 1, 1.0, True):
        with pytest.raises(OutOfRange):
            make("q", count, Gaussian(), 1.0)
    for value in (math.nan, math.inf, 0.0, -1.0, True):
        with pytest.raises(OutOfRange):
            make("q", 1, Gaussian(), value)


@pytest.mark.slow
@pytest.mark.parametrize(("weight", "count"), [(1e-6, 10**9), (1e6, 1)])
@pytest.mark.parametrize(
    "privacy", [Privacy(1e-3), Privacy(1e-3, 1e-12), Privacy(100.0, 1e-2), Privacy(100.0)], ids=repr
)
def test_every_calibrated_plan_can_be_written(privacy: Privacy, weight: float, count: int) -> None:
    """Shares at the ends of their range take much noise, or little."""
    mechanism = Laplace() if privacy.is_pure else PoissonGaussian(1e-9)
    with contextlib.suppress(CalibrationFailed):
        plan = calibrate((Query("a", 1, Laplace()), Query("b", count, mechanism, weight)), privacy).plan
        assert plan_from_json(plan_to_json(plan)) == plan


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
    [math.nan, math.inf, -math.inf, 2**53 + 1, -(2**53) - 1, 10**21, 10**400, {1: 2}, {None: 1}, {True: 2}, b"bytes",
     object(), {1, 2}, "\ud800", {"\udfff": 1}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_without_a_canonical_form_are_refused(value: Any) -> None:
    for document in (value, [value], {"a": value}):
        with pytest.raises(CodecError):
            canonical(document)


@pytest.mark.slow
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


@pytest.mark.slow
@given(JSON)
def test_canonical_is_a_function_of_the_value(document: Any) -> None:
    try:
        expected = rfc8785.dumps(document)
    except rfc8785.CanonicalizationError:
        with pytest.raises(CodecError):
            canonical(document)
    else:
        assert canonical(document) == expected


@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(2.0**53, 1e22))
@example(2.0**53)
@example(-(2.0**53))
@example(1.2345678901234568e20)
@example(1e21)
def test_a_parsed_document_has_the_same_canonical_form(value: float) -> None:
    """Floats from 2^53 to 10^21 are written without an exponent, and therefore read as integers."""
    written = canonical({"a": [value]})
    assert canonical(parse(written)) == written
    assert canonical(json.loads(written)) == written


@pytest.mark.parametrize(
    "raw",
    ['{"a": 1, "a": 1}', '{"x": {"a": 1, "b": 2, "a": 3}}', '{"a":1,"\\u0061":2}', "NaN", "[Infinity]", "[-Infinity]",
     "1e999", "[-1e999]", "", "{", "{'a': 1}", "1 2", b"\xff", b"\xef\xbb\xbf{}", "[" + "9" * 5000 + "]"],
    ids=lambda raw: repr(raw)[:20],
)  # fmt: skip
def test_parse_refuses(raw: str | bytes) -> None:
    with pytest.raises(CodecError):
        parse(raw)
