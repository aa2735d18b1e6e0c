"""Events of dp-accounting and of jax_privacy's plans, as plans of sessions."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from accounting.privacy import Unit
from purse import Client, ProblemError
from purse.integrations.recording import NotCovered, UnsupportedMechanism
from tests.integrations.conftest import Register
from tests.support.recorded import Recorded

dpa = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
events = dpa.dp_event

from purse.integrations import dp_accounting  # noqa: E402

GAUSSIAN = events.GaussianDpEvent(2.0)
SAMPLED = events.PoissonSampledDpEvent(0.1, GAUSSIAN)


def dataset(relation: str = "zero_out") -> Any:
    return SimpleNamespace(unit=Unit("person", 3), budget=SimpleNamespace(neighbors=relation))


@pytest.mark.parametrize(
    "event",
    [GAUSSIAN, events.LaplaceDpEvent(2.0), SAMPLED, events.SampledWithoutReplacementDpEvent(100, 10, GAUSSIAN)],
)
def test_an_event_has_the_same_name_and_fields_here_and_there(event: Any) -> None:
    ((single, count),) = dp_accounting.to_events(event, dataset())
    assert count == 1
    assert single["type"] == type(event).__name__
    numbers = {name: value for name, value in single.items() if name not in ("type", "event")}
    assert numbers == {name: getattr(event, name) for name in numbers}


def test_compositions_become_entries_with_counts_and_pure_events_grow_with_the_relation() -> None:
    twenty = events.SelfComposedDpEvent(events.SelfComposedDpEvent(SAMPLED, 5), 4)
    event = events.ComposedDpEvent([twenty, events.NoOpDpEvent(), events.DiscreteLaplaceDpEvent(0.25, 2)])
    parts_by_relation = {
        relation: dp_accounting.to_events(event, dataset(relation)) for relation in ("zero_out", "replace_one")
    }
    for parts in parts_by_relation.values():
        assert [count for _, count in parts] == [20, 1]
    epsilons = [parts[1][0]["epsilon"] for parts in parts_by_relation.values()]
    assert epsilons == pytest.approx([0.5, 1.0])


@pytest.mark.parametrize(
    "event",
    [
        events.NonPrivateDpEvent(),
        events.UnsupportedDpEvent(),
        events.ZCDpEvent(0.1),
        events.SampledWithReplacementDpEvent(100, 10, GAUSSIAN),
        events.PoissonSampledDpEvent(0.1, events.LaplaceDpEvent(1.0)),
        events.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
        events.SingleEpochTreeAggregationDpEvent(1.0, 4),
    ],
)
def test_events_that_no_filter_can_charge_are_refused(event: Any) -> None:
    with pytest.raises(UnsupportedMechanism):
        dp_accounting.to_events(event, dataset())
    budget = dp_accounting.SessionAccountant(Recorded([]).handle, dataset())
    assert not budget.supports(event)
    with pytest.raises(dpa.UnsupportedEventError):
        budget.compose(event)


def test_a_composed_event_is_recorded_and_one_beyond_the_plan_is_not_composed() -> None:
    ((single, _),) = dp_accounting.to_events(SAMPLED, dataset())
    session = Recorded([(single, 3)])
    budget = dp_accounting.SessionAccountant(session.handle, dataset())
    assert budget.supports(SAMPLED)
    assert budget.compose(SAMPLED).compose(SAMPLED, 2) is budget
    with pytest.raises(Recorded.Exhausted):
        budget.compose(SAMPLED)
    with pytest.raises(NotCovered):
        budget.compose(events.LaplaceDpEvent(1.0))
    assert session.total == 3
    assert budget.ledger == events.SelfComposedDpEvent(SAMPLED, 3)
    assert budget.get_epsilon(1e-6) == 1.0


@pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan])
def test_wrong_numbers_of_an_event_are_refused(number: Any) -> None:
    session = Recorded([({"type": "GaussianDpEvent", "noise_multiplier": 2.0}, 10)])
    budget = dp_accounting.SessionAccountant(session.handle, dataset())
    for event in (
        events.GaussianDpEvent(number),
        events.PoissonSampledDpEvent(number, GAUSSIAN),
        events.SampledWithoutReplacementDpEvent(100, number, GAUSSIAN),
        events.DiscreteLaplaceDpEvent(number, -1),
        events.SelfComposedDpEvent(GAUSSIAN, number),
    ):
        with pytest.raises(UnsupportedMechanism):
            dp_accounting.to_events(event, dataset())
        with pytest.raises(dpa.UnsupportedEventError):
            budget.compose(event)
    counts: list[Any] = [number, 1.5]
    for count in counts:
        with pytest.raises(UnsupportedMechanism):
            budget.compose(GAUSSIAN, count)
    assert session.total == 0


def test_noise_multipliers_of_replace_one_are_refused() -> None:
    client: Any = None
    with pytest.raises(UnsupportedMechanism):
        dp_accounting.reserve(client, "any", GAUSSIAN, neighboring_relation=dpa.NeighboringRelation.REPLACE_ONE)


@pytest.mark.slow
def test_a_plan_on_a_real_server(client: Client, register: Register) -> None:
    budget = dp_accounting.reserve(client, register(), events.SelfComposedDpEvent(SAMPLED, 3))
    with budget.session:
        budget.compose(SAMPLED, 3)
        with pytest.raises(ProblemError) as refused:
            budget.compose(SAMPLED)
    assert refused.value.code == "session_exhausted"
    assert budget.session.plan[0].event == dp_accounting.to_events(SAMPLED, dataset())[0][0]


def test_a_plan_of_jax_privacy_is_its_steps() -> None:
    plans = pytest.importorskip(
        "jax_privacy.experimental.execution_plan", reason="jax_privacy is not installed: run `make integrations`"
    )
    config = plans.BandMFExecutionPlanConfig.default(
        num_bands=1, iterations=40, epsilon=1.0, delta=1e-5, sampling_prob=0.1
    )
    ((single, count),) = dp_accounting.to_events(config.plan.dp_event, dataset())
    assert (single["type"], count) == ("PoissonSampledDpEvent", 40)
    assert single["sampling_probability"] == 0.1
