"""Which epsilon? The real method tried on a public twin, for whoever may use a dataset. No data is touched."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import Depends, Request

from accounting.records.events import Opened
from accounting.records.ledger import advance
from app.calculation.dependencies import pool
from app.calculation.forecasts import TEST_ROWS, Forecasted, Scored
from app.calculation.pool import Pool
from app.calculation.questions import Answer, Forecast, Refused, forecasted
from app.datasets import twins
from app.datasets.service import opened
from app.datasets.store import DatasetRow
from app.http.body import json_body
from app.http.callers import while_connected
from app.http.errors import ApiError, responses
from app.http.queries import strict_router
from app.http.work import in_turn
from app.identity.dependencies import Principal, database, require, settings
from app.persistence.session import Database
from app.quotes import requests, service
from app.quotes.requests import ReadRequest
from app.quotes.routes import REFUSALS
from app.settings import Settings
from app.sources.design import Design
from app.sources.twins import Sample, Twin, declared
from app.wire import ForecastRequest
from purse.wire.datasets import DatasetSpec
from purse.wire.forecasts import AccuracyForecast, ExpectedScore, Spread, Wanted
from purse.wire.twins import TwinSource

router = strict_router(prefix="/v1", tags=["jobs"])
Anyone = Annotated[Principal, Depends(require("steward", "analyst", "auditor"))]
Calculations = Annotated[Pool, Depends(pool)]
_BASES: dict[TwinSource, str] = {
    "declaration": "Rows are drawn by the declaration alone: numbers evenly between their bounds, categories all as "
    "likely. The data may be spread otherwise.",
    "profile": "Each column is spread as the released profile says, by itself: how columns go together is not in it.",
    "sample": "Rows are drawn from a public sample: every fifth of its rows to score on, the others to train on. The "
    "data may be otherwise.",
}


async def room(calculations: Calculations, principal: Anyone) -> None:
    """Refused before the body is read."""
    calculations.check(principal.id)


@router.post("/forecasts", summary="Forecast accuracy against epsilon", responses=responses(*REFUSALS))
async def forecast(
    request: Request,
    base: Annotated[Database, Depends(database)],
    chosen: Annotated[Settings, Depends(settings)],
    calculations: Calculations,
    principal: Anyone,
    _room: Annotated[None, Depends(room)],
    body: Annotated[ForecastRequest, Depends(json_body(ForecastRequest))],
) -> AccuracyForecast:
    """The method that a quote would name runs many times on rows of a public twin, with the noise of the dataset's n.

    `rests_on` says what the answer rests on. Charges nothing and touches no data.
    """
    return await while_connected(request, _forecast(base, chosen, calculations, principal, body))


async def _forecast(
    base: Database, chosen: Settings, calculations: Pool, principal: Principal, body: ForecastRequest
) -> AccuracyForecast:
    question, by, dataset_id = await in_turn(_read, base, chosen, principal, body)
    return _forecast_of(question, await calculations.answer(principal.id, question), body, by, dataset_id)


def here(
    spec: DatasetSpec, records: int, body: ForecastRequest, chosen: Settings, drawn: Sample | Twin | None = None
) -> AccuracyForecast:
    """The same without a server, for data that are declared so and have so many records: of rows of a public sample, or
    of a profile's twin, or, if there is neither, by the declaration; `ApiError` as the route has it.
    """
    event = Opened(body.dataset, records, opened(spec.budget), None, spec.protected, spec.neighbors)
    state, _ = advance(None, event, "now")
    row = DatasetRow(body.dataset, body.dataset, spec.name, records, spec.settled(), "", state, "now")
    sample = drawn if isinstance(drawn, Sample) else None
    by: TwinSource = "sample" if sample else "profile" if drawn else "declaration"
    twin = drawn if isinstance(drawn, Twin) else Twin(declared(row.spec.columns), spec.dialect, sample)
    question = _question(requests.read(row, body.job, chosen), twin, body)
    return _forecast_of(question, forecasted(question), body, by)


def sampled(file: Path, spec: DatasetSpec) -> Sample:
    """A public file, read as the data are; raises as an upload does."""
    from app.sources.ingest import Reading, encoded  # late: Arrow, which no start should wait for

    reading, _ = Reading.of(spec.settled())
    return Sample.of(np.concatenate(list(encoded(file, reading))))


def _read(
    base: Database, chosen: Settings, principal: Principal, body: ForecastRequest
) -> tuple[Forecast, TwinSource, str]:
    requested = service.read(base, chosen, principal, body.job)
    with base.read() as connection:
        twin, by = twins.of(connection, requested.dataset, body.source, "body.source")
    return _question(requested, twin, body), by, requested.dataset.id


def _question(requested: ReadRequest, twin: Twin, body: ForecastRequest) -> Forecast:
    assert isinstance(requested.design, Design)
    return Forecast(
        price=requested.question,
        design=requested.design,
        twin=twin,
        epsilons=body.epsilons,
        runs=body.runs,
        seed=body.twin,
        signal=body.signal,
        is_apart=requested.dataset.spec.storage == "partitions",
    )


def _forecast_of(
    question: Forecast, found: Answer, body: ForecastRequest, by: TwinSource, dataset_id: str | None = None
) -> AccuracyForecast:
    """Return the answer with its spreads and the statements that it rests on."""
    if isinstance(found, Refused):
        raise ApiError(found.code, found.detail)
    assert isinstance(found, Forecasted)
    problem, is_class = question.price.problem, question.design.classes is not None
    return AccuracyForecast(
        dataset=dataset_id,
        target=body.target,
        measure="accuracy" if is_class else "r2",
        source=by,
        signal=None if by == "sample" else question.signal,
        delta=question.price.privacy.delta,
        records=problem.n,
        twin_records=found.records,
        test_rows=TEST_ROWS,
        runs=question.runs,
        twin=question.seed,
        at=[_expected(scored) for scored in found.at],
        constant=found.constant,
        optimum=found.optimum,
        wanted=None if body.wanted is None else Wanted(score=body.wanted, epsilon=reaching(body.wanted, found.at)),
        rests_on=list(_rests_on(question, found, by)),
    )


def reaching(wanted: float, at: Sequence[Scored]) -> float | None:
    """The least epsilon at which the medians reach it, between lines over log epsilon; None if none does.

    They are made monotone by the mean of the least and the greatest curves that are: running maxima from below and
    running minima from above.
    """
    medians = np.array([np.median(scored.scores) for scored in at])
    curve = (np.maximum.accumulate(medians) + np.minimum.accumulate(medians[::-1])[::-1]) / 2
    if curve[-1] < wanted:
        return None
    k = int(np.searchsorted(curve, wanted))
    if k == 0:
        return at[0].epsilon
    share = (wanted - curve[k - 1]) / (curve[k] - curve[k - 1])
    return float(at[k - 1].epsilon * (at[k].epsilon / at[k - 1].epsilon) ** share)


def _expected(scored: Scored) -> ExpectedScore:
    rmse = _spread(scored.rmse) if scored.rmse else None
    return ExpectedScore(epsilon=scored.epsilon, method=scored.method, score=_spread(scored.scores), rmse=rmse)


def _spread(values: Sequence[float]) -> Spread:
    low, median, high = np.percentile(values, [10, 50, 90]).tolist()
    return Spread(median=median, low=low, high=high)


def _rests_on(question: Forecast, found: Forecasted, by: TwinSource) -> list[str]:
    problem = question.price.problem
    statements = [_BASES[by]]
    if by != "sample":
        statements.append(
            "How the target depends on the other columns is in nothing public: a linear relation of strength "
            f"{question.signal:g} was planted. If it is weaker in the data, so will the model be."
        )
    statements.append(
        f"Noise is that of the real method for {problem.n} {problem.unit.name}s, drawn afresh in each run; the spread "
        "is that of the noise alone. Nothing was charged, no data was touched."
    )
    if found.records < problem.n:
        statements.append(
            f"Runs are on {found.records} {problem.unit.name}s with the noise of {problem.n}: fewer rows tell less, so "
            "that the scores, and the optimum beside them, are a little too low."
        )
    if problem.unit.is_person:
        statements.append("Rows of a person are drawn one by one; in the data they are alike, and tell less.")
    return statements
