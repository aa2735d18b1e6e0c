"""A released model: enough to predict by hand."""

from typing import Annotated, Literal

from pydantic import Field

from app.wire.base import Name, Wire
from app.wire.datasets import Column


class PrivacyStatement(Wire):
    """The promise under which the model was released; the receipt proves it."""

    epsilon: Annotated[float, Field(description="epsilon")]
    delta: Annotated[float, Field(description="delta")]
    neighbors: Annotated[Literal["replace_one"], Field(description="The neighboring relation.")]
    rows: Annotated[int, Field(description="n, public.")]
    event: Annotated[dict[str, object], Field(description="The mechanism tree (DpEvent).")]
    accountant: Annotated[str, Field(description="Who certifies epsilon at delta.")]
    accountant_version: Annotated[str, Field(description="Its version.")]
    numerics: Annotated[Literal["exactly rounded"], Field(description="How noise was made.")] = "exactly rounded"


class Model(Wire):
    """margin = intercept + sum over features of coefficient * encoded value; the link turns it into a prediction.

    Encoding, in the order of `features`: a number x becomes (2 x - lower - upper) / (upper - lower) after clamping to
    [lower, upper], or where it has an origin (x - origin) / scale, clamped to [-1, 1] too: one coefficient; a category
    becomes one 0/1 value per declared category and one more for "other". A missing value becomes the column's default
    first. Links: `logistic` gives P(positive) = 1 / (1 + e^-margin); `sign` gives the class, positive if margin > 0,
    and no probability; `identity` gives the target as (lower + upper) / 2 + margin (upper - lower) / 2, or as
    origin + margin scale.

    Link `softmax` has one margin per class, so `coefficients` holds a list for each class and `intercept` a number for
    each, in the order of `classes`: P(class k) = e^(margin k) / sum over all classes j of e^(margin j).
    """

    kind: Annotated[Literal["linear"], Field(description="The family of models.")]
    loss: Annotated[str, Field(description="Name of the loss it was trained with.")]
    coefficients: Annotated[
        list[float] | list[list[float]],
        Field(description="One per encoded value, in order; for link softmax a list of them for each class."),
    ]
    intercept: Annotated[
        float | list[float], Field(description="The constant term; for link softmax one for each class.")
    ]
    features: Annotated[list[Column], Field(description="The encoding of each input column.")]
    link: Annotated[Literal["logistic", "softmax", "sign", "identity"], Field(description="From margin to prediction.")]
    classes: Annotated[
        list[str] | None,
        Field(
            description="For a category target: [negative, positive], negative is all the rest. For link softmax all."
        ),
    ]
    target: Annotated[Column, Field(description="The target's declaration.")]
    row_norm: Annotated[float, Field(description="Bound to which rows, as declared, were clipped in training.")]
    preparation: Annotated[
        str | None,
        Field(description="How training prepared its rows, and what regularizer and domain acted on, in words."),
    ] = None
    slope_limit: Annotated[
        float, Field(description="The share of the loss's slope bound that training shortened slopes to; 1 for none.")
    ] = 1.0
    job: Annotated[Name, Field(description="The job that made it; its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The promise.")]
