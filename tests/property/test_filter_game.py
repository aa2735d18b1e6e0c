"""An adversary who plays a small exact model against a filter: each job chosen after all answers, up to the best test.

The jobs are pairs of laws on three or four outcomes, whose losses are multiples of 1/10. So the most that any adaptive
choice of jobs, of when to stop, and of a set S can make of P(S) - e^epsilon Q(S) is a finite recursion, here without
any of the filter's own arithmetic.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from accounting import Privacy
from accounting.charges import Cost
from accounting.divergences import randomized_response
from accounting.divergences.losses import Masses, connect_the_dots
from accounting.filter import Filter
from accounting.mechanisms.mechanism import Curves
from accounting.plan import AbstractComposition

STEP = 0.1
BUDGET = Privacy(1.0, 1e-2)


@dataclass(frozen=True)
class Pair(AbstractComposition):
    """Randomized response at `small` steps; or, with probability about `rare`, at twenty. Its own mirror image."""

    small: int
    rare: float = 0.0

    @property
    def outcomes(self) -> dict[int, float]:
        """P's mass at each loss, in steps. Q has the same mass at the opposite loss."""
        rare_factor, small_factor = 1 + math.exp(-20 * STEP), 1 + math.exp(-self.small * STEP)
        small_mass = (1 - self.rare * rare_factor) / small_factor
        masses = {self.small: small_mass, -self.small: small_mass * math.exp(-self.small * STEP)}
        return masses | ({20: self.rare, -20: self.rare * math.exp(-20 * STEP)} if self.rare else {})

    shift = 1.0

    @property
    def deviation(self) -> float:
        return self.small * STEP

    @property
    def widest(self) -> float:
        return 4.0

    def moments(self, count: int) -> tuple[float, float]:
        return 0.1 * count, 0.1 * count

    def masses(self, interval: float) -> Masses:
        """Each loss in its cell of a finer grid."""
        cells = {loss: math.floor(loss * STEP / interval) for loss in self.outcomes}
        lowest = min(cells.values())
        upper, lower = (np.zeros(max(cells.values()) - lowest + 1) for _ in range(2))
        for loss, mass in self.outcomes.items():
            upper[cells[loss] - lowest] += mass
            lower[cells[loss] - lowest] += mass * math.exp(-loss * STEP)
        return connect_the_dots(interval, lowest, upper, lower, 0.0, 0.0)

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        if self.rare:
            return ((1, Curves(self._rdp, pure=20 * STEP, losses=(self,), approximate_rdp=self._without_rare)),)
        mu = randomized_response.gdp(self.small * STEP)
        return ((1, Curves(self._rdp, mu, mu, self.small * STEP)),)

    def _rdp(self, orders: Sequence[float]) -> NDArray[np.float64]:
        moments = [sum(p * math.exp((a - 1) * STEP * loss) for loss, p in self.outcomes.items()) for a in orders]
        return np.log(moments) / (np.array(orders) - 1)

    def _without_rare(self, orders: Sequence[float], slack: float) -> NDArray[np.float64] | None:
        """Return the Renyi curve of the law without its rare outcome, or None if that is likelier than the slack."""
        if self.rare > slack:
            return None
        without_rare = {loss: p for loss, p in self.outcomes.items() if loss < 20}
        moments = [sum(p * math.exp((a - 1) * STEP * loss) for loss, p in without_rare.items()) for a in orders]
        return (np.log(moments) - np.array(orders) * math.log(1 - self.rare)) / (np.array(orders) - 1)


JOBS = (Pair(1), Pair(2), Pair(1, 2e-5), Pair(2, 5e-5))


def largest_delta(jobs: Sequence[Pair], costs: Sequence[Cost], admits: Callable[[Cost, Cost], bool]) -> float:
    """Return sup P(S) - e^epsilon Q(S) = sup E_P[1_S (1 - e^(epsilon - loss))] over adaptive players."""

    @cache
    def value(spent: Cost, loss: int) -> float:
        best = max(0.0, 1 - math.exp(BUDGET.epsilon - loss * STEP))
        for job, cost in zip(jobs, costs, strict=True):
            if admits(spent, cost):
                spent_after = tuple(a + b for a, b in zip(spent, cost, strict=True))
                best = max(best, sum(p * value(spent_after, loss + own) for own, p in job.outcomes.items()))
        return best

    return value((0,) * len(costs[0]), 0)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [JOBS[:2], JOBS[2:], JOBS], ids=["exact", "approximate", "all"])
def test_no_adaptive_player_exceeds_the_budget(jobs: tuple[Pair, ...]) -> None:
    rule = Filter.open("gdp_rdp", BUDGET)
    costs = [rule.cost(job) for job in jobs]
    for job, cost in zip(jobs, costs, strict=True):
        assert rule.admits(rule.zero_cost, cost)
        assert (cost[-1] > 0) == (job.rare > 0)
    delta = largest_delta(jobs, costs, rule.admits)
    assert BUDGET.delta / 100 < delta <= BUDGET.delta


@given(
    p=st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    cuts=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=2, max_size=3),
)
def test_the_intersection_of_splits_lacks_at_most_the_sum_of_their_missing_masses(
    p: list[float], cuts: list[list[bool]]
) -> None:
    """Check the lemma of several splits, and that a single split does not bound the intersection."""
    law = np.array(p) / sum(p)
    laws = [np.where(cut, 0.0, law) for cut in cuts if not all(cut)]
    lacking = 1 - np.min(laws, axis=0).sum() if laws else 0.0
    assert lacking <= sum(1 - k.sum() for k in laws) + 1e-12
    two = [law * [0, 1, 1, 1], law * [1, 0, 1, 1]]
    assert 1 - np.min(two, axis=0).sum() > max(1 - k.sum() for k in two)


def test_the_player_sees_a_budget_four_times_too_large() -> None:
    rule = Filter.open("gdp_rdp", BUDGET)
    loose = replace(rule, thresholds=tuple(4 * t for t in rule.thresholds))
    assert largest_delta(JOBS[1:2], [rule.cost(JOBS[1])], loose.admits) > BUDGET.delta
