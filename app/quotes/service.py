"""Quotes: a request is read, `app.calculation` chooses its noise, and the ledger determines whether it fits."""

import sqlalchemy as sa

from app.calculation.pool import Pool
from app.datasets import models, names, profiles
from app.datasets import store as datasets
from app.http.errors import ApiError
from app.http.work import in_turn
from app.identity.store import Principal
from app.ledger import allotments
from app.persistence.session import Database
from app.quotes import evaluations, pricing, requests
from app.quotes.pricing import Priced
from app.quotes.requests import ReadRequest
from app.settings import Settings
from app.wire import EvaluationRequest, FromProfile, JobRequest, Quote, Requested, StatisticRequest


async def price(database: Database, settings: Settings, pool: Pool, principal: Principal, request: Requested) -> Priced:
    """Return the price of a request; may be cancelled.

    Raises
    ------
    ApiError
        not_found, too_many_requests, overloaded, and the errors of `requests` and `pricing`.
    """
    requested = await in_turn(read, database, settings, principal, request)
    return await in_turn(pricing.priced, requested, await pool.answer(principal.id, requested.question))


async def quote(database: Database, settings: Settings, pool: Pool, principal: Principal, request: Requested) -> Quote:
    """Return the quote of a request as the dataset's ledger stands; reads no data."""
    priced = await price(database, settings, pool, principal, request)
    return await in_turn(_quoted, database, principal, priced)


def read(database: Database, settings: Settings, principal: Principal, request: Requested) -> ReadRequest:
    """Read a request; raises the errors of `price` that need no calculation."""
    with database.read() as connection:
        if isinstance(request, EvaluationRequest):
            return _evaluation(connection, settings, principal, request)
        dataset = datasets.usable(connection, names.identify(connection, request.dataset, principal), principal)
        preparation = request.preparation if isinstance(request, JobRequest) else None
        profile = None
        if isinstance(preparation, FromProfile) or isinstance(request, StatisticRequest):
            named = preparation.job if isinstance(preparation, FromProfile) else None
            job = named or profiles.latest(connection, dataset.id)
            profile = profiles.get(connection, dataset.id, job) if job else None
    return requests.read(dataset, request, settings, profile)


def _evaluation(
    connection: sa.Connection, settings: Settings, principal: Principal, request: EvaluationRequest
) -> ReadRequest:
    """Read a request to evaluate a model on the holdout set of the dataset that it was trained on."""
    model = models.get(connection, request.model, principal)
    if model is None:
        raise ApiError("not_found", "No model of yours was released by a job with this id.")
    trained = datasets.visible(connection, model.dataset_id, principal)
    part = datasets.holdout(connection, trained.id)
    if part is None:
        raise ApiError(
            "unsupported_combination",
            "This model's dataset has no holdout set. A steward can only set one aside when registering a dataset.",
        )
    return evaluations.read(datasets.usable(connection, part, principal), request, model, settings)


def _quoted(database: Database, principal: Principal, priced: Priced) -> Quote:
    with database.read() as connection:
        row = datasets.visible(connection, priced.dataset.id, principal)
        standing = allotments.stands(connection, row.ledger_id, row.state, principal.id)
    return priced.outlook(standing)
