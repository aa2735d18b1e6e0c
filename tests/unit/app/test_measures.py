"""Ends hold the truth as often as they say: noise alone on the records, noise and sampling on what they are of."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from app.jobs import evaluations
from app.jobs.measures import Counted
from purse.wire.evaluations import Measured, TwoClasses

BINS, CLASSES = 20, ["no", "yes"]
MIDDLES = (np.arange(BINS) + 0.5) / BINS
SHARES = np.exp(-((MIDDLES - 0.4) ** 2) / 0.06)
SHARES /= SHARES.sum()
CHANCES = np.concatenate((SHARES * (1 - MIDDLES), SHARES * MIDDLES))  # calibrated


def measures(found: TwoClasses) -> dict[str, Measured]:
    assert found.log_loss is not None
    assert found.calibration is not None
    at = found.thresholds[6]
    told = {"accuracy": found.accuracy, "auc": found.auc, "log loss": found.log_loss}
    told |= {"at 0.35": at.accuracy, "tpr": at.true_positive_rate, "fpr": at.false_positive_rate}
    return told | {f"group {g}": found.calibration[g].positive for g in (1, 4)}


def told(counts: Any, std: float, n: int | None) -> dict[str, Measured]:
    return measures(evaluations._two(BINS, CLASSES, Counted(np.asarray(counts, float), std, n), True))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "std", "persons"), [(400, 1.0, 1), (400, 8.0, 1), (2000, 6.0, 1), (1000, 3.0, 4)])
def test_ends_hold_the_truth_as_often_as_they_say(n: int, std: float, persons: int) -> None:
    """At least 91 of 100, where 95 are meant: fewer than 3/4 of 500 would be seen with a chance below 1e-9.

    Of persons each has `persons` rows that are alike, the worst that their ends allow for.
    """
    rng, runs = np.random.default_rng(5), 300
    truth, held, alone = told(CHANCES * 1e6, 1e-9, 1_000_000), Counter[str](), Counter[str]()
    for _ in range(runs):
        exact = rng.multinomial(n, CHANCES).astype(float)
        here = told(exact, 1e-9, n)
        found = told(exact + rng.normal(scale=std, size=2 * BINS), std, n if persons == 1 else None)
        for name, one in found.items():
            held[name] += one.low <= truth[name].value <= one.high
            alone[name] += one.noise_low <= here[name].value <= one.noise_high
            assert one.low <= one.value <= one.high
    print(held, alone)
    # Of 300 at a true chance of 93 the count is below this with a chance under 1e-9.
    least = 300 * 0.93 - 6.2 * math.sqrt(300 * 0.93 * 0.07)
    assert min(held.values()) >= least, held
    assert min(alone.values()) >= least, alone
