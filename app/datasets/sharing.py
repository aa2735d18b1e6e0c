"""Routes of grants and allotments, for stewards."""

from typing import Annotated

from fastapi import Depends

from app.datasets import allotments, grants
from app.datasets.names import DatasetId
from app.http.body import JsonBody
from app.http.errors import responses
from app.http.lists import Paging, paging
from app.http.queries import strict_router
from app.identity.dependencies import Base, Manager, Steward
from purse.wire.allotments import Allotment, AllotmentRequest
from purse.wire.base import Name, Page
from purse.wire.grants import Grant

router = strict_router(prefix="/v1/datasets/{dataset_id}", tags=["grants"])

Listed = Annotated[Paging, Depends(paging())]


@router.put("/grants/{analyst}", summary="Grant a dataset")
def give(base: Base, principal: Manager, dataset_id: DatasetId, analyst: Name) -> Grant:
    """Lets the analyst, by name or id, see the dataset and spend its budget. An existing grant stays as it is."""
    return grants.give(base, principal, dataset_id, analyst)


@router.get("/grants", summary="List grants")
def listing(base: Base, _principal: Steward, dataset_id: DatasetId, asked: Listed) -> Page[Grant]:
    """Returns the analysts who can see the dataset, ordered by the time of their first tokens."""
    return grants.page(base, dataset_id, asked)


@router.get("/grants/{analyst}", summary="Read a grant")
def read(base: Base, _principal: Steward, dataset_id: DatasetId, analyst: Name) -> Grant:
    """Returns an analyst's grant, by name or id. The response is 404 without a grant."""
    return grants.get(base, dataset_id, analyst)


@router.delete("/grants/{analyst}", status_code=204, summary="Revoke a grant")
def revoke(base: Base, _principal: Manager, dataset_id: DatasetId, analyst: Name) -> None:
    """Hides the dataset from the analyst at once. The analyst's jobs go on, and their releases remain readable."""
    grants.revoke(base, dataset_id, analyst)


@router.put("/allotments/{analyst}", summary="Set an allotment", responses=responses("overallotted"))
def allot(
    base: Base,
    principal: Manager,
    dataset_id: DatasetId,
    analyst: Name,
    body: Annotated[AllotmentRequest, Depends(JsonBody(AllotmentRequest))],
) -> Allotment:
    """Limits what the analyst's jobs may together spend of the budget, instead of an earlier allotment.

    Spending needs a grant as well. The datasets of a family share allotments, as they share the budget.
    """
    return allotments.put(base, principal, dataset_id, analyst, body)


@router.get("/allotments", summary="List allotments")
def allotted(base: Base, principal: Steward, dataset_id: DatasetId, asked: Listed) -> Page[Allotment]:
    """Returns what each analyst may spend and has spent, ordered by the time of their first tokens."""
    return allotments.page(base, principal, dataset_id, asked)


@router.get("/allotments/{analyst}", summary="Read an allotment")
def allotment(base: Base, principal: Steward, dataset_id: DatasetId, analyst: Name) -> Allotment:
    """Returns what the analyst, by name or id, may spend of the budget. The response is 404 without an allotment."""
    return allotments.get(base, principal, dataset_id, analyst)


@router.delete("/allotments/{analyst}", status_code=204, summary="Delete an allotment")
def deallot(base: Base, principal: Manager, dataset_id: DatasetId, analyst: Name) -> None:
    """Lets the analyst spend the unreserved budget. Spending so far remains."""
    allotments.delete(base, principal, dataset_id, analyst)
