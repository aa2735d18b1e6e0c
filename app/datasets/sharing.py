"""Routes of grants and allotments, for stewards."""

from typing import Annotated

from fastapi import Depends

from app.datasets import allotments, grants
from app.datasets.names import DatasetId
from app.http.body import JsonBody
from app.http.errors import responses
from app.http.lists import Paging, paging_parameters
from app.http.queries import strict_router
from app.identity.dependencies import Manager, ServiceDatabase, Steward
from purse.wire.allotments import Allotment, AllotmentRequest
from purse.wire.base import Name, Page
from purse.wire.grants import Grant

router = strict_router(prefix="/v1/datasets/{dataset_id}", tags=["grants"])

Listed = Annotated[Paging, Depends(paging_parameters())]


@router.put("/grants/{analyst}", summary="Grant a dataset")
def give(database: ServiceDatabase, principal: Manager, dataset_id: DatasetId, analyst: Name) -> Grant:
    """Lets the analyst, by name or id, see the dataset and spend its budget. An existing grant stays as it is."""
    return grants.give(database, principal, dataset_id, analyst)


@router.get("/grants", summary="List grants")
def listing(database: ServiceDatabase, _principal: Steward, dataset_id: DatasetId, paging: Listed) -> Page[Grant]:
    """Returns the analysts who can see the dataset, ordered by the time of their first tokens."""
    return grants.page(database, dataset_id, paging)


@router.get("/grants/{analyst}", summary="Read a grant")
def read(database: ServiceDatabase, _principal: Steward, dataset_id: DatasetId, analyst: Name) -> Grant:
    """Returns an analyst's grant, by name or id. The response is 404 without a grant."""
    return grants.get(database, dataset_id, analyst)


@router.delete("/grants/{analyst}", status_code=204, summary="Revoke a grant")
def revoke(database: ServiceDatabase, _principal: Manager, dataset_id: DatasetId, analyst: Name) -> None:
    """Hides the dataset from the analyst at once. The analyst's jobs go on, and their releases remain readable."""
    grants.revoke(database, dataset_id, analyst)


@router.put("/allotments/{analyst}", summary="Set an allotment", responses=responses("overallotted"))
def allot(
    database: ServiceDatabase,
    principal: Manager,
    dataset_id: DatasetId,
    analyst: Name,
    body: Annotated[AllotmentRequest, Depends(JsonBody(AllotmentRequest))],
) -> Allotment:
    """Limits what the analyst's jobs may together spend of the budget, instead of an earlier allotment.

    Spending needs a grant as well. The datasets of a family share allotments, as they share the budget.
    """
    return allotments.put(database, principal, dataset_id, analyst, body)


@router.get("/allotments", summary="List allotments")
def allotted(database: ServiceDatabase, principal: Steward, dataset_id: DatasetId, paging: Listed) -> Page[Allotment]:
    """Returns what each analyst may spend and has spent, ordered by the time of their first tokens."""
    return allotments.page(database, principal, dataset_id, paging)


@router.get("/allotments/{analyst}", summary="Read an allotment")
def allotment(database: ServiceDatabase, principal: Steward, dataset_id: DatasetId, analyst: Name) -> Allotment:
    """Returns what the analyst, by name or id, may spend of the budget. The response is 404 without an allotment."""
    return allotments.get(database, principal, dataset_id, analyst)


@router.delete("/allotments/{analyst}", status_code=204, summary="Delete an allotment")
def deallot(database: ServiceDatabase, principal: Manager, dataset_id: DatasetId, analyst: Name) -> None:
    """Lets the analyst spend the unreserved budget. Spending so far remains."""
    allotments.delete(database, principal, dataset_id, analyst)
