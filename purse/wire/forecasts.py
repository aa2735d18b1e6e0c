"""Forecasts of accuracy against epsilon, from runs on a public twin. No data is read."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Literal

from purse.tables import Estimate, Table, Tabular
from purse.wire.base import Identifier, Name, Wire
from purse.wire.twins import TwinNumber, TwinSource

MOST_TRIES, MOST_EPSILONS = 50, 12
_SCORE_NAMES: Mapping[str, str] = MappingProxyType({"r2": "R^2"})  # those that differ from their keys
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)


class Spread(Wire):
    """The distribution of a score over the runs."""

    median: float
    """Half of the runs are below it."""
    low: float
    """A tenth of the runs are below it."""
    high: float
    """A tenth of the runs are above it."""


class ExpectedScore(Wire):
    """The scores of the runs on the twin at one epsilon."""

    epsilon: float
    """Its epsilon."""
    method: str
    """The method that a quote at this epsilon chooses."""
    score: Spread
    """The measure on fresh rows of the twin."""
    rmse: Spread | None = None
    """For a number: the root mean squared error, in the target's unit."""


class Wanted(Wire):
    """The smallest epsilon for a target score."""

    score: float
    """The requested score."""
    epsilon: float | None
    """Smallest epsilon at which the medians reach the score. The medians are made monotone and interpolated over log
    epsilon. If the smallest tried epsilon suffices, it is returned. Null if no tried epsilon suffices."""


class AccuracyForecast(Tabular, Wire):
    """Expected accuracy against epsilon, from runs of the real method on a public twin. No data was touched."""

    dataset: Identifier | None
    """The dataset. Null for one that is not registered yet."""
    target: Name
    measure: Literal["accuracy", "r2"]
    """`accuracy`, the share of correct classes, or `r2`, the explained share of a number's variance."""
    source: TwinSource
    """Source of the twin's rows."""
    signal: float | None
    """Strength of the planted relation, see the request. Null for a sample, which has its own."""
    delta: float
    """delta of every run."""
    records: int
    """The public n for which the noise was calibrated."""
    twin_records: int
    """Number of training records of a run."""
    test_rows: int
    """Number of fresh rows for the scores."""
    runs: int
    """Number of runs at each epsilon."""
    twin: TwinNumber
    at: list[ExpectedScore]
    """Scores at each epsilon, in increasing order."""
    constant: float
    """Score of the best constant answer, which uses no column."""
    optimum: float
    """Score of the best model without noise on the same twin."""
    wanted: Wanted | None = None
    """The smallest epsilon for the target score, if requested."""
    rests_on: list[str]
    """Assumptions of the forecast, in sentences."""

    @property
    def score_name(self) -> str:
        """The measure as people write it."""
        return _SCORE_NAMES.get(self.measure, self.measure)

    def lay_out(self) -> Iterator[Table]:
        """Yield the expected scores, with the range of 80 % of the runs. Bars begin at the best constant answer."""
        has_errors = any(each.rmse for each in self.at)
        rows = [
            (each.epsilon, *map(_estimate_of, (each.score, each.rmse) if has_errors else (each.score,)), each.method)
            for each in self.at
        ]
        yield Table(
            ("epsilon", self.score_name, *(["error (rmse)"] if has_errors else []), "method"),
            rows,
            note="The ranges contain 80 % of the runs. Scores on your data differ. Compare each with the score without "
            "noise.",
            look="bars",
            origin=self.constant,
        )


def _estimate_of(spread: Spread | None) -> Estimate | None:
    return None if spread is None else Estimate(spread.median, spread.low, spread.high)


def reaching(score: float, at: Sequence[ExpectedScore]) -> float | None:
    """Return the smallest epsilon whose median score reaches `score`, interpolated over log epsilon; else None.

    The median scores are made monotone: the mean of their running maxima from below and running minima from above.

    Parameters
    ----------
    at : scores in increasing order of epsilon
    """
    medians = [each.score.median for each in at]
    highest = accumulate(medians, max)
    lowest = [*accumulate(reversed(medians), min)]
    curve = [(high + low) / 2 for high, low in zip(highest, reversed(lowest), strict=True)]
    k = next((index for index, value in enumerate(curve) if value >= score), None)
    if k is None:
        return None
    if k == 0:
        return at[0].epsilon
    share = (score - curve[k - 1]) / (curve[k] - curve[k - 1])
    return float(at[k - 1].epsilon * (at[k].epsilon / at[k - 1].epsilon) ** share)
