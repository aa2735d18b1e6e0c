"""Who may know of a dataset, and what one of them may spend of its budget, for stewards."""

from typing import Annotated

from fastapi import Depends, Response

from app.datasets import allotments, grants
from app.datasets.names import DatasetId
from app.http.body import json_body
from app.http.errors import responses
from app.http.lists import Paging, paging
from app.http.queries import strict_router
from app.identity.dependencies import Principal, database, require
from app.persistence.session import Database
from purse.wire.allotments import Allotment, AllotmentRequest
from purse.wire.base import Name, Page
from purse.wire.grants import Grant

router = strict_router(prefix="/v1/datasets/{dataset_id}", tags=["grants"])

Base = Annotated[Database, Depends(database)]
Steward = Annotated[Principal, Depends(require("steward"))]
Manager = Annotated[Principal, Depends(require("steward", scope="manage"))]
Listed = Annotated[Paging, Depends(paging())]


@router.put(
    "/grants/{analyst}", summary="Grant a dataset", responses=responses("not_found", "invalid_request", "disk_full")
)
def give(base: Base, principal: Manager, dataset_id: DatasetId, analyst: Name) -> Grant:
    """From now on the analyst, by name or id, sees the dataset and spends on it. A grant that is there stays."""
    return grants.give(base, principal, dataset_id, analyst)


@router.get("/grants", summary="List grants", responses=responses("not_found", "invalid_request"))
def listing(base: Base, _principal: Steward, dataset_id: DatasetId, asked: Listed) -> Page[Grant]:
    """The analysts who know of the dataset, by when they got their first tokens."""
    return grants.page(base, dataset_id, asked)


@router.get("/grants/{analyst}", summary="Read a grant", responses=responses("not_found"))
def read(base: Base, _principal: Steward, dataset_id: DatasetId, analyst: Name) -> Grant:
    """Whether an analyst, by name or id, knows of the dataset; 404 if not."""
    return grants.get(base, dataset_id, analyst)


@router.delete(
    "/grants/{analyst}",
    status_code=204,
    summary="Revoke a grant",
    responses=responses("not_found", "invalid_request", "disk_full"),
)
def revoke(base: Base, _principal: Manager, dataset_id: DatasetId, analyst: Name) -> Response:
    """At once: the dataset is not there for the analyst. Jobs go on and stay the analyst's, with what they release."""
    grants.revoke(base, dataset_id, analyst)
    return Response(status_code=204)


@router.put(
    "/allotments/{analyst}",
    summary="Allot a part of the budget",
    responses=responses("not_found", "invalid_request", "out_of_range", "overallotted", "disk_full"),
)
def allot(
    base: Base,
    principal: Manager,
    dataset_id: DatasetId,
    analyst: Name,
    body: Annotated[AllotmentRequest, Depends(json_body(AllotmentRequest))],
) -> Allotment:
    """From now on the analyst's jobs together spend at most this of the budget, in the place of what was said before.

    It takes a grant to spend at all. The datasets of a family share allotments, as they share the budget.
    """
    return allotments.put(base, principal, dataset_id, analyst, body)


@router.get("/allotments", summary="List allotments", responses=responses("not_found", "invalid_request"))
def allotted(base: Base, principal: Steward, dataset_id: DatasetId, asked: Listed) -> Page[Allotment]:
    """What each analyst may spend of the budget, and how much of that is spent, by when they got their first tokens."""
    return allotments.page(base, principal, dataset_id, asked)


@router.get("/allotments/{analyst}", summary="Read an allotment", responses=responses("not_found"))
def allotment(base: Base, principal: Steward, dataset_id: DatasetId, analyst: Name) -> Allotment:
    """What the analyst, by name or id, may spend of the budget; 404 if nothing was said."""
    return allotments.get(base, principal, dataset_id, analyst)


@router.delete(
    "/allotments/{analyst}",
    status_code=204,
    summary="Take an allotment back",
    responses=responses("not_found", "disk_full"),
)
def deallot(base: Base, principal: Manager, dataset_id: DatasetId, analyst: Name) -> Response:
    """From now on the analyst spends of what nobody has reserved. What was spent stays spent."""
    allotments.delete(base, principal, dataset_id, analyst)
    return Response(status_code=204)
