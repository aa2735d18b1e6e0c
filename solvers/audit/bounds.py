"""Lower bounds on mu and epsilon from how well an attacker distinguished two neighboring datasets.

For every threshold t, alpha = P(score > t | D') and beta = P(score <= t | D). Each gets an upper confidence bound
(Clopper and Pearson). Their mean gets one, too, because it separates symmetric pairs best. Half of the allowed error
probability is for the mean; all other bounds share the other half.

Thresholds are quantiles of the scores themselves. At such a threshold, the errors on both sides differ by a constant.
The audit therefore reports a violation if they are at most some f and m, whose bounds a and b contradict the guarantee.
For an honest mechanism this implies alpha > a and at most f errors at the higher threshold where alpha equals a, or the
same for beta > b. The bound on the mean holds at all thresholds at once. Suppose that some t has at most m errors of n
on either side, and let tau be the smallest t with at most m scores of D' above it. Then at most m scores of D are at
most tau. P(score > tau | D') is at most U. Given U, the second event has probability P(V > beta), with U and V
independent and distributed as Beta(m + 1, n - m). Both events together have probability at most P(U + V > smallest
alpha + beta).

A mu-GDP mechanism satisfies Phi^-1(1 - alpha) - Phi^-1(beta) <= mu (Dong, Roth and Su 2022), so (alpha + beta) / 2 >=
Phi(-mu / 2). An (epsilon, delta)-DP mechanism satisfies 1 - beta <= e^epsilon alpha + delta, and the same with alpha
and beta exchanged, so (alpha + beta) / 2 >= (1 - delta) / (1 + e^epsilon). Large deltas give the test its power.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Scores = NDArray[np.float64]
DELTAS = (1e-5, 1e-3, 0.03, 0.1, 0.2, 0.4)  # at which a guarantee is checked
ALARM = 1e-9  # probability that an honest mechanism is reported, over all thresholds
_THRESHOLDS = np.linspace(0.02, 0.98, 49)
_CELLS = 1000  # of the distribution of U


def mu_lower_bound(first: Scores, second: Scores, alarm: float = ALARM) -> float:
    """Return a lower bound on mu: with probability 1 - `alarm`, the mechanism is not mu-GDP for any smaller mu.

    Parameters
    ----------
    first, second : (runs,), scores of runs on either dataset, higher if the first is likelier
    """
    false, missed, wrong = _errors(first, second, alarm)
    apart = stats.norm.isf(false) - stats.norm.ppf(missed)
    return float(max(apart.max(), 2 * stats.norm.isf(wrong)))


def epsilon_lower_bound(first: Scores, second: Scores, delta: float, alarm: float = ALARM) -> float:
    """Return a lower bound on epsilon at this delta, which holds with probability 1 - `alarm`."""
    false, missed, wrong = _errors(first, second, alarm)
    ratios = np.maximum((1 - missed - delta) / false, (1 - delta) / wrong - 1)
    return float(np.log(np.maximum(ratios, 1.0)).max())


def _errors(first: Scores, second: Scores, alarm: float) -> tuple[Scores, Scores, float]:
    """Return simultaneous upper confidence bounds on alpha and on beta for each threshold, and on their mean."""
    thresholds = np.quantile(np.concatenate([first, second]), _THRESHOLDS)
    runs = len(first)
    false = runs - np.searchsorted(np.sort(second), thresholds, side="right")
    missed = np.searchsorted(np.sort(first), thresholds, side="right")
    errors = np.array([false, missed])
    level = alarm / 2 / (2 * len(_THRESHOLDS))
    bounds = np.where(errors == runs, 1.0, stats.beta.isf(level, errors + 1, np.maximum(runs - errors, 1)))
    return bounds[0], bounds[1], _mean(int(errors.max(axis=0).min()), runs, alarm / 2)


@lru_cache
def _mean(errors: int, runs: int, level: float) -> float:
    """Return an upper bound on the smallest s with P(U + V > 2s) <= level; U is rounded up to the end of its cell."""
    if errors == runs:
        return 1.0
    law = stats.beta(errors + 1, runs - errors)
    ends = np.append(np.linspace(0.0, law.isf(level / 100), _CELLS), 1.0)
    sure = law.sf(ends)
    mass = sure[:-1] - sure[1:]

    def beyond(mean: float) -> float:
        return float(np.log(mass @ law.sf(2 * mean - ends[1:]) / level))

    return min(1.0, float(optimize.brentq(beyond, 0.0, ends[-2])) * (1 + 1e-9))
