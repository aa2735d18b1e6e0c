"""A released profile: noisy facts about all columns, for everyone with access to the dataset."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import Column
from purse.wire.models import PrivacyStatement, ReleasedMoments


class Interval(Wire):
    """A noisy number and a 95 % interval of the number without noise."""

    value: float
    """The number, as released or computed from released numbers."""
    low: float
    """The interval's lower end."""
    high: float
    """Its upper end."""


class QuantileEstimate(Wire):
    """A quantile: the end of the first bin up to which at least this share of the rows lies."""

    share: float
    """Share of the rows, from 0 to 1."""
    at: Interval
    """The quantile in the column's unit. Its ends are ends of bins."""


class ColumnProfile(Wire):
    """Facts of one column. Counts need not add up to n. Those of number columns may be negative."""

    column: Column
    """The declaration at the time of the release."""
    counts: list[float]
    """Noisy number of rows in each bin, or in each declared category and last in other."""
    counts_noise_std: float
    """Standard deviation of the noise of each count."""
    edges: list[float] | None = None
    """Ends of a number's bins, one more than bins, in its unit."""
    mean: Interval | None = None
    """Mean of a number column in its unit."""
    std: Interval | None = None
    """Standard deviation of a number column around the released mean, in its unit. It may be too small, because records
    with several extreme numbers are clipped. The interval covers noise only."""
    quantiles: list[QuantileEstimate] | None = None
    """Quantiles of a number column, from its counts."""
    moments: ReleasedMoments
    """Moments of the encoded values, by which jobs standardize rows."""


class DatasetProfile(Wire):
    """A profile of a dataset: released once for one price and one receipt, and free to use afterwards."""

    kind: Literal["profile"]
    """Kind of the release."""
    dataset: Identifier
    columns: list[ColumnProfile]
    """Every declared column, in the order of the declaration."""
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: PrivacyStatement
    """The guarantee."""
