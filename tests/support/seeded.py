"""A seeded bit source, for tests alone: the product's noise is keyed by the operating system."""

import numpy as np
from numpy.typing import NDArray


class SeededBits:
    """Independent uniform words from PCG64 with a fixed seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)


class ScriptedBits:
    """The given words first, then a seeded stream."""

    def __init__(self, words: list[int], seed: int = 0) -> None:
        self._script = list(words)
        self._remaining_bits = SeededBits(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        head, self._script = self._script[:count], self._script[count:]
        return np.concatenate([np.array(head, dtype=np.uint64), self._remaining_bits.words(count - len(head))])
