"""What can be said for certain of a mechanism from how well an attacker told two neighboring datasets apart.

For every threshold t, alpha = P(score > t | D') and beta = P(score <= t | D). Each gets an upper confidence bound
(Clopper and Pearson), and so does their mean, where pairs that mirror each other are told apart best: half of the
chance of an error is the mean's, half is shared by all the others.

Thresholds are quantiles of the scores themselves. At one of them the errors on both sides differ by a constant, so it
accuses where they are at most some f and m, whose bounds a and b break the promise. Of an honest mechanism then alpha >
a, and there are at most f errors at the higher threshold where alpha is a too; or so it is with beta > b. The mean's
bound holds at every threshold at once. Let some t have at most m errors on either side of n, and tau be the least t
with at most m scores of D' above it: then at most m of D are at most tau. P(score > tau | D') is at most U, and given
it that has a chance of P(V > beta), U and V independent, Beta(m + 1, n - m): both happen with one of at most
P(U + V > least alpha + beta).

A mu-GDP mechanism obeys Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong, Roth and Su 2022), so (alpha + beta) / 2 >=
Phi(-mu / 2); an (epsilon, delta)-DP one obeys 1 - beta <= e^epsilon alpha + delta and the same with both changed for
each other, so (alpha + beta) / 2 >= (1 - delta) / (1 + e^epsilon). Large deltas give the test its power.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Scores = NDArray[np.float64]
DELTAS = (1e-5, 1e-3, 0.03, 0.1, 0.2, 0.4)  # where a promise is checked
ALARM = 1e-9  # the chance that an honest mechanism is accused, over all thresholds tried
_THRESHOLDS = np.linspace(0.02, 0.98, 49)
_CELLS = 1000  # of U


def mu_lower_bound(one: Scores, two: Scores, alarm: float = ALARM) -> float:
    """The mechanism is not mu-GDP for any mu below this, but for a chance of `alarm`.

    Parameters
    ----------
    one, two : (runs,), scores of runs on either dataset, higher where the first is likelier
    """
    false, missed, wrong = _errors(one, two, alarm)
    apart = stats.norm.isf(false) - stats.norm.ppf(missed)
    return float(max(apart.max(), 2 * stats.norm.isf(wrong)))


def epsilon_lower_bound(one: Scores, two: Scores, delta: float, alarm: float = ALARM) -> float:
    """The mechanism is not (epsilon, delta)-DP for any epsilon below this, but for a chance of `alarm`."""
    false, missed, wrong = _errors(one, two, alarm)
    ratios = np.maximum((1 - missed - delta) / false, (1 - delta) / wrong - 1)
    return float(np.log(np.maximum(ratios, 1.0)).max())


def _errors(one: Scores, two: Scores, alarm: float) -> tuple[Scores, Scores, float]:
    """Upper confidence bounds on alpha and on beta for every threshold, and on their mean, all of them at once."""
    thresholds, runs = np.quantile(np.concatenate([one, two]), _THRESHOLDS), len(one)
    false = runs - np.searchsorted(np.sort(two), thresholds, side="right")
    missed = np.searchsorted(np.sort(one), thresholds, side="right")
    errors, level = np.array([false, missed]), alarm / 2 / (2 * len(_THRESHOLDS))
    bounds = np.where(errors == runs, 1.0, stats.beta.isf(level, errors + 1, np.maximum(runs - errors, 1)))
    return bounds[0], bounds[1], _mean(int(errors.max(axis=0).min()), runs, alarm / 2)


@lru_cache
def _mean(errors: int, runs: int, level: float) -> float:
    """The least s with P(U + V > 2s) <= level, or more: U in cells, and at the upper end of its own."""
    if errors == runs:
        return 1.0
    law = stats.beta(errors + 1, runs - errors)
    ends = np.append(np.linspace(0.0, law.isf(level / 100), _CELLS), 1.0)
    sure = law.sf(ends)
    mass = sure[:-1] - sure[1:]

    def beyond(mean: float) -> float:
        return float(np.log(mass @ law.sf(2 * mean - ends[1:]) / level))

    return min(1.0, float(optimize.brentq(beyond, 0.0, ends[-2])) * (1 + 1e-9))
