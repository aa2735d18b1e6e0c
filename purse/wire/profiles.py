"""A released profile: what anybody who may use the dataset may know of its columns, and how surely."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import Column
from purse.wire.models import PrivacyStatement, ReleasedMoments


class Interval(Wire):
    """A number with noise, and where the number without it lies: in 95 of 100 releases (noise alone)."""

    value: Annotated[float, Field(description="As released, or computed from what was.")]
    low: Annotated[float, Field(description="The interval's lower end.")]
    high: Annotated[float, Field(description="Its upper end.")]


class QuantileEstimate(Wire):
    """The end of the first bin up to which a share of the records lies."""

    share: Annotated[float, Field(description="Of the rows, from 0 to 1.")]
    at: Annotated[Interval, Field(description="Where, in the column's unit, on the bins' ends.")]


class ColumnProfile(Wire):
    """One column. Noisy counts may be negative (a category's are clamped) and need not add up to n."""

    column: Annotated[Column, Field(description="The declaration that it was released under.")]
    counts: Annotated[
        list[float],
        Field(description="Noisy number of rows of each declared category and last of other; or in each bin."),
    ]
    counts_noise_std: Annotated[float, Field(description="Of each of them.")]
    edges: Annotated[
        list[float] | None, Field(description="Ends of a number's bins, one more than bins, in its unit.")
    ] = None
    mean: Annotated[Interval | None, Field(description="Of a number, in its unit.")] = None
    std: Annotated[
        Interval | None,
        Field(
            description="Of a number, in its unit: root of the mean squared difference from the released mean. Records "
            "whose numbers lie far out together count as nearer: it may be too small. The interval tells noise only."
        ),
    ] = None
    quantiles: Annotated[list[QuantileEstimate] | None, Field(description="Of a number, from its counts.")] = None
    moments: Annotated[ReleasedMoments, Field(description="Of the column's encoded values, which jobs standardise by.")]


class DatasetProfile(Wire):
    """What was released once for a dataset, one price and one receipt; free to use afterwards."""

    kind: Annotated[Literal["profile"], Field(description="What it is.")]
    dataset: Identifier
    columns: Annotated[list[ColumnProfile], Field(description="Every declared column, in the order declared.")]
    job: Annotated[Name, Field(description="The job that released it; its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The promise.")]
