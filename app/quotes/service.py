"""Quotes: a request is read, its noise is calculated elsewhere, and the ledger says what would remain."""

import sqlalchemy as sa

from app.calculation.pool import Pool
from app.datasets import models, profiles
from app.datasets import store as datasets
from app.http.errors import ApiError
from app.http.work import in_turn
from app.identity.store import Principal
from app.ledger import allotments
from app.persistence.session import Database
from app.quotes import evaluations, pricing
from app.quotes.pricing import Asked, Priced
from app.settings import Settings
from app.wire import EvaluationRequest, FromProfile, JobRequest, Quote, Requested


async def price(database: Database, settings: Settings, pool: Pool, principal: Principal, request: Requested) -> Priced:
    """The price of a request; may be cancelled.

    Raises
    ------
    ApiError
        not_found, too_many_requests, overloaded, and what `pricing` raises.
    """
    found = await in_turn(asked, database, settings, principal, request)
    return pricing.priced(found, await pool.answer(principal.id, found.question))


async def quote(database: Database, settings: Settings, pool: Pool, principal: Principal, request: Requested) -> Quote:
    """The price of a request as the dataset's ledger stands; touches no data."""
    priced = await price(database, settings, pool, principal, request)
    return await in_turn(_quoted, database, principal, priced)


def asked(database: Database, settings: Settings, principal: Principal, request: Requested) -> Asked:
    """The question that a request comes to; raises as `price`, but for what only an answer says."""
    with database.read() as connection:
        if isinstance(request, EvaluationRequest):
            return _evaluation(connection, settings, principal, request)
        dataset = datasets.visible(connection, request.dataset, principal)
        if dataset.data != "stored":
            raise ApiError("dataset_deleted")
        wanted = request.preparation if isinstance(request, JobRequest) else None
        known = None
        if isinstance(wanted, FromProfile):
            job = wanted.job or profiles.latest(connection, dataset.id)
            known = profiles.get(connection, dataset.id, job) if job else None
    return pricing.ask(dataset, request, settings, known)


def _evaluation(
    connection: sa.Connection, settings: Settings, principal: Principal, request: EvaluationRequest
) -> Asked:
    """Of the kept-out part of the dataset that the model was trained on."""
    model = models.get(connection, request.model, principal)
    if model is None:
        raise ApiError("not_found", "There is no released model of this job.")
    trained = datasets.visible(connection, model.dataset_id, principal)
    part = datasets.holdout(connection, trained.id)
    if part is None:
        raise ApiError("unsupported_combination", "Nothing was kept out of the dataset that this model was trained on.")
    dataset = datasets.visible(connection, part, principal)
    if dataset.data != "stored":
        raise ApiError("dataset_deleted")
    return evaluations.ask(dataset, request, model, settings)


def _quoted(database: Database, principal: Principal, priced: Priced) -> Quote:
    with database.read() as connection:
        row = datasets.visible(connection, priced.dataset.id, principal)
        standing = allotments.stands(connection, row.ledger_id, row.state, principal.id)
    return priced.quote(standing)
