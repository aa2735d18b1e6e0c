"""A noise whose batches a test sees or writes, where the oracles would draw them."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from accounting.noise import Noise, batches

_rows, _batches = batches.poisson_rows, batches.poisson_batches


class OwnBatches(Noise):
    """Batches as they are drawn, unless overridden."""

    def poisson_rows(self, n: int, rate: float) -> NDArray[np.int64]:
        return _rows(self, n, rate)

    def poisson_batches(self, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return _batches(self, n, rate, count)


class ScriptedBatches(OwnBatches):
    """Batches as they are set."""

    batch: NDArray[np.int64]

    def poisson_rows(self, n: int, rate: float) -> NDArray[np.int64]:  # noqa: ARG002
        return self.batch


@contextmanager
def own_batches() -> Iterator[None]:
    """Within, the oracles take the batches of an `OwnBatches` from it."""

    def rows(noise: Noise, n: int, rate: float) -> NDArray[np.int64]:
        return noise.poisson_rows(n, rate) if isinstance(noise, OwnBatches) else _rows(noise, n, rate)

    def many(noise: Noise, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return (
            noise.poisson_batches(n, rate, count) if isinstance(noise, OwnBatches) else _batches(noise, n, rate, count)
        )

    with patch.object(batches, "poisson_rows", rows), patch.object(batches, "poisson_batches", many):
        yield
