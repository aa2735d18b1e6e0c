"""What accuracy to expect at which epsilon, tried on a public twin: no data is touched."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Name, Wire
from purse.wire.twins import TwinNumber, TwinSource

MOST_TRIES, MOST_EPSILONS = 50, 12
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)


class Spread(Wire):
    """Over the runs."""

    median: Annotated[float, Field(description="Half of the runs are below it.")]
    low: Annotated[float, Field(description="A tenth of the runs are below it.")]
    high: Annotated[float, Field(description="A tenth of the runs are above it.")]


class ExpectedScore(Wire):
    """What the method's runs on the twin came to at one epsilon."""

    epsilon: Annotated[float, Field(description="Its epsilon.")]
    method: Annotated[str, Field(description="The method, as a quote at this epsilon resolves it.")]
    score: Annotated[Spread, Field(description="The measure on fresh rows of the twin.")]
    rmse: Annotated[
        Spread | None, Field(description="For a number: the root mean squared error, in the target's unit.")
    ] = None


class Wanted(Wire):
    """The inverse question."""

    score: Annotated[float, Field(description="As asked for.")]
    epsilon: Annotated[
        float | None,
        Field(
            description="The least epsilon at which the medians, made monotone and joined by lines over log epsilon, "
            "reach it; the least one tried where that does already; null where none that was tried does."
        ),
    ]


class AccuracyForecast(Wire):
    """Expected accuracy against epsilon, from runs of the real method on a public twin. No data was touched."""

    dataset: Annotated[Identifier | None, Field(description="The dataset; null where there is none yet.")]
    target: Name
    measure: Annotated[
        Literal["accuracy", "r2"],
        Field(description="accuracy: the share of rows whose class is right; r2: of a number's variance explained."),
    ]
    source: Annotated[TwinSource, Field(description="By what the twin's rows were drawn.")]
    signal: Annotated[
        float | None,
        Field(description="The relation that was planted, see the request; null for a sample, which has its own."),
    ]
    delta: Annotated[float, Field(description="delta of every run.")]
    records: Annotated[int, Field(description="n, public, that noise was calibrated for.")]
    twin_records: Annotated[int, Field(description="How many records a run was trained on.")]
    test_rows: Annotated[int, Field(description="How many fresh rows it was scored on.")]
    runs: Annotated[int, Field(description="At each epsilon.")]
    twin: TwinNumber
    at: Annotated[list[ExpectedScore], Field(description="At each epsilon, the least first.")]
    constant: Annotated[float, Field(description="The measure of the best constant answer: a model of nothing.")]
    optimum: Annotated[
        float, Field(description="The measure of the best model without noise, of the same twin's rows.")
    ]
    wanted: Annotated[Wanted | None, Field(description="The inverse question, if it was asked.")] = None
    rests_on: Annotated[list[str], Field(description="What all this rests on, in sentences.")]
