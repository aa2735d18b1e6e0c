"""The mean excess of two secret slots, from their exact law."""

import numpy as np

from tests.reference.normal import Vector


def of_two(x: Vector, weight: Vector, floor: float) -> float:
    """E[((X + X')/2 - floor)_+] of two independent terms of this law, x rising: what is beyond each, in sums."""
    beyond = np.searchsorted(x, 2 * floor - x)
    mass, first = (np.append(np.cumsum(part[::-1])[::-1], 0.0)[beyond] for part in (weight, weight * x))
    return float(weight @ (mass * (x / 2 - floor) + first / 2))
