"""Quotes: a request is read, its noise is calculated elsewhere, and the ledger says what would remain."""

from fastapi.concurrency import run_in_threadpool

from app.calculation.pool import Pool
from app.datasets import profiles
from app.datasets import store as datasets
from app.http.errors import ApiError
from app.identity.store import Principal
from app.ledger import allotments
from app.persistence.session import Database
from app.quotes import pricing
from app.quotes.pricing import Asked, Priced
from app.settings import Settings
from app.wire import Asked as Requested
from app.wire import FromProfile, JobRequest, Quote


async def price(database: Database, settings: Settings, pool: Pool, principal: Principal, request: Requested) -> Priced:
    """The price of a request; may be cancelled.

    Raises
    ------
    ApiError
        not_found, too_many_requests, overloaded, and what `pricing` raises.
    """
    asked = await run_in_threadpool(_asked, database, settings, principal, request)
    return pricing.priced(asked, await pool.answer(principal.id, asked.question))


async def quote(database: Database, settings: Settings, pool: Pool, principal: Principal, request: Requested) -> Quote:
    """The price of a request as the dataset's ledger stands; touches no data."""
    priced = await price(database, settings, pool, principal, request)
    return await run_in_threadpool(_quoted, database, principal, priced)


def _asked(database: Database, settings: Settings, principal: Principal, request: Requested) -> Asked:
    with database.read() as connection:
        dataset = datasets.visible(connection, request.dataset, principal)
        if dataset.data != "stored":
            raise ApiError("dataset_deleted")
        wanted = request.preparation if isinstance(request, JobRequest) else None
        known = None
        if isinstance(wanted, FromProfile):
            job = wanted.job or profiles.latest(connection, dataset.id)
            known = profiles.get(connection, dataset.id, job) if job else None
    return pricing.ask(dataset, request, settings, known)


def _quoted(database: Database, principal: Principal, priced: Priced) -> Quote:
    with database.read() as connection:
        row = datasets.visible(connection, priced.dataset.id, principal)
        standing = allotments.stands(connection, row.ledger_id, row.state, principal.id)
    return priced.quote(standing)
