"""Which planned event covers an answer, and epsilon between neighbors that differ in several rows."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from accounting.privacy import Unit
from accounting.records.outside import event_from_json
from accounting.records.sessions import SessionPlan
from purse.integrations.recording import (
    NotCovered,
    Reservation,
    UnsupportedMechanism,
    changed_rows,
    covers,
    noise_multiplier,
    pure_event,
    record,
    repeated,
)
from tests.support.recorded import Recorded

GAUSSIAN: dict[str, Any] = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}
LAPLACE: dict[str, Any] = {"type": "LaplaceDpEvent", "noise_multiplier": 2.0}
SAMPLED: dict[str, Any] = {"type": "PoissonSampledDpEvent", "sampling_probability": 0.1, "event": GAUSSIAN}
PURE: dict[str, Any] = {"type": "EpsilonDeltaDpEvent", "epsilon": 0.5, "delta": 0.0}
BATCH: dict[str, Any] = {
    "type": "SampledWithoutReplacementDpEvent",
    "source_dataset_size": 100,
    "sample_size": 10,
    "event": GAUSSIAN,
}
ORDERS = (1.5, 2.0, 4.0, 16.0)


def dataset(relation: str, rows: int | None = None) -> Any:
    unit = Unit() if rows is None else Unit("person", rows)
    return SimpleNamespace(unit=unit, budget=SimpleNamespace(neighbors=relation))


@pytest.mark.parametrize(
    ("planned", "event"),
    [
        (GAUSSIAN, GAUSSIAN | {"noise_multiplier": 2.5}),
        (LAPLACE, LAPLACE | {"noise_multiplier": 2.5}),
        (PURE, PURE | {"epsilon": 0.4}),
        (SAMPLED, SAMPLED | {"sampling_probability": 0.05}),
        (SAMPLED, SAMPLED | {"event": GAUSSIAN | {"noise_multiplier": 2.5}}),
        (GAUSSIAN, SAMPLED),
        (BATCH, BATCH | {"event": GAUSSIAN | {"noise_multiplier": 2.5}}),
    ],
)
def test_an_answer_is_covered_if_it_costs_at_most_the_planned_one(
    planned: dict[str, Any], event: dict[str, Any]
) -> None:
    assert covers(planned, planned)
    assert covers(planned, event)
    assert not covers(event, planned)
    for relation in ("zero_out", "replace_one"):
        costs = [SessionPlan.of([event_from_json(each)], relation) for each in (planned, event)]
        allowed, actual = (each.rdp(ORDERS) for each in costs)
        assert (actual <= allowed).all()


@pytest.mark.parametrize(
    "event",
    [LAPLACE, PURE, BATCH, SAMPLED | {"event": GAUSSIAN | {"noise_multiplier": 1.9}}, GAUSSIAN | {"also": 1}],
)
def test_an_answer_of_another_kind_or_with_less_noise_is_not_covered(event: dict[str, Any]) -> None:
    assert not covers(GAUSSIAN, event)
    assert not covers(BATCH | {"sample_size": 9}, BATCH)


def test_an_answer_is_recorded_in_the_first_entry_with_uses_left_or_refused_by_the_server() -> None:
    session = Recorded([(GAUSSIAN, 1), (PURE, 1), (GAUSSIAN | {"noise_multiplier": 1.0}, 2)])
    record(session.handle, GAUSSIAN)
    record(session.handle, GAUSSIAN)
    assert [part.recorded for part in session.plan] == [1, 0, 1]
    record(session.handle, GAUSSIAN)
    with pytest.raises(Recorded.Exhausted):
        record(session.handle, GAUSSIAN)
    with pytest.raises(NotCovered):
        record(session.handle, LAPLACE)
    assert [part.recorded for part in session.plan] == [1, 0, 2]


@pytest.mark.parametrize(
    ("relation", "rows", "changes"),
    [("zero_out", None, 1), ("replace_one", None, 2), ("zero_out", 3, 3), ("replace_one", 3, 6)],
)
def test_epsilon_grows_by_the_rows_that_neighbors_differ_in(relation: str, rows: int | None, changes: int) -> None:
    assert changed_rows(dataset(relation, rows)) == changes
    epsilon = pure_event(0.1, changes)["epsilon"]
    assert math.isclose(epsilon, 0.1 * changes)
    assert epsilon >= 0.1 * changes


WRONG = [0.0, -1.0, math.inf, math.nan]


@pytest.mark.parametrize("epsilon", WRONG)
def test_an_epsilon_that_bounds_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(UnsupportedMechanism):
        pure_event(epsilon, 1)


@pytest.mark.parametrize("number", WRONG)
@pytest.mark.parametrize(
    ("event", "field"),
    [
        (GAUSSIAN, "noise_multiplier"),
        (LAPLACE, "noise_multiplier"),
        (PURE, "epsilon"),
        (SAMPLED, "sampling_probability"),
        (BATCH, "sample_size"),
        (BATCH, "source_dataset_size"),
    ],
)
def test_a_wrong_number_is_refused_before_it_is_planned_or_recorded(
    event: dict[str, Any], field: str, number: float
) -> None:
    wrong = event | {field: number}
    session = Recorded([(wrong, 1), (GAUSSIAN, 1)])
    unreachable: Any = None
    for refused in (wrong, SAMPLED | {"event": wrong}):
        with pytest.raises(UnsupportedMechanism, match=field):
            record(session.handle, refused)
        with pytest.raises(UnsupportedMechanism, match=field):
            Reservation(unreachable, "library", "note").open(unreachable, events=[repeated(refused, 1)])
    assert session.total == 0


@pytest.mark.parametrize("number", [*WRONG, 1.5])
def test_a_wrong_count_is_refused_before_it_is_planned_or_recorded(number: Any) -> None:
    session = Recorded([(GAUSSIAN, 10)])
    unreachable: Any = None
    with pytest.raises(UnsupportedMechanism, match="steps"):
        record(session.handle, GAUSSIAN, number)
    for plan in ({"events": [repeated(GAUSSIAN, number)]}, {"privacy": {"epsilon": 1.0}, "steps": number}):
        with pytest.raises(UnsupportedMechanism):
            Reservation(unreachable, "library", "note").open(unreachable, **plan)
    assert session.total == 0


def test_the_noise_multiplier_is_that_of_the_gaussian_event_in_the_plan() -> None:
    assert noise_multiplier(GAUSSIAN) == noise_multiplier(SAMPLED) == 2.0
    with pytest.raises(NotCovered):
        noise_multiplier(PURE)
