"""Mutants of the product: a function replaced by a wrong one, which a test must then detect."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from accounting.calibration import plan_of_least_noise
from accounting.noise import Noise
from accounting.noise.lattice import Lattice


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
    original = owner.__dict__[name]
    with new_calibrations():
        setattr(owner, name, mutant)
        try:
            yield
        finally:
            setattr(owner, name, original)


def half_noise(lattice: Lattice, value: Any, noise: Noise) -> Any:
    steps = np.rint(value / lattice.spacing) + np.rint(
        noise.rounded_gaussian(len(value), lattice.std / lattice.spacing) / 2
    )
    return steps * lattice.spacing
