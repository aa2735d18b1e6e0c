"""Events of a plan: which of them covers an answer, and epsilon between the neighbors of a dataset."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Real
from typing import Any, Final

from purse.client import Client, SessionHandle
from purse.errors import ClientError
from purse.wire.datasets import Dataset

Event = Mapping[str, Any]
_COUNTS: Final = ("count", "steps", "source_dataset_size", "sample_size")


class NotCovered(ClientError):
    """The session's plan has no event that covers an answer. Nothing was recorded, and the answer was not computed."""


class UnsupportedMechanism(ClientError):
    """A library's mechanism has no event that bounds its privacy loss. Nothing was reserved or recorded."""


def check_numbers(fields: Mapping[str, Any]) -> None:
    """Raise `UnsupportedMechanism` unless all numbers of an event or a plan are positive and finite.

    Counts must be whole numbers. A delta may be 0.
    """
    for name, value in fields.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping):
                check_numbers(part)
            elif isinstance(part, Real) and not _is_accepted(name, float(part)):
                kind = "whole" if name in _COUNTS else "finite"
                raise UnsupportedMechanism(
                    f"{name} must be a positive {kind} number, and is {part}, which bounds no privacy loss. Correct it"
                )


def _is_accepted(name: str, number: float) -> bool:
    if name in _COUNTS and not number.is_integer():
        return False
    return 0 < number < math.inf or (name == "delta" and number == 0)


def covers(planned: Event, event: Event) -> bool:
    """Return whether the planned event bounds the privacy loss of every answer that `event` describes.

    More noise, a smaller sampling probability and a smaller epsilon are covered (docs/proofs/integrations.md).
    """
    if (planned["type"], event["type"]) == ("GaussianDpEvent", "PoissonSampledDpEvent"):
        return covers(planned, event["event"])
    if planned["type"] != event["type"] or planned.keys() != event.keys():
        return False
    return all(_is_covered(name, planned[name], event[name]) for name in planned)


def _is_covered(name: str, planned: Any, actual: Any) -> bool:
    match name:
        case "noise_multiplier":
            return bool(actual >= planned)
        case "sampling_probability" | "epsilon" | "delta":
            return bool(actual <= planned)
        case "event":
            return covers(planned, actual)
        case _:
            return bool(actual == planned)


def record(session: SessionHandle, event: Event, steps: int = 1) -> None:
    """Record answers in the first entry of the plan that covers them and has enough of them left.

    Raises
    ------
    UnsupportedMechanism
        if a number of the event, or the number of steps, is not positive and finite.
    NotCovered
        if no entry covers the event.
    ProblemError
        if the server refuses, with the code `session_exhausted` if the plan has too few answers left.
    """
    check_numbers({"steps": steps, "event": event})
    entries = [i for i, planned in enumerate(session.plan) if covers(planned.event, event)]
    if not entries:
        raise NotCovered(
            f"The plan of session {session.id} has no event that covers {dict(event)}. "
            "It was not recorded. Reserve a session for this event"
        )
    sufficient = (i for i in entries if session.plan[i].count - session.plan[i].recorded >= steps)
    session.record(steps, next(sufficient, entries[0]))


def planned_epsilon(session: SessionHandle, delta: float) -> float:
    """Return the epsilon of the session's whole plan, which bounds that of the answers so far.

    Raises
    ------
    ValueError
        if delta is smaller than that of the reservation, at which alone its epsilon is known.
    """
    reserved = session.session.reserved
    if delta < reserved.delta:
        raise ValueError(f"delta must be at least {reserved.delta:g}, at which the session's epsilon is known")
    return reserved.epsilon


def noise_multiplier(event: Event) -> float:
    """Return the noise multiplier of a Gaussian event, sampled or not.

    Raises
    ------
    NotCovered
        if the event has no Gaussian noise.
    """
    inner = event.get("event", event)
    if inner["type"] != "GaussianDpEvent":
        raise NotCovered(f"The plan has no Gaussian noise, but the event {dict(event)}. Reserve a Gaussian event")
    return float(inner["noise_multiplier"])


def changed_units(dataset: Dataset) -> int:
    """Return the number of units that differ between neighbors of the dataset, as units removed plus units added.

    A unit that becomes null is removed. A unit that is replaced is removed, and another one is added.
    """
    return 2 if dataset.budget.neighbors == "replace_one" else 1


def changed_rows(dataset: Dataset) -> int:
    """Return the number of rows that differ between neighbors, as `changed_units`; a person is up to `max_rows`."""
    return dataset.unit.slots * changed_units(dataset)


def pure_event(epsilon: float, changes: int) -> dict[str, Any]:
    """Return the event of an answer that is epsilon-DP for one change of the data, between neighbors that differ more.

    By group privacy, the answer is (changes * epsilon)-DP between these neighbors (docs/proofs/integrations.md).

    Parameters
    ----------
    epsilon : of the answer, if one row (or one unit) is added, removed or replaced
    changes : `changed_rows`, or `changed_units` if epsilon refers to a unit

    Raises
    ------
    UnsupportedMechanism
        if epsilon is not a positive finite number.
    """
    check_numbers({"epsilon": epsilon})
    total = float(epsilon) if changes == 1 else math.nextafter(epsilon * changes, math.inf)  # may be rounded down
    return {"type": "EpsilonDeltaDpEvent", "epsilon": total, "delta": 0.0}


def repeated(event: Event, count: int) -> dict[str, Any]:
    """Return the event of `count` such answers."""
    return {"type": "SelfComposedDpEvent", "event": dict(event), "count": count}


@dataclass(frozen=True, slots=True)
class Reservation:
    """A session that an adapter is about to open.

    Parameters
    ----------
    library : name of the library's distribution
    note : what its title adds to the library's name and version, for readers of the receipt
    title : the analyst's own title, in place of these
    lifetime : seconds after which the session expires and its whole plan stays charged; the server's default if None
    """

    client: Client
    library: str
    note: str
    title: str | None = None
    lifetime: int | None = None

    def open(self, dataset: Dataset, **plan: Any) -> SessionHandle:
        """Open the session with `events`, or with `privacy`, `steps` and `sampling_probability`.

        Raises
        ------
        UnsupportedMechanism
            if a number of the plan is not positive and finite.
        """
        check_numbers(plan)
        if self.lifetime is not None:
            plan["lifetime"] = self.lifetime
        title = self.title or f"{self.library} {version(self.library)}: {self.note}"
        return self.client.sessions.open(dataset=dataset, title=title, **plan)


def described(client: Client, dataset: Dataset | str) -> Dataset:
    """Return the public description of a dataset."""
    return dataset if isinstance(dataset, Dataset) else client.datasets.get(dataset)
