"""A released model: enough to predict by hand."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Protected, Sha256, Wire
from purse.wire.columns import CategoryColumn, Column
from purse.wire.neighbors import Neighbors

MIN_SHARE_STDS = 2.0
"""Released share of a category, in standard deviations of its noise, below which its coefficient is set to 0."""


class PrivacyStatement(Wire):
    """The guarantee under which the model was released. The receipt proves it."""

    epsilon: Annotated[float, Field(description="Its epsilon.")]
    delta: Annotated[float, Field(description="Its delta.")]
    neighbors: Neighbors
    rows: Annotated[int | None, Field(description="n, public, of rows.", exclude_if=lambda n: n is None)] = None
    persons: Annotated[int | None, Field(description="n, public, of persons.", exclude_if=lambda n: n is None)] = None
    unit: Annotated[
        Protected | None,
        Field(
            description="The protected unit, a row if absent.",
            exclude_if=lambda unit: unit is None,  # models of earlier versions keep their digests
        ),
    ] = None
    event: Annotated[dict[str, object], Field(description="The mechanism tree (DpEvent).")]
    accountant: Annotated[str, Field(description="The accountant that certifies epsilon at delta.")]
    accountant_version: Annotated[str, Field(description="Its version.")]
    numerics: Annotated[Literal["exactly rounded"], Field(description="How noise was drawn.")] = "exactly rounded"


class ReleasedMoments(Wire):
    """Released moments of encoded values, with noise of known standard deviation."""

    center: Annotated[list[float], Field(description="m, the noisy mean of each encoded value.")]
    variances: Annotated[
        list[float], Field(description="The noisy mean v of (value - m)^2, or m (1 - m) for a category's values.")
    ]
    noise: Annotated[
        list[float],
        Field(
            description="Noise std of v for a number, and of m for a category. v is raised to about this value. In a "
            "model, to the value of private moments at the job's own price, if that is larger."
        ),
    ]


class ProfileUse(ReleasedMoments):
    """The profile that standardized the rows, with its moments in the order of the model's encoded values."""

    job: Annotated[Identifier, Field(description="The job that released it.")]
    sha256: Annotated[Sha256, Field(description="Of the profile as published.")]


class EncodedMeans(Wire):
    """Noisy means of the encoded values, an answer of the run itself. For a category, its share of the rows."""

    values: Annotated[list[float], Field(description="Means of the encoded values, in order.")]
    noise_std: Annotated[float, Field(ge=0.0, description="Standard deviation of the noise in each of them.")]


class CoefficientIntervals(Wire):
    """Half widths: coefficient +- half width covers the result without noise, each with probability `level`."""

    level: Annotated[float, Field(description="Probability for each coefficient by itself, over the noise alone.")]
    half_widths: Annotated[list[float] | list[list[float]], Field(description="In the layout of `coefficients`.")]
    intercept: Annotated[
        float | list[float], Field(description="Half width for the constant term, in the layout of `intercept`.")
    ]
    statement: Annotated[str, Field(description="Meaning and limits of the intervals, in words.")] = (
        "They hold the minimizer of the run's own regularized problem on the rows as it prepared them. They cover "
        "only the noise that privacy needs. They do not cover the sampling error, the bias of the regularizer or of "
        "limits to rows and slopes, or two coefficients at once."
    )


class Chosen(Wire):
    """The chosen run of a tuning and its score, which is optimistic because it is the best of several."""

    candidate: Annotated[int, Field(description="Index of the candidate in the request, from 0.")]
    runs: Annotated[int, Field(description="Number of runs. How many of them counted is secret.")]
    score: Annotated[
        float,
        Field(
            description="Noisy share of training rows whose class is predicted correctly. For a number, the mean error "
            "of its code, at most 1 for each row."
        ),
    ]
    noise_std: Annotated[float, Field(description="Standard deviation of the score's noise, before the choice.")]


class Model(Wire):
    """margin = intercept + sum over features of coefficient * encoded value. The link turns it into a prediction.

    Encoding, in the order of `features`: a number x becomes (2 x - lower - upper) / (upper - lower) after clamping to
    [lower, upper], or where it has an origin (x - origin) / scale, clamped to [-1, 1] too: one coefficient. A category
    becomes one 0/1 value per declared category and one more for "other". A missing value becomes the column's default
    first. Links: `logistic` gives P(positive) = 1 / (1 + e^-margin). `sign` gives the class, positive if margin > 0,
    and no probability. `identity` gives the target as (lower + upper) / 2 + margin (upper - lower) / 2, or as
    origin + margin scale.

    Link `softmax` has one margin per class, so `coefficients` holds a list for each class and `intercept` a number for
    each, in the order of `classes`: P(class k) = e^(margin k) / sum over all classes j of e^(margin j).
    """

    kind: Annotated[Literal["linear"], Field(description="The family of models.")]
    loss: Annotated[str, Field(description="Name of the loss it was trained with.")]
    coefficients: Annotated[
        list[float] | list[list[float]],
        Field(description="Coefficients of the encoded values, in order. Link softmax has a list for each class."),
    ]
    intercept: Annotated[
        float | list[float], Field(description="The constant term. Link softmax has one for each class.")
    ]
    features: Annotated[list[Column], Field(description="The encoding of each input column.")]
    link: Annotated[Literal["logistic", "softmax", "sign", "identity"], Field(description="From margin to prediction.")]
    classes: Annotated[
        list[str] | None,
        Field(
            description="For a category target [negative, positive], where negative is "
            "every other class. For softmax all."
        ),
    ]
    target: Annotated[Column, Field(description="The target's declaration.")]
    row_norm: Annotated[float, Field(description="Bound to which rows, as declared, were clipped in training.")]
    preparation: Annotated[
        str | None,
        Field(description="How training prepared the rows, and what the regularizer and the domain act on."),
    ] = None
    profile: Annotated[
        ProfileUse | None,
        Field(
            description="The released profile that standardized the rows, if there is one.",
            exclude_if=lambda used: used is None,  # models of earlier versions keep their digests
        ),
    ] = None
    means: Annotated[
        EncodedMeans | None,
        Field(
            description="The private means that training standardized rows by. A category whose share is below two "
            "standard deviations of its noise has coefficient 0: no released number tells it from a category without "
            "rows. Null if the run released no means, as with preparation declared.",
            exclude_if=lambda means: means is None,  # models of earlier versions keep their digests
        ),
    ] = None
    slope_limit: Annotated[
        float,
        Field(description="Fraction of the loss's slope bound to which slopes were clipped. 1 means no clipping."),
    ] = 1.0
    intervals: Annotated[
        CoefficientIntervals | None,
        Field(
            description="Intervals of the coefficients without noise. Only for method output_perturbation on a free "
            "domain, with preparation declared or profile.",
            exclude_if=lambda intervals: intervals is None,  # models of earlier versions keep their digests
        ),
    ] = None
    tuning: Annotated[
        Chosen | None,
        Field(description="The chosen run, if the job was a tuning.", exclude_if=lambda chosen: chosen is None),
    ] = None
    job: Annotated[Name, Field(description="The job that made it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The guarantee.")]

    @property
    def unsupported(self) -> list[bool]:
        """Whether each encoded value is a category that the released shares cannot tell from one without rows.

        All false if the model holds no released shares. A function of released numbers and of the declaration.
        """
        if self.means is not None:
            return unsupported(self.features, self.means.values, [self.means.noise_std] * len(self.means.values))
        if self.profile is not None:
            return unsupported(self.features, self.profile.center, self.profile.noise)
        return [False] * sum(map(width, self.features))


def width(column: Column) -> int:
    """Return the number of encoded values of a column, and so of its coefficients."""
    return len(column.categories) + 1 if isinstance(column, CategoryColumn) else 1


def unsupported(features: Sequence[Column], means: Sequence[float], noise_stds: Sequence[float]) -> list[bool]:
    """Return, for each encoded value, whether it is a category whose released share is below MIN_SHARE_STDS of noise.

    Parameters
    ----------
    features : the declared columns, in order
    means, noise_stds : released mean of each encoded value, and the standard deviation of its noise
    """
    is_category = [isinstance(column, CategoryColumn) for column in features for _ in range(width(column))]
    facts = zip(is_category, means, noise_stds, strict=True)
    return [category and mean < MIN_SHARE_STDS * std for category, mean, std in facts]
