"""A released model: enough to predict by hand."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Omitted, Protected, Sha256, Wire
from purse.wire.columns import CategoryColumn, Column
from purse.wire.inference import Inference, TableAnswers, TableRow
from purse.wire.neighbors import Neighbors
from purse.wire.terms import Term

MIN_SHARE_STDS = 2.0
"""Released share of a category, in standard deviations of its noise, below which its coefficient is set to 0."""


class PrivacyStatement(Wire):
    """The guarantee under which the model was released. The receipt proves it."""

    epsilon: float
    """Its epsilon."""
    delta: float
    """Its delta."""
    neighbors: Neighbors
    rows: Omitted[int] = None
    """Public number of rows. Absent if persons are protected."""
    persons: Omitted[int] = None
    """Public number of persons. Absent if rows are protected."""
    unit: Omitted[Protected] = None
    """The protected unit, a row if absent."""
    event: dict[str, object]
    """The mechanism tree (DpEvent)."""
    accountant: str
    """The accountant that certifies epsilon at delta."""
    accountant_version: str
    """Version of the accountant."""
    numerics: Literal["exactly rounded"] = "exactly rounded"
    """Rounding of the noise."""


class ReleasedMoments(Wire):
    """Released moments of encoded values, with noise of known standard deviation."""

    center: list[float]
    """m, the noisy mean of each encoded value."""
    variances: list[float]
    """The noisy mean v of (value - m)^2, or m (1 - m) for a category's values."""
    noise: list[float]
    """Noise std of v for a number, and of m for a category. Jobs raise v to about this value. In a model, it is the
    noise std of private moments at the job's own price, if that is larger."""


class ProfileUse(ReleasedMoments):
    """The profile that standardized the rows, with its moments in the order of the model's encoded values."""

    job: Annotated[Identifier, Field(description="The job that released it.")]
    sha256: Annotated[Sha256, Field(description="SHA-256 of the published profile.")]


class EncodedMeans(Wire):
    """Noisy means of the encoded values, an answer of the run itself. For a category, its share of the rows."""

    values: list[float]
    """Means of the encoded values, in order."""
    noise_std: Annotated[float, Field(ge=0.0)]
    """Standard deviation of the noise in each of them."""


class CoefficientIntervals(Wire):
    """Half widths: coefficient +- half width covers the result without noise, each with probability `level`."""

    level: float
    """Probability for each coefficient by itself, over the noise alone."""
    half_widths: list[float] | list[list[float]]
    """Half widths, in the layout of `coefficients`."""
    intercept: float | list[float]
    """Half width for the constant term, in the layout of `intercept`."""
    statement: str = (
        "Each interval covers a coefficient of the minimizer of the run's own regularized problem, on the rows as it "
        "prepared them. It counts the privacy noise alone: no sampling error, and no bias of the regularizer or of "
        "limits to rows and slopes. It covers one coefficient, not several at once."
    )
    """Meaning and limits of the intervals, in words."""


class Chosen(Wire):
    """The chosen run of a tuning and its score, which is optimistic because it is the best of several."""

    candidate: int
    """Index of the candidate in the request, from 0."""
    runs: int
    """Number of runs. It is secret how many of them the choice considered."""
    score: float
    """Noisy share of training rows whose class is predicted correctly. For a number, the mean error of its code, at
    most 1 for each row. Coefficients are scored before those of unsupported categories are set to 0."""
    noise_std: float
    """Standard deviation of the score's noise, before the choice."""


Link = Literal["logistic", "softmax", "sign", "identity", "log"]
"""Names of the functions from margin to prediction."""


class Model(Wire):
    """margin = intercept + sum over features of coefficient * encoded value. The link turns it into a prediction.

    Encoding, in the order of `features`: a number x is clamped to [lower, upper] and becomes (2 x - lower - upper) /
    (upper - lower). If it has an origin, it becomes (x - origin) / scale instead, clamped to [-1, 1]. A number has one
    coefficient. A category becomes one 0/1 value per declared category and one more for "other". A missing value
    becomes the column's default first. Links: `logistic` gives P(positive) = 1 / (1 + e^-margin). `sign` gives the
    class, positive if margin > 0, and no probability. `identity` gives the target as (lower + upper) / 2 + margin
    (upper - lower) / 2, or as origin + margin scale. `log` gives the mean count e^margin, and at most the upper bound.

    Link `softmax` has one margin per class, so `coefficients` holds a list for each class and `intercept` a number for
    each, in the order of `classes`: P(class k) = e^(margin k) / sum over all classes j of e^(margin j).
    """

    kind: Literal["linear"]
    """The family of models."""
    loss: str
    """Name of the loss it was trained with."""
    coefficients: list[float] | list[list[float]]
    """Coefficients of the encoded values, in order. Link softmax has a list for each class."""
    intercept: float | list[float]
    """The constant term. Link softmax has one for each class."""
    features: list[Column]
    """The encoding of each input column, or of each column that `terms` make of them."""
    inputs: Omitted[list[Column]] = None
    """The declared columns that the terms use. Null if the features are declared columns themselves."""
    terms: Omitted[list[Term]] = None
    """The terms that make the features, as requested."""
    link: Link
    """Function from margin to prediction."""
    classes: list[str] | None
    """For a category target [negative, positive], where negative is every other class. For softmax all."""
    target: Column
    """The target's declaration."""
    row_norm: float
    """Bound to which rows, as declared, were clipped in training."""
    preparation: str | None = None
    """Preparation of the rows in training, and the coefficients that the regularizer and the domain act on."""
    profile: Omitted[ProfileUse] = None
    """The released profile that standardized the rows, if there is one."""
    means: Omitted[EncodedMeans] = None
    """The private means that training standardized rows by. A category whose share is below two standard deviations of
    its noise has coefficient 0: no released number tells it from a category without rows. Null if the run released no
    means, as with preparation declared."""
    slope_limit: float = 1.0
    """Fraction of the loss's largest slope to which slopes were clipped. 1 means no clipping."""
    intervals: Omitted[CoefficientIntervals] = None
    """Intervals of the coefficients without noise. Only for method output_perturbation on a free domain, with
    preparation declared or profile."""
    tuning: Omitted[Chosen] = None
    """The chosen run, if the job was a tuning."""
    table: Omitted[list[TableRow]] = None
    """The regression table of a job with `inference`, one row for each coefficient, the intercept last."""
    covariance: Omitted[list[list[float]]] = None
    """Covariance of the resolved rows of `table`, in their order, with sampling error and privacy noise."""
    inference: Omitted[Inference] = None
    """Quantities to which the table refers."""
    answers: Omitted[TableAnswers] = None
    """The private answers from which the table is computed."""
    job: Annotated[Name, Field(description="The job that made it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: PrivacyStatement
    """The guarantee."""

    @property
    def row_columns(self) -> list[Column]:
        """The columns that rows need for a prediction."""
        return self.features if self.inputs is None else self.inputs

    @property
    def unsupported(self) -> list[bool]:
        """Whether each encoded value is a category that the released shares cannot tell from one without rows.

        All false if the model holds no released shares. A function of released numbers and of the declaration.
        """
        if self.means is not None:
            return unsupported(self.features, self.means.values, [self.means.noise_std] * len(self.means.values))
        if self.profile is not None:
            return unsupported(self.features, self.profile.center, self.profile.noise)
        return [False] * sum(column.code_count for column in self.features)


def coefficient_terms(column: Column) -> list[str]:
    """Return the term of each coefficient of a column: its name, or "column = category", the last for "(other)"."""
    if isinstance(column, CategoryColumn):
        return [f"{column.name} = {level}" for level in column.levels]
    return [column.name]


def unsupported(features: Sequence[Column], means: Sequence[float], noise_stds: Sequence[float]) -> list[bool]:
    """Return, for each encoded value, whether it is a category whose released share is below MIN_SHARE_STDS of noise.

    Parameters
    ----------
    features : the declared columns, in order
    means, noise_stds : released mean of each encoded value, and the standard deviation of its noise
    """
    is_category = [isinstance(column, CategoryColumn) for column in features for _ in range(column.code_count)]
    facts = zip(is_category, means, noise_stds, strict=True)
    return [category and mean < MIN_SHARE_STDS * std for category, mean, std in facts]
