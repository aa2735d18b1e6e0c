"""Sums of many secret slots by doubling: their rounding, and a circle that loses nothing."""

import itertools
import math
from fractions import Fraction
from typing import cast, get_args

import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import SingleUseAccountant
from accounting.calibration import calibrate
from accounting.divergences import slot_doubling, slot_law, slot_sums
from accounting.divergences.allocation import hockey_stick
from accounting.divergences.slot_law import SlotLaw
from accounting.mechanisms import RandomAllocation
from accounting.plan import Query
from accounting.privacy import Relation

LAW = SlotLaw(np.array([-1.3, -0.2, 0.0, 0.5, 2.7]), np.array([0.2, 0.3, 0.25, 0.2, 0.05]), 0.0, 1.0)


@pytest.mark.parametrize("largest", [0.1, 0.7, 2.7, 1 / 3])
@pytest.mark.parametrize("slots", [2, 3, 6, 7, 13, 31])
def test_rounding_of_sums_never_lowers_them_to_the_threshold(slots: int, largest: float) -> None:
    """The threshold is exceeded only if all values are the largest, and by less than the rounding of their sum."""
    law = SlotLaw(np.array([-largest, largest]), np.array([0.5, 0.5]), 0.0, 1.0)
    for kappa in (math.nextafter(largest, 0.0), math.nextafter(math.nextafter(largest, 0.0), 0.0)):
        expected = float(Fraction(largest) - Fraction(kappa)) * 0.5**slots
        assert 0 < expected <= slot_doubling.excess(law, slots, kappa)


def test_both_sums_and_the_threshold_are_moved_apart_by_their_rounding() -> None:
    """A point, a sum of two and the threshold move by 2^-50 each, so this threshold counts as passed."""
    law = SlotLaw(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), 0.0, 1.0)
    assert slot_doubling.excess(law, 2, 1 + 2.5 * 2.0**-50) > 0
    assert slot_doubling.excess(law, 2, 1 + 4 * 2.0**-50) == 0


@pytest.mark.parametrize("conditioning", [1.0, 2.0**12])
@pytest.mark.parametrize("slots", [6, 13, 1000])
def test_rounding_of_masses_is_granted(slots: int, conditioning: float) -> None:
    """If the threshold is far below all sums, the value is the mean less the threshold. Only rounding raises it."""
    law = SlotLaw(np.array([0.0, 1.0]), np.array([0.5, 0.5]), 0.0, conditioning)
    granted = slots * (2.0**-32 + 2.0**-40 * conditioning)
    assert slot_doubling.excess(law, slots, -1.0) == pytest.approx(1.5 * math.exp(granted), rel=granted / 100, abs=0.0)


def test_the_part_above_all_points_is_added() -> None:
    cut = SlotLaw(LAW.points, LAW.masses, 0.3, 1.0)
    assert slot_doubling.excess(cut, 6, 0.5) >= slot_doubling.excess(LAW, 6, 0.5) + 0.3
    assert slot_doubling.excess(cut, 6, 5.0) >= 0.3


@pytest.mark.parametrize("top", [-0.3, 0.0, 0.7])
def test_masses_move_to_the_knots_next_to_them_without_a_negative_mass(top: float) -> None:
    knots = slot_doubling.knots_up_to(np.array([-1.1, -0.5, -0.4, 0.1, 0.6, 0.9]), np.array([top]))
    points = np.append(np.linspace(-2.0, top, 40), top)
    for point in points:
        moved = slot_doubling.moved_to_knots(np.array([point]), np.array([0.25]), knots)
        occupied = np.flatnonzero(moved)
        assert (moved >= 0).all()
        assert occupied[-1] - occupied[0] <= 1
        assert knots[occupied[0]] <= max(point, knots[0]) + 1e-14
        assert max(point, knots[0]) <= knots[occupied[-1]]
        assert moved.sum() == pytest.approx(0.25, rel=1e-12)
        assert moved @ knots == pytest.approx(0.25 * max(point, knots[0]), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("slots", "kappa", "share"), [(12, 6.0, 1.1), (50, 6.0, 1.1), (1000, 6.0, 1.2), (30_001, 6.0, 1.4), (12, -0.4, 1.1)]
)
def test_the_bound_agrees_with_a_circle_that_loses_nothing(slots: int, kappa: float, share: float) -> None:
    law = slot_law.single(2.0, kappa < 0)
    circle = slot_sums.excess(law, slots, kappa)
    assert 0.95 * circle <= slot_doubling.excess(law, slots, kappa) <= share * circle


@pytest.mark.slow
def test_the_stated_epsilon_covers_the_certificate() -> None:
    for slots, relation in itertools.product((6, 50), get_args(Relation)):
        query = Query("half_pass", 1, RandomAllocation(0.99, slots))
        release = calibrate((query,), Privacy(30.0, 1e-6), relation)
        epsilon = SingleUseAccountant().epsilon(release.plan, release.delta)
        assert release.accountant == "single_use"
        assert epsilon * 1.019 <= release.epsilon <= 30.0


def test_a_threshold_near_zero_is_exact_under_zero_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """From gamma = 2^54 on, 1 - 1/gamma - 1 rounds to 0, and would leave out the second order of the neighbors."""
    thresholds: list[float] = []

    def recorded(*arguments: object, **_: object) -> float:
        thresholds.append(cast("float", arguments[2]))
        return 0.0

    monkeypatch.setattr(slot_sums, "excess", recorded)
    hockey_stick(RandomAllocation(1.0, 6), 1 / 8, 40.0, "zero_out")
    assert thresholds[1] == pytest.approx(-math.exp(-40.0), rel=1e-12, abs=0.0)
