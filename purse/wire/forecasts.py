"""Forecasts of accuracy against epsilon, from runs on a public twin. No data is read."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Wire
from purse.wire.twins import TwinNumber, TwinSource

MOST_TRIES, MOST_EPSILONS = 50, 12
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)


class Spread(Wire):
    """The distribution of a score over the runs."""

    median: Annotated[float, Field(description="Half of the runs are below it.")]
    low: Annotated[float, Field(description="A tenth of the runs are below it.")]
    high: Annotated[float, Field(description="A tenth of the runs are above it.")]


class ExpectedScore(Wire):
    """The scores of the runs on the twin at one epsilon."""

    epsilon: Annotated[float, Field(description="Its epsilon.")]
    method: Annotated[str, Field(description="The method that a quote at this epsilon chooses.")]
    score: Annotated[Spread, Field(description="The measure on fresh rows of the twin.")]
    rmse: Annotated[
        Spread | None, Field(description="For a number: the root mean squared error, in the target's unit.")
    ] = None


class Wanted(Wire):
    """The smallest epsilon for a target score."""

    score: Annotated[float, Field(description="The requested score.")]
    epsilon: Annotated[
        float | None,
        Field(
            description="Smallest epsilon at which the medians reach the score. The medians are made monotone and "
            "interpolated over log epsilon. The smallest tried epsilon if that suffices. Null if none does."
        ),
    ]


class AccuracyForecast(Wire):
    """Expected accuracy against epsilon, from runs of the real method on a public twin. No data was touched."""

    dataset: Annotated[Identifier | None, Field(description="The dataset. Null for one that is not registered yet.")]
    target: Name
    measure: Annotated[
        Literal["accuracy", "r2"],
        Field(
            description="`accuracy`, the share of correct classes, or `r2`, the explained share of a number's variance."
        ),
    ]
    source: Annotated[TwinSource, Field(description="Source of the twin's rows.")]
    signal: Annotated[
        float | None,
        Field(description="Strength of the planted relation, see the request. Null for a sample, which has its own."),
    ]
    delta: Annotated[float, Field(description="delta of every run.")]
    records: Annotated[int, Field(description="The public n for which the noise was calibrated.")]
    twin_records: Annotated[int, Field(description="Number of training records of a run.")]
    test_rows: Annotated[int, Field(description="Number of fresh rows for the scores.")]
    runs: Annotated[int, Field(description="Number of runs at each epsilon.")]
    twin: TwinNumber
    at: Annotated[list[ExpectedScore], Field(description="Scores at each epsilon, in increasing order.")]
    constant: Annotated[float, Field(description="Score of the best constant answer, which uses no column.")]
    optimum: Annotated[float, Field(description="Score of the best model without noise on the same twin.")]
    wanted: Annotated[Wanted | None, Field(description="The smallest epsilon for the target score, if requested.")] = (
        None
    )
    rests_on: Annotated[list[str], Field(description="Assumptions of the forecast, in sentences.")]
