"""Ends hold the truth as often as they say: noise alone on the records, noise and sampling on what they are of."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from app.results import evaluations
from app.results.measures import Counted, Quadratic, accepted
from app.sources.design import Design
from purse.wire.columns import NumberColumn
from purse.wire.evaluations import Measured
from solvers.statistics import Evaluation

BINS = 20
MIDDLES = (np.arange(BINS) + 0.5) / BINS
SHARES = np.exp(-((MIDDLES - 0.4) ** 2) / 0.06)
SHARES /= SHARES.sum()
CHANCES = np.concatenate((SHARES * (1 - MIDDLES), SHARES * MIDDLES))  # calibrated


NONE = np.zeros(BINS)


def told(counts: Any, std: float, n: int | None) -> dict[str, Measured]:
    counted = Counted(np.asarray(counts, float), std, n)
    loss = counted.mean(evaluations._losses(np.linspace(0, 1, BINS + 1)), (0.01, 4.606))
    at = evaluations._threshold(counted, BINS, 7, 0.35)
    first = (np.arange(BINS) < 4).astype(float)
    found = {
        "auc": counted.auc(BINS),
        "log loss": loss,
        "accuracy": at.accuracy,
        "calibration": counted.share(np.concatenate((NONE, first)), np.tile(first, 2)),
    }
    return found | {"tpr": at.true_positive_rate, "fpr": at.false_positive_rate}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "std", "is_known"), [(400, 1.0, True), (400, 8.0, True), (1000, 3.0, False)])
def test_ends_hold_the_truth_as_often_as_they_say(n: int, std: float, is_known: bool) -> None:
    """Of 240 releases, if they hold 93 of 100, one of 36 counts is below what is asked with a chance under 1e-7.

    Noise alone of the records themselves; noise and sampling of what they are a sample of. A person's rows that are all
    alike count as one record, and the rows' number is not known then.
    """
    rng, runs = np.random.default_rng(5), 240
    truth, held, alone = told(CHANCES * 1e6, 1e-9, 1_000_000), Counter[str](), Counter[str]()
    for _ in range(runs):
        exact = rng.multinomial(n, CHANCES).astype(float)
        here = told(exact, 1e-9, n)
        found = told(exact + rng.normal(scale=std, size=2 * BINS), std, n if is_known else None)
        for name, one in found.items():
            held[name] += one.low <= truth[name].value <= one.high
            alone[name] += one.noise_low <= here[name].value <= one.noise_high
            assert one.low <= one.noise_low + 1e-9
            assert one.noise_low <= one.value <= one.noise_high <= one.high + 1e-9
    least = runs * 0.93 - 7 * math.sqrt(runs * 0.93 * 0.07)
    assert min(held.values()) >= least, held
    assert min(alone.values()) >= least, alone


def test_ends_are_no_wider_than_noise_and_sampling_make_them() -> None:
    """Twice 1.96 stds, of a proportion far from its ends; exact counts and many records leave nearly nothing."""
    n, std = 10_000, 30.0
    found = told(CHANCES * n, std, n)["accuracy"]
    share = found.value
    weights = np.concatenate((np.arange(BINS) < 7, np.arange(BINS) >= 7)).astype(float)
    assert share == pytest.approx(float(weights @ CHANCES))
    noise = std * math.sqrt(float(((weights - weights.mean()) ** 2).sum())) / n
    assert found.noise_high - found.noise_low == pytest.approx(2 * 1.96 * noise, rel=0.01)
    whole = math.hypot(noise, math.sqrt(share * (1 - share) / n))
    assert found.high - found.low == pytest.approx(2 * 1.96 * whole, rel=0.01)


def test_measures_of_exact_counts_are_those_of_the_scores() -> None:
    """AUC and log loss are within what bins hide; other measures are theirs to the last."""
    rng = np.random.default_rng(3)
    scores = rng.beta(2, 3, 20_000)
    y = rng.random(20_000) < scores
    counts = np.concatenate([np.histogram(scores[y == one], BINS, (0, 1))[0] for one in (False, True)])
    found = told(counts, 1e-9, 20_000)
    ranks = np.argsort(np.argsort(scores)) + 1.0
    positives = int(y.sum())
    auc = (ranks[y].sum() - positives * (positives + 1) / 2) / (positives * (20_000 - positives))
    p = np.clip(scores, 0.01, 0.99)
    loss = -np.where(y, np.log(p), np.log(1 - p)).mean()
    assert found["auc"].noise_low <= auc <= found["auc"].noise_high
    assert found["auc"].noise_high - found["auc"].noise_low < 0.12
    assert found["log loss"].noise_low <= loss <= found["log loss"].noise_high
    assert found["accuracy"].value == pytest.approx(((scores >= 0.35) == y).mean())
    assert found["tpr"].value == pytest.approx((scores[y] >= 0.35).mean())


def test_noise_that_hides_all_leaves_everything_open() -> None:
    for n in (100, None):
        found = told(CHANCES * 100, 1e4, n)
        assert {(one.low, one.high) for name, one in found.items() if name in ("auc", "tpr", "fpr")} == {(0.0, 1.0)}


def test_persons_whose_rows_are_alike_are_not_more_sure_than_they_are() -> None:
    """A hundred persons of ten rows each: binomial ends of a thousand rows would be too narrow by sqrt(10)."""
    rng = np.random.default_rng(1)
    persons = rng.multinomial(100, CHANCES).astype(float)  # k rows of weight 1/k each
    told_of = told(persons, 1e-6, None)["accuracy"]
    rows = told(10 * persons, 1e-6, None)["accuracy"]
    assert (told_of.high - told_of.low) / (rows.high - rows.low) == pytest.approx(math.sqrt(10), rel=0.05)


def test_counts_are_of_rows_though_a_persons_rows_weigh_as_one_record() -> None:
    """What is told of cells is ten times as much where a row adds a tenth; no share changes."""
    one, many = (Counted(CHANCES * 100, 2.0, None, places) for places in (1, 10))
    assert many.released == pytest.approx(10 * one.released)
    mine, its = (evaluations._two(BINS, ["a", "b"], counted, True) for counted in (one, many))
    assert np.array(its.counts) == pytest.approx(10 * np.array(mine.counts))
    assert its.thresholds[3].true_positives == pytest.approx(10 * mine.thresholds[3].true_positives)
    assert its.calibration is not None
    assert mine.calibration is not None
    assert its.calibration[2].records == pytest.approx(10 * mine.calibration[2].records)
    assert (its.accuracy, its.auc, its.log_loss) == (mine.accuracy, mine.auc, mine.log_loss)


def test_residuals_and_classes_are_told_in_their_units() -> None:
    """Squared and absolute errors lie within what bins hide; of classes, what is said rightly."""
    rng = np.random.default_rng(4)
    r = np.clip(rng.normal(0, 7, 5000), -20, 20)
    target = NumberColumn(name="y", type="number", lower=0, upper=80)
    design = Design((), (), target, 0, 1, None, 1.0)
    counts = np.histogram(r / 40, 20, (-0.5, 0.5))[0].astype(float)
    found = evaluations._residuals(Evaluation(bins=20), design, Counted(counts, 1e-6, 5000))
    assert (found.clip, found.edges[0], found.edges[-1]) == (20, -20, 20)
    for one, exact in ((found.mean_squared_error, (r**2).mean()), (found.mean_absolute_error, np.abs(r).mean())):
        assert one.noise_low <= exact <= one.noise_high
        assert one.value == pytest.approx(exact, rel=0.02)
    many = evaluations._many(["a", "b"], Counted(np.array([30.0, 10, 20, 40]), 1e-6, 100))
    assert [many.accuracy.value, *(one.value for one in many.recall)] == pytest.approx([0.7, 0.75, 2 / 3])
    assert many.counts == [[30, 10], [20, 40]]


def test_a_measure_beyond_its_range_counts_as_its_end() -> None:
    assert accepted(12.0, 10.0, Quadratic(1.0, 0.0, 0.0), (0.0, 1.0)) == pytest.approx((1 - 0.196, 1.0), rel=1e-4)
    assert accepted(1.0, 0.0, Quadratic(1.0, 0.0, 0.0), (0.0, 1.0)) == (0.0, 1.0)
    assert accepted(1.0, 1.0, Quadratic(0.0, 0.0, 1.0), (0.0, 2.0)) == pytest.approx((1 / 2.959964, 2.0))
    assert accepted(1.0, 1.0, Quadratic(9.0, 0.0, 1.0), (0.0, 2.0)) == (0.0, 2.0)
