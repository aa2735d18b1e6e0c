"""A symmetric pair of laws that dominates a mechanism whose profile is bounded at some epsilons.

A profile H_gamma is convex in gamma = e^epsilon. So it lies below the greatest convex function below its bounds at some
points, constant beyond the last. This polygon is the profile of a pair with finitely many losses.
"""

from typing import NamedTuple

import numpy as np

from accounting.divergences.losses import Masses, Vector, connect_the_dots


class Knots(NamedTuple):
    """epsilon_0 = 0 < epsilon_1 < ... with the probability of the losses +epsilon_k and -epsilon_k, and of +inf.

    Parameters
    ----------
    epsilons : shape (k,)
    masses : shape (2, k), at +epsilon and at -epsilon; the mass at 0 is in the first row
    infinity : float
    """

    epsilons: Vector
    masses: Vector
    infinity: float


def knots(gamma: Vector, delta: Vector) -> Knots:
    """Return the pair whose profile is the polygon below these bounds; gamma ascends from 1, delta does not grow."""
    delta[0] = float(np.min((gamma - 1 + 2 * delta) / (gamma + 1)))  # chords from 1/gamma to gamma, and itself
    hull = lower_hull(gamma, delta)
    gamma, delta = gamma[hull], delta[hull]
    slopes = np.append(np.diff(delta) / np.diff(gamma), 0.0)
    # Q's mass at each gamma is the jump of the slope there; left of 1 the slope is delta - 1 - slope, by symmetry
    low = np.maximum(np.diff(slopes, prepend=delta[0] - 1 - slopes[0]), 0.0)
    masses = np.vstack([low * gamma, low])
    masses[1, 0] = 0.0
    return Knots(np.log(gamma), masses, float(delta[-1]))


def on_grid(pair: Knots, interval: float) -> Masses:
    """Return the knots' masses on the grid; the loss -e has the masses of +e with P and Q exchanged."""
    epsilons, masses, infinity = pair
    cells = np.concatenate([np.floor(epsilons / interval), np.floor(-epsilons / interval)]).astype(int)
    lowest = int(cells.min())
    upper = np.zeros(int(cells.max()) - lowest + 1)
    lower = np.zeros(int(cells.max()) - lowest + 1)
    at_zero = masses[0] * (epsilons == 0.0)
    np.add.at(upper, cells - lowest, np.concatenate([masses[0], masses[1]]))
    np.add.at(lower, cells - lowest, np.concatenate([masses[1] + at_zero, masses[0] - at_zero]))
    return connect_the_dots(interval, lowest, upper, lower, 0.0, infinity)


def lower_hull(x: Vector, y: Vector) -> list[int]:
    """Return the vertices of the greatest convex function below the points."""
    hull = [0]
    for i in range(1, len(x)):
        while len(hull) > 1 and (y[hull[-1]] - y[hull[-2]]) * (x[i] - x[hull[-2]]) >= (y[i] - y[hull[-2]]) * (
            x[hull[-1]] - x[hull[-2]]
        ):
            hull.pop()
        hull.append(i)
    return hull
