"""Who may know of a dataset, for stewards."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from app.datasets import grants
from app.http.errors import responses
from app.identity.dependencies import Principal, database, require
from app.persistence.session import Database
from app.wire.base import Identifier, Name, Page
from app.wire.grants import Grant

router = APIRouter(prefix="/v1/datasets/{dataset_id}", tags=["grants"])

Base = Annotated[Database, Depends(database)]
Steward = Annotated[Principal, Depends(require("steward"))]
Manager = Annotated[Principal, Depends(require("steward", scope="manage"))]


@router.put("/grants/{analyst}", summary="Grant a dataset", responses=responses("not_found", "disk_full"))
def give(base: Base, principal: Manager, dataset_id: Identifier, analyst: Name) -> Grant:
    """From now on the analyst, by name or id, sees the dataset and spends on it. A grant that is there stays."""
    return grants.give(base, principal, dataset_id, analyst)


@router.get("/grants", summary="List grants", responses=responses("not_found", "invalid_request"))
def listing(
    base: Base,
    _principal: Steward,
    dataset_id: Identifier,
    cursor: Annotated[Identifier | None, Query(description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="The most entries of this page.")] = 100,
) -> Page[Grant]:
    """The analysts who know of the dataset, in the order in which they got their first tokens."""
    return grants.page(base, dataset_id, cursor, limit)


@router.get("/grants/{analyst}", summary="Read a grant", responses=responses("not_found"))
def read(base: Base, _principal: Steward, dataset_id: Identifier, analyst: Name) -> Grant:
    """Whether an analyst, by name or id, knows of the dataset; 404 if not."""
    return grants.get(base, dataset_id, analyst)


@router.delete(
    "/grants/{analyst}", status_code=204, summary="Revoke a grant", responses=responses("not_found", "disk_full")
)
def revoke(base: Base, _principal: Manager, dataset_id: Identifier, analyst: Name) -> Response:
    """At once: the dataset is not there for the analyst. Jobs go on and stay the analyst's, with what they release."""
    grants.revoke(base, dataset_id, analyst)
    return Response(status_code=204)
