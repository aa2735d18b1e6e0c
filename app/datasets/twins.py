"""A dataset's public twin: rows for trying code, by what is public of it alone; no record has a part."""

from collections.abc import AsyncIterator
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, Query, Request
from fastapi.responses import StreamingResponse

from app.datasets import profiles, samples, store
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, responses
from app.http.queries import strict_router
from app.http.work import in_turns
from app.identity.dependencies import Principal, database, require
from app.persistence.session import Database
from app.sources import twins
from app.sources.twins import Twin
from purse.wire.base import Identifier
from purse.wire.problems import Violation
from purse.wire.twins import MOST_TWIN_ROWS, MOST_TWIN_VALUES, USUAL_SOURCE, TwinNumber, TwinSource

TWINS_EACH, TWINS = 2, 8  # made at once, for one caller and for all: each takes a thread now and then
router = strict_router(prefix="/v1/datasets", tags=["datasets"])
Anyone = Annotated[Principal, Depends(require("steward", "analyst", "auditor"))]


async def place(request: Request, principal: Anyone) -> AsyncIterator[None]:
    """One of the twins that may be made at once, as long as this one is."""
    with request.app.state.services.twins.taken(principal.id):
        yield


@router.get(
    "/{dataset_id}/twin",
    response_class=StreamingResponse,
    summary="Draw a public twin",
    responses=responses("not_found", "invalid_request", "out_of_range", "too_many_requests", "overloaded")
    | {200: {"description": "CSV in the dialect declared.", "content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def twin(
    base: Annotated[Database, Depends(database)],
    principal: Anyone,
    _place: Annotated[None, Depends(place)],
    dataset_id: Identifier,
    rows: Annotated[int, Query(ge=1, le=MOST_TWIN_ROWS, description="How many rows.")] = 1000,
    number: TwinNumber = 0,
    source: Annotated[
        TwinSource | None,
        Query(description=f"By what rows are drawn; if left out, {USUAL_SOURCE}."),
    ] = None,
) -> StreamingResponse:
    """Rows with the columns, the ranges and the categories declared, as a file to try code on; nothing is charged.

    Columns are drawn one by one, and nothing relates one to another; but of a public sample rows are drawn whole. No
    data is touched.
    """
    with base.read() as connection:
        found = store.visible(connection, dataset_id, principal)
        drawn, _ = of(connection, found, source, "query.source")
    if rows * len(drawn.laws) > MOST_TWIN_VALUES:
        most = MOST_TWIN_VALUES // len(drawn.laws)
        raise ApiError("out_of_range", f"With these columns a twin has at most {most} rows.")
    file = twins.csv_file(drawn, number, rows, found.spec.unit)
    return StreamingResponse(in_turns(file), headers={"Content-Type": f"text/csv; charset={drawn.dialect.encoding}"})


def of(
    connection: sa.Connection, dataset: DatasetRow, source: TwinSource | None, where: str
) -> tuple[Twin, TwinSource]:
    """The twin of a dataset, and by what it is drawn; `ApiError` invalid_request if there is nothing of that kind."""
    laws, dialect = twins.declared(dataset.spec.columns), dataset.spec.dialect
    if source in (None, "sample") and (rows := samples.rows_of(connection, dataset)) is not None:
        return Twin(laws, dialect, rows), "sample"
    job = profiles.latest(connection, dataset.id) if source in (None, "profile") else None
    known = None if job is None else profiles.get(connection, dataset.id, job)
    if known is not None:
        return Twin(twins.profiled(known.document.columns), dialect), "profile"
    if source in (None, "declaration"):
        return Twin(laws, dialect), "declaration"
    why = "no profile was released of" if source == "profile" else "no public sample is attached to"
    wrong = Violation(where=where, what=f"cannot be had: {why} this dataset yet")
    raise ApiError("invalid_request", "See `violations`.", violations=[wrong])
