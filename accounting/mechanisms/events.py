"""Event trees: what was done to the data, as JSON values with dp-accounting's names.

A noise multiplier here is always noise std over the per-record bound, which is what dp-accounting's PLD accountant
means under replace-one (its RDP accountant means std over sensitivity, twice as much for a full gradient).
`accounting.records.codec` reads such trees back by an allow-list.
"""

from collections.abc import Sequence
from typing import Any

Event = dict[str, Any]


def gaussian(noise_multiplier: float) -> Event:
    """One Gaussian answer."""
    return {"type": "GaussianDpEvent", "noise_multiplier": noise_multiplier}


def exponential(epsilon: float) -> Event:
    """One choice by the exponential mechanism, of this epsilon; dp-accounting has no name for it."""
    return {"type": "ExponentialMechanismDpEvent", "epsilon": epsilon}


def laplace(noise_multiplier: float) -> Event:
    """One Laplace answer; the multiplier is the scale over the per-record bound, in l1."""
    return {"type": "LaplaceDpEvent", "noise_multiplier": noise_multiplier}


def poisson_sampled(sampling_probability: float, event: Event) -> Event:
    """`event` on a batch that holds each record independently with the given probability."""
    return {"type": "PoissonSampledDpEvent", "sampling_probability": sampling_probability, "event": event}


def sampled_without_replacement(source_dataset_size: int, sample_size: int, event: Event) -> Event:
    """`event` on a batch of exactly so many distinct records of the dataset, every such batch as likely."""
    return {
        "type": "SampledWithoutReplacementDpEvent",
        "source_dataset_size": source_dataset_size,
        "sample_size": sample_size,
        "event": event,
    }


def random_iterate(steps: int, event: Event) -> Event:
    """Adaptive uses of `event`, uniformly 0 to steps - 1 of them, the number drawn without the data."""
    return {"type": "RandomIterateDpEvent", "steps": steps, "event": event}


def objective_perturbation(curvature_ratio: float, event: Event) -> Event:
    """The minimizer of an objective whose random linear term is as noisy as `event`."""
    return {"type": "ObjectivePerturbationDpEvent", "curvature_ratio": curvature_ratio, "event": event}


def drawn_with_replacement(rows: int, event: Event) -> Event:
    """`event` on as many rows drawn with replacement as there are."""
    return {
        "type": "SampledWithReplacementDpEvent",
        "source_dataset_size": rows,
        "sample_size": rows,
        "event": event,
    }


def self_composed(event: Event, count: int) -> Event:
    """`count` adaptive uses of `event`; the event itself when there is one."""
    return event if count == 1 else {"type": "SelfComposedDpEvent", "count": count, "event": event}


def composed(events: Sequence[Event]) -> Event:
    """The adaptive composition of the events."""
    return {"type": "ComposedDpEvent", "events": list(events)}


def randomly_allocated(rate: float, slots: int, form: str, event: Event) -> Event:
    """`event` once for each slot, on the records of that slot; each record is in one slot at most (replace-one)."""
    return {"type": "RandomAllocationDpEvent", "rate": rate, "slots": slots, "form": form, "event": event}
