"""A released profile: noisy facts about all columns, for everyone with access to the dataset."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from purse.tables import INTERVAL_STDS, Cell, Table, Tabular, estimate_of, spans
from purse.text import loss
from purse.wire.base import Identifier, Name, Wire
from purse.wire.columns import CategoryColumn, Column
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

    @property
    def table(self) -> Table:
        """Its counts."""
        counts = list(map(round, self.counts))
        if isinstance(self.column, CategoryColumn):
            rows = list(zip(self.column.levels, counts, strict=True))
            within = INTERVAL_STDS * self.counts_noise_std
            return Table(("category", "rows"), rows, self.column.name, look="bars", within=within)
        bins = list(zip(spans(self.edges or (), self.column.date), counts, strict=True))
        return Table((self.column.name, "rows"), bins, self.column.name, look="histogram")

    @property
    def summary(self) -> tuple[Cell, ...]:
        """The name, mean, standard deviation, median and two outer quantiles of a number."""
        date = None if isinstance(self.column, CategoryColumn) else self.column.date
        quantiles = {quantile.share: quantile.at for quantile in self.quantiles or ()}
        measures = (self.mean, quantiles.get(0.5), quantiles.get(0.05), quantiles.get(0.95))
        mean, *estimates = (estimate_of(measure, date) for measure in measures)
        return (self.column.name, mean, estimate_of(self.std), *estimates)


class DatasetProfile(Tabular, Wire):
    """A profile of a dataset: released once for one price and one receipt, and free to use afterwards."""

    kind: Literal["profile"]
    """Kind of the release."""
    dataset: Identifier
    columns: list[ColumnProfile]
    """Every declared column, in the order of the declaration."""
    job: Annotated[Name, Field(description="The job that released it. Its receipt is at /v1/jobs/{id}/receipt.")]
    privacy: PrivacyStatement
    """The guarantee."""

    def __repr__(self) -> str:
        return f"<profile of {self.dataset}: {loss(self.privacy.epsilon, self.privacy.delta)}; see .columns>"

    def lay_out(self) -> Iterator[Table]:
        """Yield a summary of all numbers, and the counts of each column."""
        numbers = [each.summary for each in self.columns if each.edges is not None]
        if numbers:
            yield Table(("number", "mean", "std", "median", "5 %", "95 %"), numbers, "Numbers")
        for each in self.columns:
            yield each.table
