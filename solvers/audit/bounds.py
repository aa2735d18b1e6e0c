"""What can be said for certain of a mechanism from how well an attacker told two neighboring datasets apart.

For every threshold t, alpha = P(score > t | D') and beta = P(score <= t | D). Each of them and their mean get upper
confidence bounds (Clopper and Pearson), jointly over all thresholds tried, half of the chance of an error going to the
mean at the middle one, where pairs that mirror each other are told apart best: of the mean too, since the errors on
both sides together, if they are more, or fewer, than the mean by one or more, are so no likelier than if all runs had
the mean's chance (Hoeffding 1956, Theorem 4). A mu-GDP mechanism obeys Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong,
Roth and Su 2022), so (alpha + beta) / 2 >= Phi(-mu / 2); an (epsilon, delta)-DP one obeys 1 - beta <= e^epsilon alpha +
delta and the same with both changed for each other, so (alpha + beta) / 2 >= (1 - delta) / (1 + e^epsilon). Large
deltas give the test its power.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Scores = NDArray[np.float64]
DELTAS = (1e-5, 1e-3, 0.03, 0.1, 0.2, 0.4)  # where a promise is checked
ALARM = 1e-9  # the chance that an honest mechanism is accused, over all thresholds tried
_THRESHOLDS = np.linspace(0.02, 0.98, 49)
_SHARE = np.full((3, len(_THRESHOLDS)), 0.5 / (3 * len(_THRESHOLDS) - 1))  # of the alarm, for each bound
_SHARE[2, len(_THRESHOLDS) // 2] = 0.5


def mu_lower_bound(one: Scores, two: Scores, alarm: float = ALARM) -> float:
    """The mechanism is not mu-GDP for any mu below this, but for a chance of `alarm`.

    Parameters
    ----------
    one, two : (runs,), scores of runs on either dataset, higher where the first is likelier
    """
    false, missed, wrong = _errors(one, two, alarm)
    apart = stats.norm.isf(false) - stats.norm.ppf(missed)
    return float(np.maximum(apart, 2 * stats.norm.isf(wrong)).max())


def epsilon_lower_bound(one: Scores, two: Scores, delta: float, alarm: float = ALARM) -> float:
    """The mechanism is not (epsilon, delta)-DP for any epsilon below this, but for a chance of `alarm`."""
    false, missed, wrong = _errors(one, two, alarm)
    ratios = np.maximum((1 - missed - delta) / false, (1 - delta) / wrong - 1)
    return float(np.log(np.maximum(ratios, 1.0)).max())


def _errors(one: Scores, two: Scores, alarm: float) -> tuple[Scores, Scores, Scores]:
    """Upper confidence bounds on alpha, on beta and on their mean for every threshold, all of them at once."""
    thresholds, runs = np.quantile(np.concatenate([one, two]), _THRESHOLDS), len(one)
    false = runs - np.searchsorted(np.sort(two), thresholds, side="right")
    missed = np.searchsorted(np.sort(one), thresholds, side="right")
    errors, most = np.array([false, missed, false + missed]), np.array([[runs], [runs], [2 * runs]])
    bounds = np.where(errors == most, 1.0, stats.beta.isf(alarm * _SHARE, errors + 1, np.maximum(most - errors, 1)))
    return bounds[0], bounds[1], bounds[2]
