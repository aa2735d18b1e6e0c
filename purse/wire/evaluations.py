"""A released evaluation: how a model does on records that were kept out of its training, and how surely."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Sha256, Wire
from purse.wire.models import PrivacyStatement

_EDGES = Field(description="Ends of the bins, one more than bins.")
_COUNTS = Field(description="Noisy number of rows in each cell, may be negative.")


class Measured(Wire):
    """A number with the two things that make it unsure: the noise, and that the records are a sample."""

    value: Annotated[float, Field(description="From the noisy counts, within its range.")]
    low: Annotated[
        float,
        Field(
            description="Lower end of about 95 of 100 for records like these: noise and sampling. Where a person is "
            "the unit, persons are what was sampled. It holds what bins hide, too."
        ),
    ]
    high: Annotated[float, Field(description="Its upper end.")]
    noise_low: Annotated[
        float, Field(description="Lower end of about 95 of 100 for the kept-out records themselves: noise alone.")
    ]
    noise_high: Annotated[float, Field(description="Its upper end.")]


class Threshold(Wire):
    """What comes of calling those records positive whose score is the threshold or more."""

    threshold: Annotated[float, Field(description="An end of a bin, from 0 to 1.")]
    true_positives: Annotated[float, Field(description="Noisy; as many as the cells that it adds up make it.")]
    false_positives: Annotated[float, Field(description="Noisy number of them.")]
    true_negatives: Annotated[float, Field(description="Noisy number of them.")]
    false_negatives: Annotated[float, Field(description="Noisy number of them.")]
    accuracy: Annotated[Measured, Field(description="Share of records that are called what they are.")]
    true_positive_rate: Annotated[Measured, Field(description="Of the positives; the ROC's height.")]
    false_positive_rate: Annotated[Measured, Field(description="Of the negatives; the ROC's place.")]


class CalibrationBin(Wire):
    """Records whose scores lie close together."""

    low: Annotated[float, Field(description="The lowest score.")]
    high: Annotated[float, Field(description="The highest.")]
    records: Annotated[float, Field(description="Noisy number of them.")]
    positive: Annotated[Measured, Field(description="Share of positives; calibrated, it lies between low and high.")]


class TwoClasses(Wire):
    """Of a model that tells two classes apart. Its score is 1 / (1 + e^-margin): for link logistic P(positive)."""

    name: Annotated[Literal["two_classes"], Field(description="By its name.")]
    classes: Annotated[list[Name], Field(min_length=2, max_length=2, description="(negative, positive).")]
    edges: Annotated[list[float], _EDGES]
    counts: Annotated[list[list[float]], _COUNTS]
    accuracy: Annotated[Measured, Field(description="At threshold 1/2.")]
    auc: Annotated[
        Measured,
        Field(description="Area under the ROC; scores in one bin tie, and the ends hold any order of them."),
    ]
    log_loss: Annotated[
        Measured | None, Field(description="Mean -ln P(class), P clamped to [0.01, 0.99]; null if scores are no P.")
    ]
    thresholds: Annotated[list[Threshold], Field(description="The ROC, at each end of a bin within (0, 1).")]
    calibration: Annotated[list[CalibrationBin] | None, Field(description="By score; null if scores are no P.")]


class ManyClasses(Wire):
    """Of a model that tells more classes apart, and says the one of the largest margin."""

    name: Annotated[Literal["many_classes"], Field(description="By its name.")]
    classes: Annotated[list[Name], Field(description="In the order of the counts.")]
    counts: Annotated[list[list[float]], _COUNTS]
    accuracy: Annotated[Measured, Field(description="Share of records whose class is said.")]
    recall: Annotated[list[Measured], Field(description="Of each class, the share that is said.")]


class Residuals(Wire):
    """Of a model of a number: prediction less target, cut to [-clip, clip]."""

    name: Annotated[Literal["residuals"], Field(description="By its name.")]
    edges: Annotated[list[float], _EDGES]
    counts: Annotated[list[float], _COUNTS]
    clip: Annotated[float, Field(description="In the target's unit. Many in the first or last bin: ask with more.")]
    mean_squared_error: Annotated[Measured, Field(description="Of residuals as cut, in the square of the unit.")]
    mean_absolute_error: Annotated[Measured, Field(description="Of residuals as cut, in the target's unit.")]


class ReleasedEvaluation(Wire):
    """What an evaluation released, of records that share none with those that the model was trained on."""

    kind: Annotated[Literal["evaluation"], Field(description="What it is.")]
    dataset: Annotated[Identifier, Field(description="The kept-out part.")]
    model: Annotated[Identifier, Field(description="The job that released the model: /v1/jobs/{id}/model.")]
    model_sha256: Annotated[Sha256, Field(description="Of the model as published; its own receipt says the same.")]
    result: Annotated[
        Annotated[TwoClasses | ManyClasses | Residuals, Field(discriminator="name")], Field(description="The numbers.")
    ]
    noise_std: Annotated[float, Field(description="Of each count.")]
    job: Annotated[Name, Field(description="The job that released it; its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The promise, to the records of the kept-out part.")]

    def __repr__(self) -> str:
        said = self.privacy
        return f"<evaluation of {self.model}: epsilon {said.epsilon:.6g} at delta {said.delta:g}; see .result>"
