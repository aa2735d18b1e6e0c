"""A released evaluation: measures of a model on the holdout set, with intervals."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from purse.tables import Span, Table, Tabular, estimate_of, spans
from purse.text import loss, number
from purse.wire.base import Identifier, Name, Sha256, Wire
from purse.wire.models import PrivacyStatement

_EDGES = Field(description="Ends of the bins, one more than bins.")
_COUNTS = Field(description="Noisy number of rows in each cell, may be negative.")


class Measured(Wire):
    """A measure with an interval for noise and sampling, and one for noise alone."""

    value: float
    """Estimate from the noisy counts, within the range of the measure."""
    low: float
    """Lower end of a 95 % interval for records like these: noise, sampling and binning. If persons are protected,
    persons are the sampled units."""
    high: float
    """Its upper end."""
    noise_low: float
    """Lower end of a 95 % interval for the holdout records themselves: noise alone."""
    noise_high: float
    """Its upper end."""


class Threshold(Wire):
    """Counts and rates if records with at least this score are called positive."""

    threshold: float
    """An end of a bin, from 0 to 1."""
    true_positives: float
    """Noisy number of positives that are called positive, a sum of noisy cells."""
    false_positives: float
    """Noisy number of negatives that are called positive."""
    true_negatives: float
    """Noisy number of negatives that are called negative."""
    false_negatives: float
    """Noisy number of positives that are called negative."""
    accuracy: Measured
    """Share of records that are called correctly."""
    true_positive_rate: Measured
    """Share of positives that are called positive."""
    false_positive_rate: Measured
    """Share of negatives that are called positive."""


class CalibrationBin(Wire):
    """Records with similar scores."""

    low: float
    """The lowest score."""
    high: float
    """The highest score."""
    records: float
    """Noisy number of these records."""
    positive: Measured
    """Share of positives. For a calibrated model it lies between low and high."""


class TwoClasses(Wire):
    """Measures of a model of two classes. Its score is 1 / (1 + e^-margin), P(positive) for link logistic."""

    name: Literal["two_classes"]
    """Kind of the measures."""
    classes: Annotated[list[Name], Field(min_length=2, max_length=2)]
    """The negative class and the positive one."""
    edges: Annotated[list[float], _EDGES]
    counts: Annotated[list[list[float]], _COUNTS]
    accuracy: Measured
    """Share of records that are called correctly at the threshold 1/2."""
    auc: Measured
    """Area under the ROC curve. Scores in one bin tie. The interval covers every order of them."""
    log_loss: Measured | None
    """Mean -ln P(class), with P clamped to [0.01, 0.99]. Null if scores are not probabilities."""
    thresholds: list[Threshold]
    """The ROC curve, at each end of a bin inside (0, 1)."""
    calibration: list[CalibrationBin] | None
    """Calibration by score. Null if scores are not probabilities."""

    def lay_out(self) -> Iterator[Table]:
        """Yield the measures, the ROC curve and the calibration."""
        yield _measures({"accuracy": self.accuracy, "AUC": self.auc, "log loss": self.log_loss})
        positive = self.classes[1]
        points = [
            (
                each.threshold,
                estimate_of(each.false_positive_rate),
                estimate_of(each.true_positive_rate),
                estimate_of(each.accuracy),
            )
            for each in self.thresholds
        ]
        headings = ("threshold", "false positive rate", "true positive rate", "accuracy")
        note = f"A row is called {positive} if its score is at least the threshold."
        yield Table(headings, points, "ROC curve", note, "roc")
        if self.calibration:
            bins = [
                (Span(each.low, each.high), round(each.records), estimate_of(each.positive))
                for each in self.calibration
            ]
            note = f"If the model is calibrated, the share of {positive} lies inside the range of the score."
            yield Table(("score", "rows", f"share of {positive}"), bins, "Calibration", note, "calibration")


class ManyClasses(Wire):
    """Measures of a model of several classes, which predicts the class with the largest margin."""

    name: Literal["many_classes"]
    """Kind of the measures."""
    classes: list[Name]
    """The classes, in the order of the counts."""
    counts: Annotated[list[list[float]], _COUNTS]
    accuracy: Measured
    """Share of records whose class is predicted."""
    recall: list[Measured]
    """For each class, the share that is predicted."""

    def lay_out(self) -> Iterator[Table]:
        """Yield the measures, and the counts of true and predicted classes."""
        recalls = zip((f"recall of {name}" for name in self.classes), self.recall, strict=True)
        yield _measures({"accuracy": self.accuracy, **dict(recalls)})
        counts = [[round(count) for count in row] for row in self.counts]
        yield Table.grid("Rows by true class, and by predicted class", self.classes, self.classes, counts)


class Residuals(Wire):
    """Measures of a model of a number, from its residuals: prediction minus target, clipped to [-clip, clip]."""

    name: Literal["residuals"]
    """Kind of the measures."""
    edges: Annotated[list[float], _EDGES]
    counts: Annotated[list[float], _COUNTS]
    clip: float
    """Largest residual, in the target's unit. If many residuals are in the first or last bin, request a larger clip."""
    mean_squared_error: Measured
    """Mean square of the clipped residuals, in the square of the target's unit."""
    mean_absolute_error: Measured
    """Mean absolute value of the clipped residuals, in the target's unit."""

    def lay_out(self) -> Iterator[Table]:
        """Yield the measures, and the counts of residuals."""
        squared, absolute = self.mean_squared_error, self.mean_absolute_error
        yield _measures({"mean squared error": squared, "mean absolute error": absolute})
        rows = list(zip(spans(self.edges), map(round, self.counts), strict=True))
        note = (
            f"A residual is the prediction minus the target, cut to {number(self.clip)} in either direction. The first "
            "and the last bin contain the cut residuals, which make both errors too small."
        )
        yield Table(("residual", "rows"), rows, "Residuals", note, "histogram")


def _measures(measures: Mapping[str, Measured | None]) -> Table:
    rows = [
        (name, estimate_of(each), Span(each.noise_low, each.noise_high))
        for name, each in measures.items()
        if each is not None
    ]
    note = "The interval covers noise and sampling in 95 of 100 evaluations. The last column covers the noise alone."
    return Table(("measure", "value", "noise alone"), rows, "On the holdout set", note)


class ReleasedEvaluation(Tabular, Wire):
    """A released evaluation on holdout records, none of which the model was trained on."""

    kind: Literal["evaluation"]
    """Kind of the release."""
    dataset: Annotated[Identifier, Field(description="The holdout set.")]
    model: Annotated[Identifier, Field(description="The job that released the model: /v1/jobs/{id}/model.")]
    model_sha256: Annotated[Sha256, Field(description="SHA-256 of the published model, as its own receipt states it.")]
    result: Annotated[TwoClasses | ManyClasses | Residuals, Field(discriminator="name")]
    """The numbers."""
    noise_std: float
    """Standard deviation of the noise of each count."""
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: PrivacyStatement
    """The guarantee for the records of the holdout set."""

    def __repr__(self) -> str:
        return f"<evaluation of {self.model}: {loss(self.privacy.epsilon, self.privacy.delta)}; see .result>"

    def lay_out(self) -> Iterator[Table]:
        """Return the tables of the measures, such as the ROC curve."""
        return self.result.lay_out()
