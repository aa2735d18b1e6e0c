"""What can be said for certain of a mechanism from how well an attacker told two neighboring datasets apart.

For every threshold t, alpha = P(score > t | D') and beta = P(score <= t | D); both get upper confidence bounds (Clopper
and Pearson), jointly over all thresholds tried. A mu-GDP mechanism obeys Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong,
Roth and Su 2022); an (epsilon, delta)-DP one obeys 1 - beta <= e^epsilon alpha + delta. Large
deltas give the test its power.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Scores = NDArray[np.float64]
DELTAS = (1e-5, 1e-3, 0.03, 0.1, 0.2, 0.4)  # where a promise is checked
ALARM = 1e-9  # the chance that an honest mechanism is accused, over all thresholds tried
_THRESHOLDS = np.linspace(0.02, 0.98, 49)


def mu_lower_bound(one: Scores, two: Scores) -> float:
    """The mechanism is not mu-GDP for any mu below this, but for a chance of ALARM.

    Parameters
    ----------
    one, two : (runs,), scores of runs on either dataset, higher where the first is likelier
    """
    false, missed = _errors(one, two)
    return float((stats.norm.isf(false) - stats.norm.ppf(missed)).max())


def epsilon_lower_bound(one: Scores, two: Scores, delta: float) -> float:
    """The mechanism is not (epsilon, delta)-DP for any epsilon below this, but for a chance of ALARM."""
    false, missed = _errors(one, two)
    return float(np.log(np.maximum((1 - missed - delta) / false, 1.0)).max())


def _errors(one: Scores, two: Scores) -> tuple[Scores, Scores]:
    """Upper confidence bounds on alpha and on beta for every threshold."""
    thresholds, runs = np.quantile(np.concatenate([one, two]), _THRESHOLDS), len(one)
    false = runs - np.searchsorted(np.sort(two), thresholds, side="right")
    missed = np.searchsorted(np.sort(one), thresholds, side="right")
    level = ALARM / (2 * len(thresholds))
    upper = [np.where(k == runs, 1.0, stats.beta.isf(level, k + 1, np.maximum(runs - k, 1))) for k in (false, missed)]
    return upper[0], upper[1]
