"""A released evaluation: measures of a model on the holdout set, with intervals."""

from typing import Annotated, Literal

from pydantic import Field

from purse.text import loss
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


class ReleasedEvaluation(Wire):
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
