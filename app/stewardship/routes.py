"""Stewards' changes to a dataset that is there."""

from typing import Annotated

from fastapi import Depends

from app.datasets.names import DatasetId
from app.datasets.routes import Base, Chosen, Manager
from app.http.body import json_body
from app.http.errors import responses
from app.http.location import Locate
from app.http.queries import strict_router
from app.jobs.routes import Waker, waker
from app.stewardship import charges, service
from app.wire import ExternalCharge
from purse.wire.datasets import Amendment, Dataset
from purse.wire.outside import ExternalCharged

router = strict_router(prefix="/v1/datasets", tags=["datasets"])
Dispatching = Annotated[Waker, Depends(waker)]


@router.patch(
    "/{dataset_id}",
    summary="Amend, top up or freeze a dataset",
    responses=responses("not_found", "invalid_request", "out_of_range", "name_taken", "already_charged", "disk_full"),
)
def amend(
    base: Base,
    principal: Manager,
    dispatcher: Dispatching,
    dataset_id: DatasetId,
    body: Annotated[Amendment, Depends(json_body(Amendment))],
) -> Dataset:
    """A name or any other budget, while nothing is charged; a larger budget after that; a freeze at any time.

    A larger budget is a new promise: it is an entry of the ledger, and stands in `budget.promises` beside those before
    it. Frozen, nothing is charged and no job starts, at once; what runs is paid for, and ends. Both are the family's.
    Columns cannot change without their file: withdraw the dataset (DELETE), and register it again.
    """
    changed = service.amend(base, principal, dataset_id, body)
    dispatcher.wake()
    return changed


@router.post(
    "/{dataset_id}/charges",
    status_code=201,
    summary="Charge what ran elsewhere",
    responses=responses(
        "not_found",
        "invalid_request",
        "out_of_range",
        "method_filter_mismatch",
        "budget_exhausted",
        "dataset_changed",
        "idempotency_conflict",
        "disk_full",
    ),
)
def charge(
    base: Base,
    principal: Manager,
    dataset_id: DatasetId,
    body: Annotated[ExternalCharge, Depends(json_body(ExternalCharge))],
    locate: Locate,
) -> ExternalCharged:
    """What a mechanism cost that ran on the same people outside of this service, in the currency of the ledger.

    What does not fit is refused: with `exceeds` it is recorded all the same, for it has happened. The budget is then
    exceeded, which it tells, and the ledger frozen. A charge from outside is never taken back.
    """
    made = charges.charge(base, principal, dataset_id, body)
    locate(f"{router.prefix}/{dataset_id}/ledger?cursor={made.sequence - 1}&limit=1&order=asc")
    return made


@router.delete(
    "/{dataset_id}",
    summary="Withdraw a dataset, or delete its values",
    responses=responses("not_found", "disk_full", "storage_unavailable"),
)
def erase(base: Base, chosen: Chosen, principal: Manager, dispatcher: Dispatching, dataset_id: DatasetId) -> Dataset:
    """Ends its jobs (queued ones are refunded, running ones stay charged and release nothing), and deletes its values.

    If nothing is charged on its ledger then, it is withdrawn: no longer a dataset, its name free, the same values may
    be registered again. Otherwise `data` is "deleted": ledger and receipts stay, and nothing more is answered of it.
    Its kept-out part goes with it, and it is withdrawn only if nothing is charged on that part's ledger either.
    """
    told = service.erase(base, chosen, principal, dataset_id)
    dispatcher.wake()
    return told
