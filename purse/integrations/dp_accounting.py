"""dp-accounting and jax_privacy: a `DpEvent` as a session's plan, and a `PrivacyAccountant` that records its parts.

    plan = jax_privacy.experimental.execution_plan.BandMFExecutionPlanConfig.default(num_bands=1, ...).plan
    accountant = reserve(client, "people", plan.dp_event)
    with accountant.session:
        for batch in plan.batch_selection_strategy.batch_iterator(rows):
            accountant.compose(plan.dp_event.event)     # before the step draws its noise
            ...

Noise multipliers are taken as noise std over the largest contribution of one record, which is their meaning for
ADD_OR_REMOVE_ONE and REPLACE_SPECIAL. dp-accounting's accountants disagree on their meaning for REPLACE_ONE, so the
adapter refuses that relation. Events that no filter can charge are refused with their names, such as
NonPrivateDpEvent, ZCDpEvent and SampledWithReplacementDpEvent.

jax_privacy adds floating-point noise of a generator that is not cryptographic, but the event is that of exact noise. A
plan must have one band. With several bands its event is that of a cycle of steps with correlated noise, whereas the
proofs are about events that draw their own noise (docs/proofs/sessions.md).
"""

from collections.abc import Iterator
from typing import Any, Self

from purse.client import Client, SessionHandle
from purse.extras import needing
from purse.integrations.recording import (
    Event,
    Reservation,
    UnsupportedMechanism,
    changed_units,
    check_numbers,
    described,
    planned_epsilon,
    pure_event,
    record,
    repeated,
)
from purse.wire.datasets import Dataset

with needing("purse.integrations.dp_accounting", "dp-accounting"):
    from dp_accounting import NeighboringRelation, PrivacyAccountant, dp_event

_RELATIONS = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL)


def to_events(event: Any, dataset: Dataset) -> list[tuple[dict[str, Any], int]]:
    """Return the parts of a `DpEvent` as events of a session, each with its count.

    Raises
    ------
    UnsupportedMechanism
        for a part that a session cannot plan, or a number that is not positive and finite.
    """
    return list(_parts(event, dataset, 1))


def _parts(event: Any, dataset: Dataset, count: int) -> Iterator[tuple[dict[str, Any], int]]:
    match event:
        case dp_event.NoOpDpEvent():
            return
        case dp_event.ComposedDpEvent():
            for part in event.events:
                yield from _parts(part, dataset, count)
        case dp_event.SelfComposedDpEvent():
            check_numbers({"count": event.count})
            yield from _parts(event.event, dataset, count * int(event.count))
        case _:
            single = _single(event, dataset)
            check_numbers(single)
            yield single, count


def _single(event: Any, dataset: Dataset) -> dict[str, Any]:
    match event:
        case dp_event.GaussianDpEvent() | dp_event.LaplaceDpEvent():
            return {"type": type(event).__name__, "noise_multiplier": float(event.noise_multiplier)}
        case dp_event.DiscreteLaplaceDpEvent():
            check_numbers({"noise_parameter": event.noise_parameter, "sensitivity": event.sensitivity})
            return pure_event(event.noise_parameter * event.sensitivity, changed_units(dataset))
        case dp_event.PoissonSampledDpEvent(event=dp_event.GaussianDpEvent()):
            sampled = {"sampling_probability": float(event.sampling_probability)}
        case dp_event.SampledWithoutReplacementDpEvent(event=dp_event.GaussianDpEvent()):
            sampled = {"source_dataset_size": event.source_dataset_size, "sample_size": event.sample_size}
        case _:
            raise UnsupportedMechanism(
                f"{event} is not supported in a session, because no filter can charge it. Supported are Gaussian, "
                "Laplace, DiscreteLaplace, Gaussian on a Poisson sample or on a sample without replacement, and their "
                "compositions"
            )
    return {"type": type(event).__name__, **sampled, "event": _single(event.event, dataset)}


def to_dp_event(event: Event) -> Any:
    """Return an event of a session's plan as a `DpEvent`.

    Raises
    ------
    UnsupportedMechanism
        for a pure epsilon and a random allocation, which dp-accounting has no event for.
    """
    kind = event["type"]
    fields = {name: value for name, value in event.items() if name != "type"}
    match kind:
        case "GaussianDpEvent" | "LaplaceDpEvent":
            return getattr(dp_event, kind)(**fields)
        case "PoissonSampledDpEvent" | "SampledWithoutReplacementDpEvent":
            return getattr(dp_event, kind)(**fields | {"event": to_dp_event(event["event"])})
        case _:
            raise UnsupportedMechanism(f"dp-accounting has no event for {kind}")


class SessionAccountant(PrivacyAccountant):  # type: ignore[misc]
    """A `PrivacyAccountant` that records each composed event in a session; compose before the noise is drawn.

    Parameters
    ----------
    session : a handle whose plan has these events, as `reserve` opens it
    dataset : the session's dataset, as `client.datasets.get` returns it
    """

    def __init__(self, session: SessionHandle, dataset: Dataset) -> None:
        super().__init__(NeighboringRelation.ADD_OR_REMOVE_ONE)
        self.session = session
        self._dataset = dataset

    def compose(self, event: Any, count: int = 1) -> Self:
        """Record `count` uses of an event in the session.

        Raises
        ------
        UnsupportedEventError
            for an event that a session cannot plan.
        NotCovered, ProblemError
            if the plan has too few such uses left; then none may be computed.
        """
        if not self.supports(event):
            super().compose(event, count)  # raises dp-accounting's own error
        for single, uses in to_events(dp_event.SelfComposedDpEvent(event, count), self._dataset):
            record(self.session, single, uses)
        super().compose(event, count)
        return self

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:  # noqa: ARG002
        """Return None for an event that a session can plan, and why it cannot otherwise."""
        try:
            to_events(event, self._dataset)
        except UnsupportedMechanism as error:
            return self.CompositionErrorDetails(invalid_event=event, error_message=str(error))
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """Return the epsilon of the whole plan at this delta; `ValueError` below the delta of the reservation."""
        return planned_epsilon(self.session, target_delta)


def reserve(
    client: Client,
    dataset: Dataset | str,
    event: Any,
    *,
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    title: str | None = None,
    lifetime: int | None = None,
) -> SessionAccountant:
    """Reserve budget for a `DpEvent`, and return an accountant that records its parts.

    Parameters
    ----------
    event : all planned answers, such as `dp_event` of an execution plan of jax_privacy
    neighboring_relation : the relation whose sensitivity the event's noise multipliers are relative to
    title : title of the session; by default the library and its version
    lifetime : seconds after which the session expires and its whole plan stays charged

    Raises
    ------
    UnsupportedMechanism
        for an event or a relation that a session cannot plan.
    ProblemError
        with the code `budget_exhausted` if the plan does not fit the budget.
    """
    if neighboring_relation not in _RELATIONS:
        raise UnsupportedMechanism(
            "REPLACE_ONE is not supported in a session, because accountants read its noise multipliers in two ways. "
            "State them relative to one record's contribution, with ADD_OR_REMOVE_ONE; the dataset's own relation "
            "decides what is charged"
        )
    declared = described(client, dataset)
    events = [repeated(single, count) for single, count in to_events(event, declared)]
    reservation = Reservation(client, "dp-accounting", "events of the analyst", title, lifetime)
    return SessionAccountant(reservation.open(declared, events=events), declared)
