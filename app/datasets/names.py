"""Dataset ids from references: the id or the name by which a request states a dataset."""

import re
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, Path

from app.datasets import store
from app.http.work import in_turn
from app.identity.dependencies import Principal, ServiceDatabase, caller
from app.persistence.session import Database
from purse.wire.base import DatasetReference

_ISSUED_ID = re.compile("ds_[a-z2-7]{20}")  # the ids that `new_id("ds")` issues


def identify(connection: sa.Connection, reference: str, principal: Principal) -> str:
    """Return the id of the dataset that a reference states.

    A reference of the form of an issued id is that id. Otherwise it is the name of a dataset that the principal may
    see. A reference that states no such dataset is returned as it is: whatever looks it up next reports `not_found`,
    so that a name without a grant is answered as a name that does not exist.
    """
    if _ISSUED_ID.fullmatch(reference):
        return reference
    return connection.scalar(sa.select(store.named(principal, reference))) or reference


async def dataset_id(
    database: ServiceDatabase,
    principal: Annotated[Principal, Depends(caller)],
    dataset_id: Annotated[DatasetReference, Path()],
) -> str:
    """Return the id of the dataset that the path states, see `identify`."""
    if _ISSUED_ID.fullmatch(dataset_id):  # without a thread, which only a query needs
        return dataset_id
    return await in_turn(_identify, database, dataset_id, principal)


def _identify(database: Database, reference: str, principal: Principal) -> str:
    with database.read() as connection:
        return identify(connection, reference, principal)


DatasetId = Annotated[str, Depends(dataset_id)]
"""The path parameter `dataset_id` of a route: an id or a name, resolved to the id."""
