"""Comparison with dp-accounting: its pinned version, its events under both relations, and our values for its events."""

import math
from importlib.metadata import version

import numpy as np
import pytest

from accounting import Privacy
from accounting.accountants import guard
from accounting.calibration import calibrate
from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Query


def test_the_version_is_pinned() -> None:
    assert version("dp-accounting") == guard.PINNED == "0.6.0"


def test_factor_two_between_its_accountants() -> None:
    """GaussianDpEvent(1) under replace-one: std over sensitivity for RDP, std over the per-record bound for PLD.

    If a new version changes either meaning, this fails before any receipt is read wrongly (docs/spec 12.1).
    """
    import dp_accounting
    from dp_accounting import pld, rdp

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    event = dp_accounting.GaussianDpEvent(1.0)
    renyi = rdp.RdpAccountant(orders=[2.0], neighboring_relation=relation).compose(event)
    # At a = 2 and an RDP of 1, epsilon is 1 + ln((a - 1) / a) - ln(a delta) / (a - 1).
    assert renyi.get_epsilon(1e-6) == pytest.approx(1.0 + math.log(1 / 2) - math.log(2e-6))
    assert pld.PLDAccountant(relation).compose(event).get_epsilon(1e-6) == pytest.approx(10.997, abs=1e-3)


def test_its_pld_accountant_agrees_with_our_receipts() -> None:
    """An outsider hands a receipt's event tree to dp-accounting's PLD accountant under replace-one."""
    import dp_accounting
    from dp_accounting import pld

    queries = (Query("snapshot", 5, Gaussian(), 0.25), Query("change", 200, PoissonGaussian(0.005), 0.75))
    release = calibrate(queries, Privacy(1.0, 1e-6))
    snapshot, change = release.plan.queries
    event = dp_accounting.ComposedDpEvent(
        [
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(snapshot.noise_multiplier), 5),
            dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(0.005, dp_accounting.GaussianDpEvent(change.noise_multiplier)), 200
            ),
        ]
    )
    theirs = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, 1e-3).compose(event).get_epsilon(1e-6)
    assert theirs == pytest.approx(release.epsilon, rel=5e-3)


def test_masses_are_checked_because_the_library_makes_epsilon_0_of_nan() -> None:
    """The product passes it no events, only masses of a probability distribution, which `guard` checks."""
    import dp_accounting
    from dp_accounting import rdp

    trap = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    assert trap.compose(dp_accounting.GaussianDpEvent(math.nan)).get_epsilon(1e-6) == 0.0
    with pytest.raises(OutOfRange):
        guard.pessimistic_pmf(1e-3, 0, np.array([math.nan, 1.0]), 0.0)
    with pytest.raises(OutOfRange):
        guard.pessimistic_pmf(1e-3, 0, np.array([0.5]), 0.0)
    with pytest.raises(OutOfRange):
        guard.pessimistic_pmf(1e-3, 0, np.array([1.5, -0.5]), 0.0)
    with pytest.raises(OutOfRange):
        guard.pessimistic_pmf(math.nan, 0, np.array([1.0]), 0.0)


def test_composing_does_not_change_the_parts() -> None:
    pmf = guard.pessimistic_pmf(0.1, -1, np.array([0.4, 0.2, 0.4]), 0.0)
    epsilon_before = guard.epsilon(pmf, 0.05)
    guard.compose([(pmf, 7), (pmf, 1)])
    assert guard.epsilon(pmf, 0.05) == epsilon_before


def test_the_epsilon_of_composed_masses_is_that_of_the_library() -> None:
    """Its loop over all masses takes seconds; ours is the same arithmetic on arrays."""
    random = np.random.default_rng(1)
    for infinity in (0.0, 1e-7, 1e-3):
        for size, lowest, interval in ((1, -4, 0.1), (1, 3, 0.1), (40, -60, 0.01), (300, -150, 0.02), (300, 30, 0.1)):
            masses = random.random(size) ** 6
            pmf = guard.pessimistic_pmf(interval, lowest, masses * ((1 - infinity) / masses.sum()), infinity)
            for delta in (1e-9, 1e-6, 0.01, 0.5):
                theirs = float(pmf.get_epsilon_for_delta(delta))
                assert guard.epsilon(pmf, delta) == pytest.approx(theirs, rel=1e-9, abs=1e-12)
