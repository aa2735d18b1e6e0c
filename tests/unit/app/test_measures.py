"""Intervals of measures contain the true value as often as stated, for the noise alone and with the sampling."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from app.results import evaluations
from app.results.measures import Counted, accepted
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


def measures(counts: Any, std: float, n: int | None) -> dict[str, Measured]:
    counted = Counted(np.asarray(counts, float), std, n)
    loss = counted.mean(evaluations.losses(np.linspace(0, 1, BINS + 1)), (0.01, 4.606))
    at_threshold = evaluations.threshold_measures(counted, BINS, 7, 0.35)
    first = (np.arange(BINS) < 4).astype(float)
    measured = {
        "auc": counted.auc(BINS),
        "log loss": loss,
        "accuracy": at_threshold.accuracy,
        "calibration": counted.share(np.concatenate((NONE, first)), np.tile(first, 2)),
    }
    return measured | {"tpr": at_threshold.true_positive_rate, "fpr": at_threshold.false_positive_rate}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "std", "is_known"), [(400, 1.0, True), (400, 8.0, True), (1000, 3.0, False)])
def test_intervals_contain_the_truth_as_often_as_stated(n: int, std: float, is_known: bool) -> None:
    """Of 240 releases, if they hold 93 of 100, one of 36 counts is below what is asked with a chance under 1e-7.

    Noise alone of the records themselves; noise and sampling of what they are a sample of. A person's rows that are all
    alike count as one record, and the rows' number is not known then.
    """
    rng, runs = np.random.default_rng(5), 240
    truth, containing, noise_containing = measures(CHANCES * 1e6, 1e-9, 1_000_000), Counter[str](), Counter[str]()
    for _ in range(runs):
        exact = rng.multinomial(n, CHANCES).astype(float)
        exact_measures = measures(exact, 1e-9, n)
        released = measures(exact + rng.normal(scale=std, size=2 * BINS), std, n if is_known else None)
        for name, measure in released.items():
            containing[name] += measure.low <= truth[name].value <= measure.high
            noise_containing[name] += measure.noise_low <= exact_measures[name].value <= measure.noise_high
            assert measure.low <= measure.noise_low + 1e-9
            assert measure.noise_low <= measure.value <= measure.noise_high <= measure.high + 1e-9
    lower_limit = runs * 0.93 - 7 * math.sqrt(runs * 0.93 * 0.07)
    assert min(containing.values()) >= lower_limit, containing
    assert min(noise_containing.values()) >= lower_limit, noise_containing


def test_intervals_have_the_width_of_noise_and_sampling() -> None:
    """The width is 2 * 1.96 stds for a proportion that is not near 0 or 1."""
    n, std = 10_000, 30.0
    accuracy = measures(CHANCES * n, std, n)["accuracy"]
    share = accuracy.value
    weights = np.concatenate((np.arange(BINS) < 7, np.arange(BINS) >= 7)).astype(float)
    assert share == pytest.approx(float(weights @ CHANCES))
    noise = std * math.sqrt(float(((weights - weights.mean()) ** 2).sum())) / n
    assert accuracy.noise_high - accuracy.noise_low == pytest.approx(2 * 1.96 * noise, rel=0.01)
    whole = math.hypot(noise, math.sqrt(share * (1 - share) / n))
    assert accuracy.high - accuracy.low == pytest.approx(2 * 1.96 * whole, rel=0.01)


def test_measures_of_exact_counts_equal_those_of_the_scores() -> None:
    """The true AUC and log loss are within the width of the bins; other measures are equal."""
    rng = np.random.default_rng(3)
    scores = rng.beta(2, 3, 20_000)
    y = rng.random(20_000) < scores
    counts = np.concatenate([np.histogram(scores[y == one], BINS, (0, 1))[0] for one in (False, True)])
    measured = measures(counts, 1e-9, 20_000)
    ranks = np.argsort(np.argsort(scores)) + 1.0
    positives = int(y.sum())
    auc = (ranks[y].sum() - positives * (positives + 1) / 2) / (positives * (20_000 - positives))
    p = np.clip(scores, 0.01, 0.99)
    loss = -np.where(y, np.log(p), np.log(1 - p)).mean()
    assert measured["auc"].noise_low <= auc <= measured["auc"].noise_high
    assert measured["auc"].noise_high - measured["auc"].noise_low < 0.12
    assert measured["log loss"].noise_low <= loss <= measured["log loss"].noise_high
    assert measured["accuracy"].value == pytest.approx(((scores >= 0.35) == y).mean())
    assert measured["tpr"].value == pytest.approx((scores[y] >= 0.35).mean())


def test_under_overwhelming_noise_intervals_are_from_zero_to_one() -> None:
    for n in (100, None):
        measured = measures(CHANCES * 100, 1e4, n)
        assert {(measure.low, measure.high) for name, measure in measured.items() if name in ("auc", "tpr", "fpr")} == {
            (0.0, 1.0)
        }


def test_equal_rows_of_a_person_do_not_narrow_the_intervals() -> None:
    """A hundred persons of ten rows each: binomial ends of a thousand rows would be too narrow by sqrt(10)."""
    rng = np.random.default_rng(1)
    persons = rng.multinomial(100, CHANCES).astype(float)  # k rows of weight 1/k each
    of_persons = measures(persons, 1e-6, None)["accuracy"]
    rows = measures(10 * persons, 1e-6, None)["accuracy"]
    assert (of_persons.high - of_persons.low) / (rows.high - rows.low) == pytest.approx(math.sqrt(10), rel=0.05)


def test_counts_are_of_rows_even_if_each_row_has_a_fraction_of_a_records_weight() -> None:
    """Counts are ten times as large if a row adds a tenth; shares do not change."""
    single, many = (Counted(CHANCES * 100, 2.0, None, slots) for slots in (1, 10))
    assert many.released == pytest.approx(10 * single.released)
    expected, scaled = (evaluations.two_classes(BINS, ["a", "b"], counted, True) for counted in (single, many))
    assert np.array(scaled.counts) == pytest.approx(10 * np.array(expected.counts))
    assert scaled.thresholds[3].true_positives == pytest.approx(10 * expected.thresholds[3].true_positives)
    assert scaled.calibration is not None
    assert expected.calibration is not None
    assert scaled.calibration[2].records == pytest.approx(10 * expected.calibration[2].records)
    assert (scaled.accuracy, scaled.auc, scaled.log_loss) == (expected.accuracy, expected.auc, expected.log_loss)


def test_measures_of_residuals_and_classes_are_in_the_targets_units() -> None:
    """Errors are within the width of the bins; of several classes, accuracy and recall are checked."""
    rng = np.random.default_rng(4)
    r = np.clip(rng.normal(0, 7, 5000), -20, 20)
    target = NumberColumn(name="y", type="number", lower=0, upper=80)
    design = Design((), (), target, 0, 1, None, 1.0)
    counts = np.histogram(r / 40, 20, (-0.5, 0.5))[0].astype(float)
    residuals = evaluations.residuals(Evaluation(bins=20), design, Counted(counts, 1e-6, 5000))
    assert (residuals.clip, residuals.edges[0], residuals.edges[-1]) == (20, -20, 20)
    for measure, exact in (
        (residuals.mean_squared_error, (r**2).mean()),
        (residuals.mean_absolute_error, np.abs(r).mean()),
    ):
        assert measure.noise_low <= exact <= measure.noise_high
        assert measure.value == pytest.approx(exact, rel=0.02)
    classes = evaluations.many_classes(["a", "b"], Counted(np.array([30.0, 10, 20, 40]), 1e-6, 100))
    assert [classes.accuracy.value, *(measure.value for measure in classes.recall)] == pytest.approx([0.7, 0.75, 2 / 3])
    assert classes.counts == [[30, 10], [20, 40]]


def test_a_measure_beyond_its_range_counts_as_its_end() -> None:
    assert accepted(12.0, 10.0, np.array([1.0, 0.0, 0.0]), (0.0, 1.0)) == pytest.approx((1 - 0.196, 1.0), rel=1e-4)
    assert accepted(1.0, 0.0, np.array([1.0, 0.0, 0.0]), (0.0, 1.0)) == (0.0, 1.0)
    assert accepted(1.0, 1.0, np.array([0.0, 0.0, 1.0]), (0.0, 2.0)) == pytest.approx((1 / 2.959964, 2.0))
    assert accepted(1.0, 1.0, np.array([9.0, 0.0, 1.0]), (0.0, 2.0)) == (0.0, 2.0)
