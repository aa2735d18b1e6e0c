"""A public sample of a dataset: rows that the steward vouches for as public, coded as the dataset's columns are.

It lies in the database, apart from every folder of values, and goes with those. Nothing compares it with them, or asks
whether it is of them: an answer to that would tell of the data.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import sqlalchemy as sa
from fastapi import Query, Request
from fastapi.concurrency import run_in_threadpool

from app.datasets import folders, service, store
from app.datasets.names import DatasetId
from app.datasets.routes import Anyone, Base, Chosen, Manager
from app.datasets.store import DatasetRow
from app.http.body import read_body
from app.http.errors import ApiError, responses
from app.http.queries import strict_router
from app.identity.dependencies import Principal
from app.persistence.session import Database
from app.persistence.tables import samples
from app.sources.twins import Floats, Sample
from purse.wire.base import Name
from purse.wire.datasets import DatasetSpec
from purse.wire.files import FileReport
from purse.wire.twins import FEWEST_SAMPLED, AttachedSample, PublicSample

MOST_SAMPLE_BYTES, MOST_SAMPLE_VALUES = 2**24, 2**18
router = strict_router(prefix="/v1/datasets/{dataset_id}/sample", tags=["datasets"])
_BODY: dict[str, Any] = {
    "required": True,
    "description": "A CSV file in the dataset's dialect, perhaps packed, or Parquet; told apart by content.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.put(
    "",
    summary="Attach a public sample",
    responses=responses(
        "not_found",
        "dataset_deleted",
        "invalid_request",
        "unreadable_file",
        "unparsed_values",
        "too_large",
        "unsupported_media_type",
        "disk_full",
        "request_timeout",
    ),
    openapi_extra={"requestBody": _BODY},
)
async def attach(
    request: Request,
    base: Base,
    chosen: Chosen,
    principal: Manager,
    dataset_id: DatasetId,
    published: Annotated[Name, Query(description="Where these rows were published; whoever may use them is told.")],
) -> AttachedSample:
    """Rows that are public, such as another year's published file, in the place of those that were attached before.

    The steward vouches for that: rows of it are given to every analyst with a grant, as they are. The file is read by
    the dataset's own declaration; its values are compared with nothing, and the dataset's are not opened.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/octet-stream":
        raise ApiError("unsupported_media_type", "The body must be application/octet-stream.")
    spec = await run_in_threadpool(_declared, base, dataset_id, principal)
    with request.app.state.services.uploads.taken(principal.id), folders.incoming(chosen.home) as folder:
        body = await read_body(request, MOST_SAMPLE_BYTES)
        rows, report = await run_in_threadpool(_read, body, folder / "sample", spec)
    told = await run_in_threadpool(_put, base, principal, dataset_id, rows, published)
    return AttachedSample(**dict(told), report=report)


@router.get("", summary="Read what a public sample is", responses=responses("not_found"))
def read(base: Base, principal: Anyone, dataset_id: DatasetId) -> PublicSample:
    """What the steward says of it; its rows are drawn by `GET /v1/datasets/{dataset_id}/twin?source=sample`."""
    with base.read() as connection:
        found = described(connection, store.visible(connection, dataset_id, principal))
    if found is None:
        raise ApiError("not_found", "There is no public sample of this dataset.")
    return found


@router.delete("", status_code=204, summary="Delete a public sample", responses=responses("not_found", "disk_full"))
def delete(base: Base, principal: Manager, dataset_id: DatasetId) -> None:
    """Its rows are gone; what was forecast with them is not taken back."""
    with base.write() as connection:
        store.lock(connection, dataset_id, principal)
        if not connection.execute(sa.delete(samples).where(samples.c.dataset_id == dataset_id)).rowcount:
            raise ApiError("not_found", "There is no public sample of this dataset.")


def described(connection: sa.Connection, dataset: DatasetRow) -> PublicSample | None:
    """What is said of a dataset's sample, if it has one."""
    said = (samples.c.rows, samples.c.published, samples.c.attached_by, samples.c.attached_at)
    row = connection.execute(sa.select(*said).where(samples.c.dataset_id == dataset.id)).one_or_none()
    return None if row is None else PublicSample(**row._mapping)


def rows_of(connection: sa.Connection, dataset: DatasetRow) -> Sample | None:
    """The rows of a dataset's sample, if it has one."""
    packed = connection.scalar(sa.select(samples.c.packed).where(samples.c.dataset_id == dataset.id))
    return None if packed is None else Sample(packed, len(dataset.spec.columns))


def _declared(database: Database, dataset_id: str, principal: Principal) -> DatasetSpec:
    with database.read() as connection:
        found = store.visible(connection, dataset_id, principal)
    if found.data != "stored":
        raise ApiError("dataset_deleted")
    return found.spec


def _read(body: bytes, file: Path, spec: DatasetSpec) -> tuple[Floats, FileReport]:
    """The rows of a file of these bytes, as the dataset's would be coded; `ApiError` as for those."""
    from app.sources.ingest import Reading, encoded  # late: Arrow, which no start should wait for

    file.write_bytes(body)
    reading, tally = Reading.of(spec, MOST_SAMPLE_BYTES)
    with service.reading(spec):
        few = replace(reading, most_rows=MOST_SAMPLE_VALUES // len(spec.columns))
        rows = np.concatenate(list(encoded(file, few)))
    if len(rows) < FEWEST_SAMPLED:
        raise ApiError("unreadable_file", f"A sample has {FEWEST_SAMPLED} rows at least.")
    return rows, tally.report.model_copy(update={"warnings": []})  # they are about protection; these rows are public


def _put(database: Database, steward: Principal, dataset_id: str, rows: Floats, published: str) -> PublicSample:
    with database.write() as connection:
        store.lock(connection, dataset_id, steward)
        row = store.visible(connection, dataset_id, steward)
        if row.data != "stored":  # meanwhile
            raise ApiError("dataset_deleted")
        connection.execute(sa.delete(samples).where(samples.c.dataset_id == dataset_id))
        said = {"published": published, "attached_by": steward.name, "attached_at": database.timestamp()}
        known = {"dataset_id": dataset_id, "rows": len(rows), "packed": Sample.of(rows).packed}
        connection.execute(sa.insert(samples).values(**known, **said))
        told = described(connection, row)
    assert told is not None
    return told
