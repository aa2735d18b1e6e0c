"""The search of a total, which stays within its target, ends near it and takes few evaluations."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from accounting.accountants import PldAccountant, RoughPld
from accounting.calibration import calibrate
from accounting.divergences.spline import spline
from accounting.mechanisms import (
    Gaussian,
    Laplace,
    PoissonGaussian,
    RandomAllocation,
    RandomIterate,
    Resampled,
    WithoutReplacement,
)
from accounting.plan import Plan, PlannedQuery, Query
from accounting.privacy import Privacy, Relation
from accounting.search import SearchResult, largest

CLOSE = 2e-4
Share = Callable[[float], float]


class CountedShare:
    """Share that counts its evaluations."""

    def __init__(self, share: Share) -> None:
        self.share, self.times = share, 0

    def __call__(self, total: float) -> float:
        self.times += 1
        return self.share(total)


SMOOTH: dict[str, Share] = {
    "a root": lambda total: math.sqrt(total / 7),
    "a bend": lambda total: 0.3 * total + 0.1 * total**2,
    "far away": lambda total: (total / 1e-9) ** 0.7,
    "steep": lambda total: (total / 5) ** 4,
    "flat": lambda total: (total / 5) ** 0.3,
    "a kink": lambda total: (total / 2) ** (0.5 if total < 2 else 3.0),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("close", [CLOSE, 1e-6])
def test_it_ends_just_below_the_target(name: str, close: float) -> None:
    counted = CountedShare(SMOOTH[name])
    result = largest(counted, 1.0, close)
    assert 1 - close <= SMOOTH[name](result.total) <= 1
    assert counted.times <= 16


def test_a_smooth_share_takes_few_evaluations_also_from_points_of_a_similar_one() -> None:
    counted = CountedShare(SMOOTH["a bend"])
    first_result = largest(counted, 1.0, 3e-2)
    assert counted.times <= 4
    finer = CountedShare(lambda total: 0.94 * SMOOTH["a bend"](total) * total**0.02)
    next_result = largest(finer, first_result.total, CLOSE, first_result.points)
    assert 1 - CLOSE <= finer.share(next_result.total) <= 1
    assert finer.times <= 4  # the last of them is the one that counted here


def scaled(by: float) -> CountedShare:
    return CountedShare(lambda total: by * SMOOTH["a bend"](total))


@pytest.mark.parametrize("by", np.linspace(0.4, 2.5, 20))
def test_the_points_of_a_rough_search_lead_the_next_search(by: float) -> None:
    """The slope of the first share, moved to the point of the second one, also serves the third share."""
    share, next_share, last_share = scaled(by), scaled(0.999 * by), scaled(0.99902 * by)
    first_result = largest(share, 1.0, 0.1, rough=True)
    assert 0.95 - 1e-12 <= share.share(first_result.total) <= 1.05 + 1e-12
    next_result = largest(next_share, first_result.total, 4e-3, first_result.points, rough=True)
    assert abs(next_share.share(next_result.total) - 1) <= 2e-3 + 1e-12
    assert next_result.points[-1][0] == pytest.approx(math.log(next_result.total), abs=1e-12)
    # One point of its own does not define a slope, so the search keeps those of the first share.
    assert len(next_result.points) == next_share.times + (share.times if next_share.times == 1 else 0)
    last_result = largest(last_share, next_result.total, CLOSE, next_result.points)
    assert 1 - CLOSE <= last_share.share(last_result.total) <= 1
    assert last_share.times == 1 or share.times == 1  # one point has no slope


def test_a_rough_search_may_end_above_and_no_other() -> None:
    shares = [by * SMOOTH["a bend"](largest(scaled(by), 1.0, 0.1, rough=True).total) for by in (0.4, 2.4)]
    assert shares[1] < 1 < shares[0] < 1.05
    assert largest(scaled(0.4), 1.0, 0.1).points[-1][1] <= 0


def test_the_last_point_of_a_search_is_its_result() -> None:
    result = largest(SMOOTH["a bend"], 30.0, CLOSE)
    assert result.points[-1][0] == pytest.approx(math.log(result.total), abs=1e-12)
    assert len(result.points) > 2


JUMPS: dict[str, tuple[Share, float]] = {
    "infinite beyond": (lambda total: total / 10 if total < 3 else math.inf, 3.0),
    "nothing below": (lambda total: 0.0 if total < 5 else 2 * total, 5.0),
    "from nothing to infinity": (lambda total: 0.0 if total < 0.01 else math.inf, 0.01),
    "up": (lambda total: 0.5 * math.sqrt(total) if total < 2 else 5 * total, 2.0),
}


@pytest.mark.parametrize("name", JUMPS)
def test_a_jump_is_approached_from_the_side_that_keeps_the_target(name: str) -> None:
    share, at = JUMPS[name]
    result = largest(share, 1.0, CLOSE)
    assert share(result.total) <= 1
    assert 0.95 * at <= result.total <= at


def test_nothing_within_reach_is_nothing() -> None:
    assert largest(lambda _: math.inf, 1.0, CLOSE) == SearchResult(0.0, ())
    assert largest(lambda total: 2 + total, 1.0, CLOSE).total == 0


def test_wrong_starting_points_cost_evaluations_but_never_the_target() -> None:
    share = SMOOTH["a root"]
    for like in ([(0.0, 3.0), (5.0, -9.0), (0.0, 0.0)], [(1.0, 0.0)] * 4, [(-300.0, 0.0), (300.0, 1e-300)]):
        result = largest(share, 1.0, CLOSE, like)
        assert 1 - CLOSE <= share(result.total) <= 1


MOMENTS = (Query("means", 1, Gaussian(), 0.02), Query("spread", 1, Gaussian(), 0.01))
PLANS: dict[str, tuple[tuple[Query, ...], float, float]] = {  # the target epsilon, and the noise of the search before
    "change": ((Query("b", 5, Gaussian(), 0.25), Query("a", 200, PoissonGaussian(0.005), 0.75)), 1.0, 44.27313),
    "batch": ((Query("b", 500, WithoutReplacement(100, 32561)),), 1.0, 1.666785),
    "half passes": ((Query("b", 4, RandomAllocation(0.5, 100, "ordered")),), 0.1, 8.083945),
    "one half pass": ((Query("b", 1, RandomAllocation(0.5, 167)),), 4.0, 0.5405437),
    "prefix": ((Query("b", 1, RandomIterate(100), 0.92), *MOMENTS, Query("v", 1, Gaussian(), 0.05)), 1.0, 77.909977),
    "bootstrap": ((Query("b", 3, Resampled(Laplace(), 300)),), 1.0, 7.0287286),
    "laplace": ((Query("b", 200, Laplace()),), 1.0, 118.35527),
    "steps": ((Query("b", 10**6, PoissonGaussian(0.01)),), 1.0, 90.626191),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_noise_stays_the_same_within_the_tolerance_of_a_search(name: str) -> None:
    """A search leaves up to 2e-4 of epsilon. ln noise is less steep than ln epsilon in every one of these plans."""
    queries, epsilon, expected = PLANS[name]
    release = calibrate(queries, Privacy(epsilon, 1e-6))
    assert epsilon * (1 - CLOSE) <= release.epsilon <= epsilon
    noise = next(query.noise_multiplier for query in release.plan.queries if query.name == "b")
    assert noise == pytest.approx(expected, rel=CLOSE)


def test_the_certifying_accountant_is_evaluated_at_most_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search itself uses `RoughPld`, which is accurate enough for it."""
    plans: list[Plan] = []
    whole = PldAccountant.epsilon

    def epsilon(self: PldAccountant, plan: Plan, delta: float) -> float:
        plans.append(plan)
        return whole(self, plan, delta)

    monkeypatch.setattr(PldAccountant, "epsilon", epsilon)
    release = calibrate(
        (Query("slots", 3, RandomAllocation(0.5, 60), 0.97), *MOMENTS), Privacy(0.77, 1e-6)
    )  # in no other test, because calibrations are cached
    assert release.accountant == "pld"
    assert len(set(plans)) == len(plans) <= 2
    assert RoughPld(1.0).epsilon(release.plan, 1e-6) == pytest.approx(release.epsilon, rel=CLOSE)


@pytest.mark.parametrize(
    ("query", "z", "tolerance"),
    [
        (Query("b", 50, PoissonGaussian(0.02)), 0.8, 1e-6),
        (Query("b", 7, WithoutReplacement(100, 1000)), 1.5, 1e-6),
        (Query("b", 16, RandomAllocation(0.5, 400)), 0.7, 5e-3),
        (Query("b", 4, RandomAllocation(0.5, 50, "ordered")), 0.9, 5e-3),
    ],
)
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("delta", [1e-6, 2e-9])  # of which the composition's error is a part in two hundred
def test_the_rough_accountant_of_a_search_is_close_to_the_certified_epsilon(
    query: Query, z: float, tolerance: float, relation: Relation, delta: float
) -> None:
    plan = Plan((PlannedQuery("m", 1, Gaussian(), 9.0), PlannedQuery("b", query.count, query.mechanism, z)), relation)
    certified = PldAccountant(4.0).epsilon(plan, delta)
    assert 0.1 < certified < 20
    assert RoughPld(4.0).epsilon(plan, delta) == pytest.approx(certified, rel=tolerance)


def test_a_search_finds_0_and_infinity() -> None:
    free, dear = (Plan((PlannedQuery("b", 3, RandomAllocation(0.5, 60), z),)) for z in (1e6, 0.04))
    assert (RoughPld(1.0).epsilon(free, 1e-6), RoughPld(1.0).epsilon(dear, 1e-6)) == (0.0, math.inf)
    assert (PldAccountant().epsilon(free, 1e-6), PldAccountant().epsilon(dear, 1e-6)) == (0.0, math.inf)


def test_the_spline_of_a_search_keeps_a_cubic_and_is_the_polygon_of_few_points() -> None:
    x = [0.0, 0.3, 1.0, 1.4, 2.5, 4.0]
    cubic = spline(x, [t**3 - 2 * t**2 + 5 for t in x])
    line = spline(x[:3], [1.0, 0.0, 2.0])
    for t in np.linspace(0, 4, 41):
        assert cubic(float(t)) == pytest.approx(t**3 - 2 * t**2 + 5, abs=1e-9)
        assert line(float(t)) == pytest.approx(1 - t / 0.3 if t < 0.3 else 2 * (t - 0.3) / 0.7, abs=1e-12)


def test_rare_jumps_beside_many_answers_have_a_grid() -> None:
    """Their typical loss is far below that of the other answers, and their largest one far above it."""
    queries = (
        Query("a", 22, Gaussian(), 30.0),
        Query("b", 6, PoissonGaussian(1e-5), 0.7),
        Query("c", 1266, PoissonGaussian(8e-4), 0.55),
    )
    release = calibrate(queries, Privacy(0.4, 1e-6))
    assert release.epsilon > 0.999 * 0.4
    assert release.plan.queries[0].noise_multiplier < 400  # it was 21,000 where the search ended for want of a grid
