"""An adversary that stops Gaussian jobs for a job that an order pays: only the default filter bounds what it gains."""

import numpy as np
import pytest

from accounting import Privacy
from accounting.charges import UNIT
from accounting.divergences.gaussian import gauss_delta, gauss_mu
from accounting.filter import Filter
from benchmarks.adversary import jobs_of_two_outcomes, largest_delta, most_kept

BUDGET = Privacy(1.0, 1e-5)
RULE = Filter.open("gdp_rdp", BUDGET)


def test_the_adversary_gains_more_than_gaussian_jobs_and_less_than_delta() -> None:
    square = RULE.thresholds[0] / UNIT
    gaussian = gauss_delta(square**0.5, BUDGET.epsilon)
    assert 1.2 * gaussian + RULE.slack < largest_delta(RULE, square) <= BUDGET.delta


def test_coordinates_without_a_union_bound_would_lose_to_the_adversary() -> None:
    assert largest_delta(RULE, gauss_mu(BUDGET.epsilon, BUDGET.delta) ** 2) > 1.1 * BUDGET.delta
    assert 0.97 < most_kept(RULE) < 0.98


@pytest.mark.parametrize("a", [3.0, 17.81, 32.06])
@pytest.mark.parametrize("remainder", [1e-3, 0.1, 0.7])
def test_jobs_of_two_outcomes_use_at_most_the_remainder_of_the_order(a: float, remainder: float) -> None:
    gaps, p = jobs_of_two_outcomes(a, remainder)
    upper = np.log(p), np.log1p(-p)
    lower = np.log(p) - gaps, np.log1p(-p * np.exp(-gaps))
    assert len(p) > 0
    for first, second in ((upper, lower), (lower, upper)):
        moments = np.logaddexp(*(a * x + (1 - a) * y for x, y in zip(first, second, strict=True)))
        assert moments.max() / (a - 1) <= remainder * (1 + 1e-9)
