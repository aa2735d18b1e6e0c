"""Public twins: synthetic rows for trying code, drawn from public facts of a dataset alone."""

from collections.abc import AsyncIterator
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, Query, Request
from fastapi.responses import StreamingResponse

from app.datasets import profiles, samples, store
from app.datasets.names import DatasetId
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, invalid_field, responses
from app.http.queries import strict_router
from app.http.work import in_turns
from app.identity.dependencies import Anyone, ServiceDatabase
from app.sources import twins
from app.sources.twins import Twin
from purse.wire.twins import MOST_TWIN_ROWS, MOST_TWIN_VALUES, USUAL_SOURCE, TwinNumber, TwinSource

TWINS_EACH, TWINS = 2, 8  # drawn at a time, for one caller and for all: each needs a thread now and then
router = strict_router(prefix="/v1/datasets", tags=["datasets"])


async def slot(request: Request, principal: Anyone) -> AsyncIterator[None]:
    """Hold one of the twins that may be drawn at a time, while this twin is drawn."""
    with request.app.state.services.twins.slot(principal.id):
        yield


@router.get(
    "/{dataset_id}/twin",
    response_class=StreamingResponse,
    summary="Draw a public twin",
    responses=responses("out_of_range", "data_elsewhere")
    | {200: {"description": "CSV in the dialect declared.", "content": {"text/csv": {"schema": {"type": "string"}}}}},
)
def twin(
    database: ServiceDatabase,
    principal: Anyone,
    _slot: Annotated[None, Depends(slot)],
    dataset_id: DatasetId,
    rows: Annotated[int, Query(ge=1, le=MOST_TWIN_ROWS, description="How many rows.")] = 1000,
    number: TwinNumber = 0,
    source: Annotated[
        TwinSource | None,
        Query(description=f"The source of the rows; if left out, {USUAL_SOURCE}."),
    ] = None,
) -> StreamingResponse:
    """Returns rows with the declared columns, ranges and categories, as a file to try code on. Nothing is charged.

    Columns are drawn independently of each other; from a public sample, whole rows are drawn. No data is read.
    """
    with database.read() as connection:
        dataset = store.visible(connection, dataset_id, principal)
        if dataset.data == "elsewhere":
            raise ApiError("data_elsewhere")
        drawn, _ = of(connection, dataset, source, "query.source")
    if rows * len(drawn.laws) > MOST_TWIN_VALUES:
        limit = MOST_TWIN_VALUES // len(drawn.laws)
        raise ApiError("out_of_range", f"`rows` is too large: with these columns a twin has at most {limit} rows.")
    file = twins.csv_file(drawn, number, rows, dataset.spec.unit)
    return StreamingResponse(in_turns(file), headers={"Content-Type": f"text/csv; charset={drawn.dialect.encoding}"})


def of(
    connection: sa.Connection, dataset: DatasetRow, source: TwinSource | None, where: str
) -> tuple[Twin, TwinSource]:
    """Return the twin of a dataset and its source. Raise `ApiError` invalid_request if the source does not exist."""
    laws, dialect = twins.declared(dataset.spec.columns), dataset.spec.dialect
    if source in (None, "sample") and (rows := samples.rows_of(connection, dataset)) is not None:
        return Twin(laws, dialect, rows), "sample"
    job = profiles.latest(connection, dataset.id) if source in (None, "profile") else None
    profile = None if job is None else profiles.get(connection, dataset.id, job)
    if profile is not None:
        return Twin(twins.profiled(profile.document.columns), dialect), "profile"
    if source in (None, "declaration"):
        return Twin(laws, dialect), "declaration"
    reason = "no profile has been released" if source == "profile" else "no public sample is attached"
    raise invalid_field(where, f"does not exist for this dataset: {reason}. Leave it out, or choose another")
