"""Mutants of the product: a function replaced by a wrong one, which a test must then detect."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from accounting.calibration import plan_of_least_noise
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from accounting.plan import PlannedQuery
from solvers.data_access.meter import Meter


@contextmanager
def new_calibrations() -> Iterator[None]:
    """Calibrate every plan anew, and forget these plans at the end."""
    plan_of_least_noise.cache_clear()
    try:
        yield
    finally:
        plan_of_least_noise.cache_clear()


@contextmanager
def mutated(owner: Any, name: str, mutant: Callable[..., Any]) -> Iterator[None]:
    """Replace one of the product's functions."""
    with new_calibrations(), patch.object(owner, name, mutant):
        yield


def half_noise(lattice: Lattice, value: Any, noise: Noise) -> Any:
    steps = np.rint(value / lattice.spacing) + np.rint(
        noise.rounded_gaussian(len(value), lattice.std / lattice.spacing) / 2
    )
    return steps * lattice.spacing


def used_before_noise(query: str) -> Callable[[Meter, PlannedQuery, Any, float], Any]:
    """Return a mutant of `Meter.answer` that pays for an answer and returns its exact value instead."""
    answer = Meter.answer

    def exact(meter: Meter, planned: PlannedQuery, value: Any, bound: float) -> Any:
        noisy = answer(meter, planned, value, bound)
        return value if planned.name == query else noisy

    return exact


def with_bound_divided(query: str, divisor: float) -> Callable[[Meter, PlannedQuery, Any, float], Any]:
    """Return a mutant of `Meter.answer` that makes noise for a part of the bound of one answer."""
    answer = Meter.answer

    def forgotten(meter: Meter, planned: PlannedQuery, value: Any, bound: float) -> Any:
        return answer(meter, planned, value, bound / divisor if planned.name == query else bound)

    return forgotten
