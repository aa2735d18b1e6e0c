"""Forecasts of accuracy against epsilon: the real method runs on a public twin. No data is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import Depends, Request

from accounting.records.events import Opened
from accounting.records.ledger import advance
from app.calculation.forecasts import TEST_ROWS, Forecasted, Scored
from app.calculation.pool import Pool, accepted
from app.calculation.questions import Answer, ForecastScores, answer
from app.datasets import twins
from app.datasets.service import opened
from app.datasets.store import DatasetRow
from app.http.body import JsonBody
from app.http.dependencies import while_connected
from app.http.errors import invalid_field, responses
from app.http.queries import strict_router
from app.http.work import in_turn
from app.identity.dependencies import Anyone, Calculations, Capacity, Principal, ServiceDatabase, ServiceSettings
from app.persistence.session import Database
from app.quotes import requests, service
from app.quotes.requests import ReadRequest
from app.quotes.routes import REFUSALS
from app.settings import Settings
from app.sources.design import Design
from app.sources.twins import Sample, Twin, declared
from app.wire import ForecastRequest
from purse.wire.datasets import DatasetSpec
from purse.wire.forecasts import AccuracyForecast, ExpectedScore, Spread, Wanted, reaching
from purse.wire.twins import TwinSource

router = strict_router(prefix="/v1", tags=["jobs"])
_BASES: dict[TwinSource, str] = {
    "declaration": "Rows are drawn from the declaration alone: numbers uniformly between their bounds, categories with "
    "equal probabilities. The data may be distributed differently.",
    "profile": "Each column is drawn independently from the released profile, which does not describe relations.",
    "sample": "Rows are drawn from a public sample: every fifth row to score on, the others to train on. The data may "
    "be distributed differently.",
}


@router.post("/forecasts", summary="Forecast accuracy", responses=responses(*REFUSALS))
async def forecast(
    request: Request,
    database: ServiceDatabase,
    settings: ServiceSettings,
    calculations: Calculations,
    principal: Anyone,
    _capacity: Capacity,
    body: Annotated[ForecastRequest, Depends(JsonBody(ForecastRequest))],
) -> AccuracyForecast:
    """Runs the method that a quote would name many times on rows of a public twin, with the noise of the dataset's n.

    `rests_on` states the assumptions. Charges nothing and reads no data.
    """
    return await while_connected(request, _forecast(database, settings, calculations, principal, body))


async def _forecast(
    database: Database, settings: Settings, calculations: Pool, principal: Principal, body: ForecastRequest
) -> AccuracyForecast:
    question, source, dataset_id = await in_turn(_read, database, settings, principal, body)
    return _forecast_of(question, await calculations.answer(principal.id, question), body, source, dataset_id)


def forecast_locally(
    spec: DatasetSpec, records: int, body: ForecastRequest, settings: Settings, drawn: Sample | Twin | None = None
) -> AccuracyForecast:
    """Return the forecast without a server, for declared data with so many records. Raise as the route does.

    Parameters
    ----------
    drawn : a public sample, or a profile's twin; None to draw rows from the declaration
    """
    event = Opened(body.dataset, records, opened(spec.budget), None, spec.protected, spec.neighbors)
    state, _ = advance(None, event, "now")
    row = DatasetRow(body.dataset, body.dataset, spec.name, records, spec.settled(), "", state, "now")
    sample = drawn if isinstance(drawn, Sample) else None
    source: TwinSource = "sample" if sample else "profile" if drawn else "declaration"
    twin = drawn if isinstance(drawn, Twin) else Twin(declared(row.spec.columns), spec.dialect, sample)
    question = _question(requests.read(row, body.job, settings), twin, body)
    return _forecast_of(question, answer(question), body, source)


def read_sample(file: Path, spec: DatasetSpec) -> Sample:
    """Read a public file by the dataset's declaration. Raise as an upload does."""
    from app.sources.ingest import Reading, encoded  # late: Arrow, which no start should wait for

    reading, _ = Reading.of(spec.settled())
    return Sample.of(np.concatenate(list(encoded(file, reading))))


def _read(
    database: Database, settings: Settings, principal: Principal, body: ForecastRequest
) -> tuple[ForecastScores, TwinSource, str]:
    requested = service.read(database, settings, principal, body.job)
    with database.read() as connection:
        twin, source = twins.of(connection, requested.dataset, body.source, "body.source")
    return _question(requested, twin, body), source, requested.dataset.id


def _question(requested: ReadRequest, twin: Twin, body: ForecastRequest) -> ForecastScores:
    assert isinstance(requested.design, Design)
    if body.inference:
        raise invalid_field(
            "body.inference", "must be false: a forecast is about accuracy; a quote states the widths of intervals"
        )
    return ForecastScores(
        price=requested.question,
        design=requested.design,
        twin=twin,
        epsilons=body.epsilons,
        runs=body.runs,
        seed=body.twin,
        signal=body.signal,
    )


def _forecast_of(
    question: ForecastScores, answer: Answer, body: ForecastRequest, source: TwinSource, dataset_id: str | None = None
) -> AccuracyForecast:
    """Return the answer with its spreads and the statements that it rests on."""
    numbers = accepted(answer, Forecasted)
    problem, is_class = question.price.problem, question.design.classes is not None
    at = [_expected(scored) for scored in numbers.at]
    return AccuracyForecast(
        dataset=dataset_id,
        target=body.target,
        measure="accuracy" if is_class else "r2",
        source=source,
        signal=None if source == "sample" else question.signal,
        delta=question.price.privacy.delta,
        records=problem.n,
        twin_records=numbers.records,
        test_rows=TEST_ROWS,
        runs=len(numbers.at[0].scores),
        twin=question.seed,
        at=at,
        constant=numbers.constant,
        optimum=numbers.optimum,
        wanted=None if body.wanted is None else Wanted(score=body.wanted, epsilon=reaching(body.wanted, at)),
        rests_on=list(_rests_on(question, numbers, source)),
    )


def _expected(scored: Scored) -> ExpectedScore:
    rmse = _spread(scored.rmse) if scored.rmse else None
    return ExpectedScore(epsilon=scored.epsilon, method=scored.method, score=_spread(scored.scores), rmse=rmse)


def _spread(values: Sequence[float]) -> Spread:
    low, median, high = np.percentile(values, [10, 50, 90]).tolist()
    return Spread(median=median, low=low, high=high)


def _rests_on(question: ForecastScores, answer: Forecasted, source: TwinSource) -> list[str]:
    problem = question.price.problem
    statements = [_BASES[source]]
    sample, drawn = question.twin.sample, answer.records * problem.unit.slots
    if source == "sample" and sample is not None and (distinct := len(sample.parted[0].rows)) < drawn:
        statements.append(
            f"The sample has {distinct:,} rows to train on, so rows repeat among the {drawn:,} drawn ones. A model "
            "fits few rows too closely, so that the scores and the optimum are usually too low."
        )
    if source != "sample":
        statements.append(
            "No public fact describes how the target depends on the other columns. A linear relation of strength "
            f"{question.signal:g} was assumed. If the relation is weaker in the data, the model is worse."
        )
    statements.append(
        f"The noise is that of the real method for {problem.n:,} {problem.unit.name}s, drawn again in each run. The "
        "spread comes from the noise alone. Nothing was charged, and no data was read."
    )
    if answer.records < problem.n:
        statements.append(
            f"The runs use {answer.records:,} {problem.unit.name}s with the noise of {problem.n:,}. Fewer rows train a "
            "worse model, so that the scores and the optimum are slightly too low."
        )
    if problem.unit.is_person:
        statements.append("Rows of a person are drawn independently. In the data they are similar, and teach less.")
    return statements
