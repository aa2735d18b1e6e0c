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

    value: Annotated[float, Field(description="Estimate from the noisy counts, within the range of the measure.")]
    low: Annotated[
        float,
        Field(
            description="Lower end of a 95 % interval for records like these: noise, sampling and binning. If persons "
            "are protected, persons are the sampled units."
        ),
    ]
    high: Annotated[float, Field(description="Its upper end.")]
    noise_low: Annotated[
        float, Field(description="Lower end of a 95 % interval for the holdout records themselves: noise alone.")
    ]
    noise_high: Annotated[float, Field(description="Its upper end.")]


class Threshold(Wire):
    """Counts and rates if records with at least this score are called positive."""

    threshold: Annotated[float, Field(description="An end of a bin, from 0 to 1.")]
    true_positives: Annotated[float, Field(description="Noisy number of them, a sum of noisy cells.")]
    false_positives: Annotated[float, Field(description="Noisy number of them.")]
    true_negatives: Annotated[float, Field(description="Noisy number of them.")]
    false_negatives: Annotated[float, Field(description="Noisy number of them.")]
    accuracy: Annotated[Measured, Field(description="Share of records that are called correctly.")]
    true_positive_rate: Annotated[Measured, Field(description="Share of positives that are called positive.")]
    false_positive_rate: Annotated[Measured, Field(description="Share of negatives that are called positive.")]


class CalibrationBin(Wire):
    """Records with similar scores."""

    low: Annotated[float, Field(description="The lowest score.")]
    high: Annotated[float, Field(description="The highest.")]
    records: Annotated[float, Field(description="Noisy number of them.")]
    positive: Annotated[
        Measured, Field(description="Share of positives. For a calibrated model it lies between low and high.")
    ]


class TwoClasses(Wire):
    """Measures of a model of two classes. Its score is 1 / (1 + e^-margin), P(positive) for link logistic."""

    name: Annotated[Literal["two_classes"], Field(description="By its name.")]
    classes: Annotated[list[Name], Field(min_length=2, max_length=2, description="(negative, positive).")]
    edges: Annotated[list[float], _EDGES]
    counts: Annotated[list[list[float]], _COUNTS]
    accuracy: Annotated[Measured, Field(description="At threshold 1/2.")]
    auc: Annotated[
        Measured,
        Field(description="Area under the ROC curve. Scores in one bin tie. The interval covers every order of them."),
    ]
    log_loss: Annotated[
        Measured | None,
        Field(description="Mean -ln P(class), with P clamped to [0.01, 0.99]. Null if scores are not probabilities."),
    ]
    thresholds: Annotated[list[Threshold], Field(description="The ROC curve, at each end of a bin inside (0, 1).")]
    calibration: Annotated[
        list[CalibrationBin] | None, Field(description="Calibration by score. Null if scores are not probabilities.")
    ]


class ManyClasses(Wire):
    """Measures of a model of several classes, which predicts the class with the largest margin."""

    name: Annotated[Literal["many_classes"], Field(description="By its name.")]
    classes: Annotated[list[Name], Field(description="In the order of the counts.")]
    counts: Annotated[list[list[float]], _COUNTS]
    accuracy: Annotated[Measured, Field(description="Share of records whose class is predicted.")]
    recall: Annotated[list[Measured], Field(description="For each class, the share that is predicted.")]


class Residuals(Wire):
    """Measures of a model of a number, from its residuals: prediction minus target, clipped to [-clip, clip]."""

    name: Annotated[Literal["residuals"], Field(description="By its name.")]
    edges: Annotated[list[float], _EDGES]
    counts: Annotated[list[float], _COUNTS]
    clip: Annotated[
        float,
        Field(
            description="In the target's unit. If many residuals are in the first or last bin, request a larger clip."
        ),
    ]
    mean_squared_error: Annotated[
        Measured, Field(description="Mean square of the clipped residuals, in the square of the target's unit.")
    ]
    mean_absolute_error: Annotated[
        Measured, Field(description="Mean absolute value of the clipped residuals, in the target's unit.")
    ]


class ReleasedEvaluation(Wire):
    """A released evaluation on holdout records, none of which the model was trained on."""

    kind: Annotated[Literal["evaluation"], Field(description="What it is.")]
    dataset: Annotated[Identifier, Field(description="The holdout set.")]
    model: Annotated[Identifier, Field(description="The job that released the model: /v1/jobs/{id}/model.")]
    model_sha256: Annotated[Sha256, Field(description="SHA-256 of the published model, as its own receipt states it.")]
    result: Annotated[
        Annotated[TwoClasses | ManyClasses | Residuals, Field(discriminator="name")], Field(description="The numbers.")
    ]
    noise_std: Annotated[float, Field(description="Of each count.")]
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The guarantee for the records of the holdout set.")]

    def __repr__(self) -> str:
        return f"<evaluation of {self.model}: {loss(self.privacy.epsilon, self.privacy.delta)}; see .result>"
