"""A compiled walk compared with single answers: its noise is recorded, and replayed for answers asked one by one."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import PoissonGaussian
from accounting.noise import Tails
from accounting.noise import source as noises
from accounting.plan import Plan, PlannedQuery
from solvers import kernels
from solvers.data_access.data import Data
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.walk import WalkingOracle
from solvers.domains import Free
from tests.support.batches import OwnBatches
from tests.support.seeded import SeededBits

Floats = NDArray[np.float64]


class Recorded(OwnBatches):
    """Noise that records the batches and the sizes that a walk draws ahead."""

    def __init__(self, seed: int) -> None:
        super().__init__(SeededBits(seed))
        self.drawn: list[tuple[NDArray[np.int64], NDArray[np.int64], Tails]] = []
        self.decided: dict[tuple[int, int], float] = {}

    def poisson_batches(self, n: int, rate: float, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        self._batches = super().poisson_batches(n, rate, count)
        return self._batches

    def tails(self, count: int) -> Tails:
        drawn = super().tails(count)
        self.drawn.append((*self._batches, drawn))
        return drawn

    def decide(self, tails: Tails, j: int, scale: float) -> float:
        decision = self.decided[len(self.drawn) - 1, j] = super().decide(tails, j, scale)
        return decision


class Replayed(OwnBatches):
    """Noise that gives the recorded draws to one answer after another."""

    def __init__(self, recorded: Recorded) -> None:
        self._steps, self._at, self._recorded = self._each(recorded), 0, recorded

    @staticmethod
    def _each(recorded: Recorded) -> Iterator[tuple[int, int, NDArray[np.int64], Tails]]:
        for block, (ends, rows, tails) in enumerate(recorded.drawn):
            for t in range(len(ends) - 1):
                yield block, t, rows[ends[t] : ends[t + 1]], tails

    def poisson_rows(self, n: int, rate: float) -> NDArray[np.int64]:
        assert (n, rate) == (300, 3.0 / 300)
        self._now = next(self._steps)
        return self._now[2]

    def rounded_gaussian(self, count: int, scale: float) -> Floats:
        block, t, _, tails = self._now
        out = np.empty(count)
        for j in range(count):
            place = t * count + j
            y = tails.sizes[place] * scale
            is_close = 0.5 - abs(y - np.rint(y)) <= y * noises.RELATIVE + noises.ABSOLUTE * scale
            size = -np.rint(y) if tails.negative[place] else np.rint(y)
            out[j] = self._recorded.decided[block, place] if is_close else size
        return out

    def skip(self) -> None:
        next(self._steps)


def answers_far_from_the_anchor(
    data: Data,
    noise_multiplier: float,
    start: Floats,
    anchor: Floats,
    snapshot: Floats,
    count: int,
    centred: bool = False,
) -> int:
    """Compare a walk's points with those of single answers, and return how many answers are far from the anchor."""
    problem, step, recorded = data.problem, 0.02, Recorded(5)
    queries = Plan((PlannedQuery("change", count, PoissonGaussian(3.0 / problem.n), noise_multiplier),))
    walking = WalkingOracle(problem, data, queries, recorded)
    points = walking.walk("change", start, anchor, snapshot, step, count, centred)
    assert points is not None
    replayed = Replayed(recorded)
    oracle, w, far_count = SampledOracle(problem, data, queries, replayed), start, 0
    change = oracle.centred_change if centred else oracle.sampled_change
    tolerance = 0.0 if isinstance(problem.domain, Free) else 1e-12
    for point in points:
        distance = kernels.length(w - anchor)
        if distance == 0:
            replayed.skip()
        if problem.L * distance <= problem.G:
            v = change("change", w, anchor) + snapshot
        else:
            v, far_count = oracle.sampled_gradient("change", w), far_count + 1
        np.testing.assert_allclose(point, problem.prox(w - step * v, step), rtol=0, atol=tolerance)
        w = point
    return far_count
