"""A released profile: noisy facts about all columns, for everyone with access to the dataset."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import Column
from purse.wire.models import PrivacyStatement, ReleasedMoments


class Interval(Wire):
    """A noisy number and a 95 % interval of the number without noise."""

    value: Annotated[float, Field(description="The number, as released or computed from released numbers.")]
    low: Annotated[float, Field(description="The interval's lower end.")]
    high: Annotated[float, Field(description="Its upper end.")]


class QuantileEstimate(Wire):
    """The end of the first bin below which a share of the records lies."""

    share: Annotated[float, Field(description="Share of the rows, from 0 to 1.")]
    at: Annotated[Interval, Field(description="The quantile in the column's unit. Its ends are ends of bins.")]


class ColumnProfile(Wire):
    """Facts of one column. Counts need not add up to n. Those of number columns may be negative."""

    column: Annotated[Column, Field(description="The declaration at the time of the release.")]
    counts: Annotated[
        list[float],
        Field(description="Noisy number of rows in each bin, or in each declared category and last in other."),
    ]
    counts_noise_std: Annotated[float, Field(description="Of each of them.")]
    edges: Annotated[
        list[float] | None, Field(description="Ends of a number's bins, one more than bins, in its unit.")
    ] = None
    mean: Annotated[Interval | None, Field(description="Mean of a number column in its unit.")] = None
    std: Annotated[
        Interval | None,
        Field(
            description="Standard deviation of a number column around the released mean, in its unit. It may be too "
            "small, because records with several extreme numbers are clipped. The interval covers noise only."
        ),
    ] = None
    quantiles: Annotated[
        list[QuantileEstimate] | None, Field(description="Quantiles of a number column, from its counts.")
    ] = None
    moments: Annotated[
        ReleasedMoments, Field(description="Moments of the encoded values, by which jobs standardize rows.")
    ]


class DatasetProfile(Wire):
    """A profile of a dataset: released once for one price and one receipt, and free to use afterwards."""

    kind: Annotated[Literal["profile"], Field(description="What it is.")]
    dataset: Identifier
    columns: Annotated[list[ColumnProfile], Field(description="Every declared column, in the order declared.")]
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: Annotated[PrivacyStatement, Field(description="The guarantee.")]
