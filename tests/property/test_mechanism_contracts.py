"""Every mechanism of the union keeps the contracts on documents, curves and noise."""

import math
import sys
from dataclasses import fields
from functools import reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from accounting.accountants import ACCOUNTANTS, GaussianAccountant, PldAccountant
from accounting.calibration import certify
from accounting.charges import UNAFFORDABLE_UNITS, UNIT, smallest_share
from accounting.divergences import randomized_response
from accounting.errors import CodecError, OutOfRange
from accounting.filter import Filter
from accounting.mechanisms import Gaussian, Mechanism, Resampled, Selection, SvrgStep
from accounting.mechanisms.mechanism import AbstractMechanism
from accounting.noise import Noise
from accounting.numbers import finite
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.privacy import Privacy, Relation
from accounting.records.codec import plan_from_json, plan_to_json, release_plan_from_json, release_plan_to_json
from accounting.records.documents import canonical, parse
from accounting.records.receipt import recompute
from tests.support.receipts import make
from tests.support.seeded import SeededBits

MEMBERS = get_args(Mechanism)
PROOFS = Path(__file__).parents[2] / "docs" / "proofs"
RULE = Filter.open("gdp_rdp", Privacy(3.0, 1e-6))
ORDERS = [1.05, 1.5, 2.0, 5.0, 22.0, 64.0]
BAD_VALUES: tuple[Any, ...] = (math.nan, math.inf, True, "1", None, [], {}, -1, 10**400)

multipliers = st.floats(0.8, 1e4)


def of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field, found from its type: a new mechanism needs no line here."""
    if get_origin(kind) is Annotated:
        return of(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*map(of, get_args(kind)))
    if kind is int:
        return st.integers(1, 60)
    if kind is float:
        return st.floats(0.01, 1.0)
    return _built(kind)


@st.composite
def _built(draw: st.DrawFn, member: type[Any]) -> Any:
    hints = get_type_hints(member, include_extras=True)
    values = {field.name: draw(of(hints[field.name])) for field in fields(member) if field.name != "name"}
    try:
        return member(**values)
    except OutOfRange:
        reject()


def every_mechanism(test: Any, examples: int = 6) -> Any:
    return pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.__name__)(
        settings(max_examples=examples, deadline=None)(given(data=st.data(), z=multipliers)(test))
    )


def every_accounted_mechanism(test: Any) -> Any:
    return pytest.mark.slow(every_mechanism(test, examples=3))


def plan_of(mechanism: Mechanism, z: float, count: int = 3) -> Plan:
    return Plan((PlannedQuery("asked", count, mechanism, z),))


@every_mechanism
def test_plans_are_restored_from_json_and_changed_documents_are_refused(
    member: type[Any], data: st.DataObject, z: float
) -> None:
    plan = plan_of(data.draw(of(member)), z)
    assert plan_from_json(parse(canonical(plan_to_json(plan)))) == plan
    release = ReleasePlan(plan, 0.5, 1e-6, "pld", "1")
    assert release_plan_from_json(parse(canonical(release_plan_to_json(release)))) == release
    (query,) = plan_to_json(plan)["queries"]
    for key in query:
        with pytest.raises(CodecError):
            plan_from_json({"queries": [{other: value for other, value in query.items() if other != key}]})
        for value in BAD_VALUES:
            if not (key == "name" and value == "1"):
                with pytest.raises(CodecError):
                    plan_from_json({"queries": [query | {key: value}]})
    with pytest.raises(CodecError):
        plan_from_json({"queries": [query | {"seed": 1}]})
    with pytest.raises(CodecError):
        plan_from_json({"queries": [query | {"mechanism": query["mechanism"] + "_"}]})


@every_accounted_mechanism
def test_a_receipt_recomputes_only_with_its_own_event(member: type[Any], data: st.DataObject, z: float) -> None:
    mechanism = data.draw(of(member))
    n = mechanism.rows if isinstance(mechanism, Resampled) else 20_000
    assume(getattr(getattr(mechanism, "each", None), "parts", 1) <= n)
    plan = plan_of(mechanism, z, data.draw(st.integers(1, 3)))
    epsilon, accountant = certify(plan, 1e-6)
    if not epsilon <= 100:
        return
    release = ReleasePlan(plan, epsilon, 1e-6, accountant.name, accountant.version)
    built = parse(canonical(make(release_plan=release, transcript=plan, records=n, **_runs(plan.queries[0]))))
    assert recompute(built).epsilon <= epsilon * (1 + 1e-9)
    places = list(_leaves(built["event"], ()))
    assert len(places) >= 2
    for place, value in places:
        assert isinstance(value, str) or math.isfinite(finite(value, "a number of an event"))
        changed = f"{value}_" if isinstance(value, str) else value * (1 + 1e-6) + (type(value) is int)
        with pytest.raises(ValueError, match="differ"):
            recompute(built | {"event": _replaced(built["event"], place, changed)})


def _runs(query: PlannedQuery) -> dict[str, Any]:
    """The method of a receipt, where it has to say what was chosen among: runs that cost what the choice allows."""
    if not isinstance(query.mechanism, Selection):
        return {}
    run = {"plan": plan_to_json(plan_of(Gaussian(), query.noise_multiplier, 1))}
    return {"method": {"name": "tuning", "repeats": query.mechanism.runs, "trials": [run]}}


@every_mechanism
def test_curves_are_finite_grow_with_the_order_and_fall_with_noise(
    member: type[Any], data: st.DataObject, z: float
) -> None:
    mechanism = data.draw(of(member))
    curve, quieter = mechanism.curves(z).rdp(ORDERS), mechanism.curves(z * 1.1).rdp(ORDERS)
    assert np.isfinite(curve).all()
    assert (curve > 0).all()
    assert (np.diff(curve) >= -1e-5 * curve[1:]).all()  # each point is rounded up by itself, by up to 1e-6
    assert (quieter <= curve * (1 + 1e-9)).all()
    assert type(mechanism.answers) is int
    assert mechanism.answers >= 1


@every_mechanism
def test_the_curves_of_a_mechanism_are_consistent(member: type[Any], data: st.DataObject, z: float) -> None:
    """mu-GDP implies rho(a) <= a mu^2 / 2; epsilon-DP implies rho <= epsilon and the mu of randomized response."""
    mechanism, orders = data.draw(of(member)), np.array(ORDERS)
    curves, noisier = mechanism.curves(z), mechanism.curves(z * 1.1)
    curve, gdp, bound, pure = curves.rdp(ORDERS), curves.gdp, curves.gdp_bound, curves.pure
    if gdp is not None:
        assert bound is not None
        assert gdp <= bound * (1 + 1e-12)
        assert (curve <= orders * gdp**2 / 2 * (1 + 2e-6)).all()
    if bound is not None:
        assert (curve <= orders * bound**2 / 2 * (1 + 2e-6)).all()
        assert noisier.gdp_bound <= bound
    if pure is not None:
        assert (curve <= pure * (1 + 1e-9)).all()
        assert gdp is not None
        assert gdp <= randomized_response.gdp(pure) * (1 + 1e-12)
        assert noisier.pure <= pure


@pytest.mark.slow
@every_mechanism
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_the_default_filter_has_a_charge_for_each_mechanism(
    member: type[Any], data: st.DataObject, z: float, relation: Relation
) -> None:
    """More noise costs less in every coordinate. A plan that fits alone is within the budget."""
    mechanism, count = data.draw(of(member)), data.draw(st.integers(1, 3))
    plan, quieter = (Plan((PlannedQuery("asked", count, mechanism, noise),), relation) for noise in (z, 1.5 * z))
    cost, smaller_cost = RULE.cost(plan), RULE.cost(quieter)
    assert all(1 <= c <= UNAFFORDABLE_UNITS for c in RULE.curve(cost))
    assert 0 <= cost[-1] <= UNIT
    assert RULE.pays(cost, plan)
    assert smallest_share(RULE.curve(smaller_cost), RULE.curve(RULE.thresholds)) <= smallest_share(
        RULE.curve(cost), RULE.curve(RULE.thresholds)
    )
    if RULE.admits(RULE.zero_cost, cost):
        assert certify(plan, RULE.privacy.delta)[0] <= RULE.privacy.epsilon * 1.02


@every_mechanism
def test_a_replacement_costs_at_least_a_step_to_the_null_record_and_at_most_two(
    member: type[Any], data: st.DataObject, z: float
) -> None:
    """D_a(P, R) <= (a - 1/2) / (a - 1) D_2a(P, Q) + D_(2a-1)(Q, R) (Mironov 2017, Proposition 11)."""
    mechanism, a = data.draw(of(member)), np.array(ORDERS)
    replaced, zeroed, zeroed_at_2a, zeroed_below_2a = (
        mechanism.curves(z, relation).rdp(list(orders))
        for orders, relation in ((a, "replace_one"), (a, "zero_out"), (2 * a, "zero_out"), (2 * a - 1, "zero_out"))
    )
    assert (zeroed <= replaced * (1 + 2e-6)).all()
    assert (replaced <= ((a - 0.5) / (a - 1) * zeroed_at_2a + zeroed_below_2a) * (1 + 3e-6)).all()
    replacing, null = mechanism.curves(z), mechanism.curves(z, "zero_out")
    for whole, half in ((replacing.gdp, null.gdp), (replacing.gdp_bound, null.gdp_bound), (replacing.pure, null.pure)):
        assert (whole is None) == (half is None)
        if whole is not None:
            assert half is not None
            assert half <= whole <= 2 * half * (1 + 1e-12)
    assert mechanism.multiplier(1e-3, "zero_out") <= mechanism.multiplier(1e-3) * (1 + 1e-9)


@every_accounted_mechanism
def test_accountants_agree_and_less_noise_costs_more(member: type[Any], data: st.DataObject, z: float) -> None:
    """Composed losses dominate an exact Gaussian, and stay below what it would cost without sampling."""
    mechanism, z = data.draw(of(member)), max(z, 2.0)
    plan, delta = plan_of(mechanism, z, 1), 1e-6
    tight, plain = PldAccountant().epsilon(plan, delta), GaussianAccountant().epsilon(plan, delta)
    if math.isfinite(tight):
        assert tight <= plain * 1.01 + 1e-6
        if plan.gdp() is not None and plan.pure() is None:
            assert tight >= plain * (1 - 1e-6)
    for accountant in ACCOUNTANTS:
        if math.isfinite(accountant.epsilon(plan, delta)):
            less_noise = accountant.epsilon(plan_of(mechanism, z / 1.2, 1), delta)
            assert less_noise >= accountant.epsilon(plan, delta) * (1 - 1e-4)  # composed losses have a grid


@every_accounted_mechanism
def test_its_multiplier_falls_as_the_share_grows(member: type[Any], data: st.DataObject, z: float) -> None:  # noqa: ARG001
    mechanism = data.draw(of(member))
    shares = [mechanism.multiplier(mu_squared) for mu_squared in (1e-6, 1e-3, 0.1, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 0
    if (mu := mechanism.curves(shares[1]).gdp) is not None:
        assert mu**2 == pytest.approx(1e-3, rel=1e-5)


@every_mechanism
def test_answers_are_on_a_lattice_and_have_the_stated_std(member: type[Any], data: st.DataObject, z: float) -> None:
    """4,000 coordinates: their variance is within 30 %, 8 of its standard deviations, of the std squared."""
    mechanism, count = data.draw(of(member)), 4000
    noise, bound = Noise(SeededBits(data.draw(st.integers(0, 2**32)))), data.draw(st.floats(1e-3, 10.0))
    value = np.full((2, count) if member is SvrgStep else count, 0.0)
    answer, std = mechanism.perturb(value, z, bound, noise), mechanism.std(z, bound, count)
    assert np.isfinite(answer).all()
    steps = answer / 2.0 ** (math.frexp(std)[1] - 34 if std else 0)
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(steps).max() < 2.0**52
    if std:
        assert answer.shape == (count,)
        assert float(np.mean(answer**2)) == pytest.approx(std**2, rel=0.3)


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.__name__)
def test_each_mechanism_is_final_and_states_its_conditions(member: type[Any]) -> None:
    assert not member.__abstractmethods__
    for abstract in [base for base in member.__mro__[1:] if issubclass(base, AbstractMechanism)]:
        own = {name for name, value in vars(abstract).items() if callable(value) or isinstance(value, property)}
        assert not {name for name in own - abstract.__abstractmethods__ if name in vars(member)} - {"__init_subclass__"}
    name = member.__dataclass_fields__["name"].default
    page = str(sys.modules[member.__module__].__doc__)
    assert member.__module__.endswith(f".{name}")
    assert "Precondition:" in page
    assert "Postcondition" in page
    assert f"docs/proofs/{name}.md" in page
    assert (PROOFS / f"{name}.md").is_file()


def test_the_names_of_mechanisms_are_distinct() -> None:
    assert len({member.__dataclass_fields__["name"].default for member in MEMBERS}) == len(MEMBERS)
    assert reduce(or_, MEMBERS) == Mechanism


def _leaves(event: Any, place: tuple[Any, ...]) -> Any:
    pairs = event.items() if isinstance(event, dict) else enumerate(event) if isinstance(event, list) else ()
    if not isinstance(event, dict | list):
        yield place, event
    for key, value in pairs:
        yield from _leaves(value, (*place, key))


def _replaced(event: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = event.copy()
    copy[place[0]] = _replaced(event[place[0]], place[1:], value)
    return copy
