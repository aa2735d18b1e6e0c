"""Routes of stewards' changes to a registered dataset."""

from typing import Annotated

from fastapi import Depends

from app.datasets.names import DatasetId
from app.http.body import JsonBody
from app.http.dependencies import Locate
from app.http.errors import responses
from app.http.queries import strict_router
from app.identity.dependencies import Manager, ServiceDatabase, ServiceSettings
from app.jobs.routes import Dispatcher
from app.stewardship import charges, service
from app.wire import ExternalCharge
from purse.wire.datasets import Amendment, Dataset
from purse.wire.outside import ExternalCharged

router = strict_router(prefix="/v1/datasets", tags=["datasets"])


@router.patch("/{dataset_id}", summary="Amend a dataset", responses=responses("name_taken", "already_charged"))
def amend(
    database: ServiceDatabase,
    principal: Manager,
    dispatcher: Dispatcher,
    dataset_id: DatasetId,
    body: Annotated[Amendment, Depends(JsonBody(Amendment))],
) -> Dataset:
    """Changes the name or the budget while nothing is charged, raises a charged budget, or freezes the dataset.

    `sessions` states whether new sessions are accepted and refunded. It may change at any time.

    A larger budget is a new guarantee: an entry of the ledger, listed in `budget.promises` with the earlier ones.
    Freezing immediately blocks new charges and keeps queued jobs from starting. Running jobs continue.
    Both apply to the whole family. Columns cannot change: withdraw the dataset (DELETE) and register its file again.
    """
    changed = service.amend(database, principal, dataset_id, body)
    dispatcher.wake()
    return changed


@router.post(
    "/{dataset_id}/charges",
    status_code=201,
    summary="Charge an outside mechanism",
    responses=responses(
        "method_filter_mismatch",
        "budget_exhausted",
        "dataset_changed",
        "dataset_damaged",
        "idempotency_conflict",
        "disk_full",
    ),
)
def charge(
    database: ServiceDatabase,
    principal: Manager,
    dataset_id: DatasetId,
    body: Annotated[ExternalCharge, Depends(JsonBody(ExternalCharge))],
    locate: Locate,
) -> ExternalCharged:
    """Charges a mechanism that ran on the same people outside this service, in the currency of the ledger.

    A charge that does not fit is refused. With `exceeds` it is recorded anyway, because it has happened: the budget
    is then reported as exceeded, and the ledger is frozen. An outside charge is never refunded.
    """
    charged = charges.charge(database, principal, dataset_id, body)
    locate(f"{router.prefix}/{dataset_id}/ledger?cursor={charged.sequence - 1}&limit=1&order=asc")
    return charged


@router.delete(
    "/{dataset_id}",
    summary="Delete a dataset",
    responses=responses("storage_unavailable", "data_elsewhere"),
)
def erase(
    database: ServiceDatabase,
    settings: ServiceSettings,
    principal: Manager,
    dispatcher: Dispatcher,
    dataset_id: DatasetId,
) -> Dataset:
    """Cancels the jobs of a dataset (queued ones are refunded, running ones stay charged), and deletes its values.

    Its open sessions are closed: those that recorded nothing are refunded, others stay charged.

    If nothing is charged on its ledger after that, the dataset is withdrawn: its name becomes free, and the same
    values may be registered again. Otherwise `data` is "deleted": ledger and receipts remain, and jobs are refused.
    The holdout set is deleted with it. The dataset is withdrawn only if the holdout set's ledger has no charge either.
    A charged dataset whose records are elsewhere has no values to delete (`data_elsewhere`).
    """
    erased = service.erase(database, settings, principal, dataset_id)
    dispatcher.wake()
    return erased
