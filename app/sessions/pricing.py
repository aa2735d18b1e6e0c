"""The price of a session: the noise of its target, the cost of its plan, and its guarantee."""

from dataclasses import dataclass

from accounting.filter import Cost
from accounting.privacy import Privacy
from accounting.records.sessions import Certificate, SessionPlan
from app.calculation.pool import Pool, accepted
from app.calculation.questions import Calibrated, PricedPlan, PricePlan
from app.datasets.store import DatasetRow
from app.http.work import in_turn
from app.identity.store import Principal
from app.persistence.session import Database
from app.sessions import requests
from app.sessions.requests import SessionRequested


@dataclass(frozen=True, slots=True)
class PricedSession:
    """A request for a session with its plan and its cost. Whether the ledger admits the cost is still open.

    Parameters
    ----------
    cost : in the currency of the dataset's filter; None if no budget could hold it
    guarantee : target that the plan keeps; None for a list of events
    noise_multiplier : of the target; None for a list of events
    """

    request: SessionRequested
    dataset: DatasetRow
    plan: SessionPlan
    cost: Cost | None
    certificate: Certificate
    guarantee: Privacy | None
    noise_multiplier: float | None


async def price(
    database: Database, pool: Pool, principal: Principal, dataset_id: str, request: SessionRequested
) -> PricedSession:
    """Return the price of a session; may be cancelled.

    Raises
    ------
    ApiError
        the errors of `requests.read`; out_of_range, unsupported_combination or method_filter_mismatch if there is no
        price; too_many_requests, overloaded.
    """
    read = await in_turn(requests.read, database, principal, dataset_id, request)
    release, guarantee, noise_multiplier = None, None, None
    if read.calibration is not None:
        guarantee = read.calibration.privacy
        release = accepted(await pool.answer(principal.id, read.calibration), Calibrated).release
        noise_multiplier = release.plan.queries[0].noise_multiplier
    plan = await in_turn(read.plan, noise_multiplier)
    rule = read.dataset.state.filter
    delta = (guarantee or rule.privacy).delta
    priced = accepted(await pool.answer(principal.id, PricePlan(plan, rule, delta)), PricedPlan)
    certificate = priced.certificate
    if release is not None and release.epsilon < certificate.epsilon:
        certificate = Certificate(release.epsilon, release.delta, release.accountant, release.accountant_version)
    return PricedSession(request, read.dataset, plan, priced.cost, certificate, guarantee, noise_multiplier)
