"""The published result of an evaluation, computed from its counts, and the widths of its intervals beforehand.

The result is post-processing, see `app.results.measures`. The widths are functions of public facts.
"""

import math

import numpy as np

from app.results.intervals import WIDE, Widths, stds_of
from app.results.measures import Counted, Floats, Weights
from app.sources.design import Design
from app.sources.spec import JobSpec
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.evaluations import CalibrationBin, ManyClasses, Measured, Residuals, Threshold, TwoClasses
from purse.wire.jobs import Basis, IntervalWidth
from solvers.losses import Logistic
from solvers.statistics import Evaluation

CLAMP = 0.01  # probabilities are clipped to [CLAMP, 1 - CLAMP] in the log loss
_MOST_CALIBRATION_BINS = 10


def result(spec: JobSpec, answers: Floats) -> tuple[TwoClasses | ManyClasses | Residuals, float]:
    """Return the result of an evaluation from the flat counts of its run, and the std of their noise."""
    counted, design = _counted(spec, answers), spec.design
    assert isinstance(design, Design)
    assert isinstance(spec.method, Evaluation)
    noise_std = counted.slots * counted.std
    if not isinstance(design.target, CategoryColumn):
        return residuals(spec.method, design, counted), noise_std
    classes = list(design.classes or ())
    if design.outputs > 1:
        return many_classes(classes, counted), noise_std
    return two_classes(spec.method.bins, classes, counted, isinstance(spec.problem.loss, Logistic)), noise_std


def widths(spec: JobSpec) -> Widths:
    """Return the widths of the result's intervals if every cell holds equally many records.

    Classes are then equally frequent, and scores or residuals are spread evenly. Half of the records of two classes are
    called correctly, which gives the widest interval of the accuracy. If records are persons, each is assumed to have
    as many rows as it may.
    """
    method, design, problem = spec.method, spec.design, spec.problem
    assert isinstance(method, Evaluation)
    assert isinstance(design, Design)
    cells = method.size(problem)
    counted = _counted(spec, np.full(cells, problem.n / cells))
    interval_widths = [IntervalWidth.of("count", None, 2 * WIDE * counted.slots * counted.std, "exact")]
    is_bounded = design.outputs == 1 and not problem.unit.is_person
    for name, each in _measures(spec, method, design, counted).items():
        basis: Basis = "worst_case" if is_bounded and name == "accuracy" else "typical"
        interval_widths.append(IntervalWidth.of(name, None, each.high - each.low, basis))
    return interval_widths


def _measures(spec: JobSpec, method: Evaluation, design: Design, counted: Counted) -> dict[str, Measured]:
    """Return the measures of a result by name, those of two classes at the threshold 1/2."""
    if not isinstance(design.target, CategoryColumn):
        errors = residuals(method, design, counted)
        return {"mean_squared_error": errors.mean_squared_error, "mean_absolute_error": errors.mean_absolute_error}
    if design.outputs > 1:
        classes = many_classes(list(design.classes or ()), counted)
        return {"accuracy": classes.accuracy, "recall": classes.recall[0]}
    middle = threshold_measures(counted, method.bins, method.bins // 2, 0.5)
    measures = {"accuracy": middle.accuracy, "auc": counted.auc(method.bins)}
    if isinstance(spec.problem.loss, Logistic):
        measures["log_loss"] = _log_loss(counted, np.linspace(0.0, 1.0, method.bins + 1))
    return measures | {name: getattr(middle, name) for name in ("true_positive_rate", "false_positive_rate")}


def _counted(spec: JobSpec, answers: Floats) -> Counted:
    method, problem = spec.method, spec.problem
    assert isinstance(method, Evaluation)
    std = stds_of(method, problem, spec.release_plan.plan)["scores"]
    return Counted(answers, std, None if problem.unit.is_person else problem.n, problem.unit.slots)


def two_classes(bins: int, classes: list[str], counted: Counted, is_probability: bool) -> TwoClasses:
    """Return the result for two classes: of negatives by bin of the score, then of positives."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    thresholds = [threshold_measures(counted, bins, at, float(edges[at])) for at in range(1, bins)]
    return TwoClasses(
        name="two_classes",
        classes=classes,
        edges=edges.tolist(),
        counts=counted.released.reshape(2, bins).tolist(),
        accuracy=thresholds[bins // 2 - 1].accuracy,
        auc=counted.auc(bins),
        log_loss=_log_loss(counted, edges) if is_probability else None,
        thresholds=thresholds,
        calibration=_calibration(counted, edges) if is_probability else None,
    )


def threshold_measures(counted: Counted, bins: int, at: int, threshold: float) -> Threshold:
    """Return the measures if the records in bin `at` and above, whose edge is the threshold, are called positive."""
    above = (np.arange(bins) >= at).astype(float)
    everywhere = np.ones(bins)
    nowhere = np.zeros(bins)
    parts = {
        "true_positives": (nowhere, above),
        "false_positives": (above, nowhere),
        "true_negatives": (1 - above, nowhere),
        "false_negatives": (nowhere, 1 - above),
    }
    counts = {name: counted.rows(np.concatenate(part)) for name, part in parts.items()}
    return Threshold(
        threshold=threshold,
        **counts,
        accuracy=counted.share(np.concatenate((1 - above, above)), np.ones(2 * bins)),
        true_positive_rate=counted.share(np.concatenate((nowhere, above)), np.concatenate((nowhere, everywhere))),
        false_positive_rate=counted.share(np.concatenate((above, nowhere)), np.concatenate((everywhere, nowhere))),
    )


def _log_loss(counted: Counted, edges: Floats) -> Measured:
    return counted.mean(losses(edges), (-math.log(1 - CLAMP), -math.log(CLAMP)))


def losses(edges: Floats) -> Weights:
    """Return the loss -ln(clipped probability of the true class): of negatives by bin, then of positives."""
    low = np.clip(edges[:-1], CLAMP, 1 - CLAMP)
    high = np.clip(edges[1:], CLAMP, 1 - CLAMP)
    smallest = -np.log(np.concatenate((1 - low, high)))
    largest = -np.log(np.concatenate((1 - high, low)))
    return Weights(smallest, (smallest + largest) / 2, largest)


def _calibration(counted: Counted, edges: Floats) -> list[CalibrationBin]:
    bins, calibration = len(edges) - 1, []
    for group in np.array_split(np.arange(bins), min(_MOST_CALIBRATION_BINS, bins)):
        here = np.isin(np.arange(bins), group).astype(float)
        both = np.concatenate((here, here))
        positive = np.concatenate((np.zeros(bins), here))
        share = counted.share(positive, both)
        records = counted.rows(both)
        low = float(edges[group[0]])
        high = float(edges[group[-1] + 1])
        calibration.append(CalibrationBin(low=low, high=high, records=records, positive=share))
    return calibration


def many_classes(classes: list[str], counted: Counted) -> ManyClasses:
    """Return the result for more than two classes. Correct predictions are on the diagonal."""
    k = len(classes)
    right = np.eye(k)
    rows = (np.outer(one, np.ones(k)) for one in np.eye(k))
    return ManyClasses(
        name="many_classes",
        classes=classes,
        counts=counted.released.reshape(k, k).tolist(),
        accuracy=counted.share(right.ravel(), np.ones(k * k)),
        recall=[counted.share((right * row).ravel(), row.ravel()) for row in rows],
    )


def residuals(method: Evaluation, design: Design, counted: Counted) -> Residuals:
    """Return the result for a number, from the counts of residuals by bin."""
    assert isinstance(design.target, NumberColumn)
    _, half = design.target.middle_and_half
    edges = half * np.linspace(-method.clip, method.clip, method.bins + 1)
    smaller, larger = np.sort(np.abs(np.stack((edges[:-1], edges[1:]))), axis=0)
    middle, clip = (smaller + larger) / 2, half * method.clip
    squares = Weights(smaller**2, middle**2 + (larger - smaller) ** 2 / 12, larger**2)
    return Residuals(
        name="residuals",
        edges=edges.tolist(),
        counts=counted.released.tolist(),
        clip=clip,
        mean_squared_error=counted.mean(squares, (0.0, clip**2)),
        mean_absolute_error=counted.mean(Weights(smaller, middle, larger), (0.0, clip)),
    )
