"""Fair coins from the stream of a `Noise`, one bit each."""

import numpy as np
from numpy.typing import NDArray

from accounting.errors import OutOfRange
from accounting.noise.source import Noise


def heads(noise: Noise, count: int) -> NDArray[np.bool_]:
    """Return `count` fair coins, all drawn again until one shows heads."""
    if count < 1:
        raise OutOfRange("count must be at least 1")
    while True:
        words = noise.words((count + 63) // 64).astype("<u8")
        coins = np.unpackbits(words.view(np.uint8), bitorder="little")[:count].astype(bool)
        if coins.any():
            return coins
