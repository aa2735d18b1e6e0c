"""Public samples: rows that a steward declares to be public, coded like the columns of a dataset.

A sample is stored in the database, apart from the dataset's values, and deleted with them. It is never compared with
the values: the result would reveal something about the data.
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
from app.datasets.store import DatasetRow
from app.http.body import read_body
from app.http.errors import ApiError, responses
from app.http.queries import strict_router
from app.identity.dependencies import Anyone, Manager, Principal, ServiceDatabase, ServiceSettings
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
    "description": "A CSV file in the dataset's dialect, perhaps compressed, or a Parquet file.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.put(
    "",
    summary="Attach a public sample",
    responses=responses(
        "dataset_deleted",
        "data_elsewhere",
        "unreadable_file",
        "unparsed_values",
        "too_large",
        "unsupported_media_type",
        "request_timeout",
    ),
    openapi_extra={"requestBody": _BODY},
)
async def attach(
    request: Request,
    database: ServiceDatabase,
    settings: ServiceSettings,
    principal: Manager,
    dataset_id: DatasetId,
    published: Annotated[Name, Query(description="Source of these rows, such as a URL. Readers with a grant see it.")],
) -> AttachedSample:
    """Attaches public rows, such as another year's published file, instead of those attached before.

    The steward vouches that the rows are public, because every analyst with a grant can get them unchanged. The file is
    read by the dataset's declaration. The dataset's own values are not opened.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/octet-stream":
        raise ApiError("unsupported_media_type", "The body must be application/octet-stream.")
    spec = await run_in_threadpool(_declared, database, dataset_id, principal)
    with request.app.state.services.uploads.slot(principal.id), folders.incoming(settings.home) as folder:
        body = await read_body(request, MOST_SAMPLE_BYTES)
        rows, report = await run_in_threadpool(_read, body, folder / "sample", spec)
    sample = await run_in_threadpool(_put, database, principal, dataset_id, rows, published)
    return AttachedSample(**dict(sample), report=report)


@router.get("", summary="Read a public sample's description", responses=responses("data_elsewhere"))
def read(database: ServiceDatabase, principal: Anyone, dataset_id: DatasetId) -> PublicSample:
    """Returns the steward's description. `GET /v1/datasets/{dataset_id}/twin?source=sample` draws its rows."""
    with database.read() as connection:
        dataset = store.visible(connection, dataset_id, principal)
        if dataset.data == "elsewhere":
            raise ApiError("data_elsewhere")
        sample = described(connection, dataset)
    if sample is None:
        raise _absent()
    return sample


@router.delete("", status_code=204, summary="Delete a public sample")
def delete(database: ServiceDatabase, principal: Manager, dataset_id: DatasetId) -> None:
    """Deletes the rows. Forecasts that were made with them remain."""
    with database.write() as connection:
        store.lock(connection, dataset_id, principal)
        if not connection.execute(sa.delete(samples).where(samples.c.dataset_id == dataset_id)).rowcount:
            raise _absent()


def _absent() -> ApiError:
    return ApiError("not_found", "This dataset has no public sample. A steward can attach one.")


def described(connection: sa.Connection, dataset: DatasetRow) -> PublicSample | None:
    """Return the description of a dataset's sample, or None if it has none."""
    columns = (samples.c.rows, samples.c.published, samples.c.attached_by, samples.c.attached_at)
    row = connection.execute(sa.select(*columns).where(samples.c.dataset_id == dataset.id)).one_or_none()
    return None if row is None else PublicSample(**row._mapping)


def rows_of(connection: sa.Connection, dataset: DatasetRow) -> Sample | None:
    """Return the rows of a dataset's sample, or None if it has none."""
    packed = connection.scalar(sa.select(samples.c.packed).where(samples.c.dataset_id == dataset.id))
    return None if packed is None else Sample(packed, len(dataset.spec.columns))


def _declared(database: Database, dataset_id: str, principal: Principal) -> DatasetSpec:
    with database.read() as connection:
        dataset = store.visible(connection, dataset_id, principal)
    store.refuse_without_values(dataset)
    return dataset.spec


def _read(body: bytes, file: Path, spec: DatasetSpec) -> tuple[Floats, FileReport]:
    """Return the rows of a file, coded by the dataset's declaration, and the report. Raise as an upload does."""
    from app.sources.ingest import Reading, encoded  # late: Arrow, which no start should wait for

    file.write_bytes(body)
    reading, tally = Reading.of(spec, MOST_SAMPLE_BYTES)
    with service.reading(spec):
        reading = replace(reading, most_rows=MOST_SAMPLE_VALUES // len(spec.columns))
        rows = np.concatenate(list(encoded(file, reading)))
    if len(rows) < FEWEST_SAMPLED:
        raise ApiError("unreadable_file", f"The file has too few rows. Attach at least {FEWEST_SAMPLED} rows.")
    return rows, tally.report.model_copy(update={"warnings": []})  # they are about protection; these rows are public


def _put(database: Database, steward: Principal, dataset_id: str, rows: Floats, published: str) -> PublicSample:
    with database.write() as connection:
        store.lock(connection, dataset_id, steward)
        row = store.visible(connection, dataset_id, steward)
        store.refuse_without_values(row)  # the values may have been deleted meanwhile
        connection.execute(sa.delete(samples).where(samples.c.dataset_id == dataset_id))
        origin = {"published": published, "attached_by": steward.name, "attached_at": database.timestamp()}
        content = {"dataset_id": dataset_id, "rows": len(rows), "packed": Sample.of(rows).packed}
        connection.execute(sa.insert(samples).values(**content, **origin))
        sample = described(connection, row)
    assert sample is not None
    return sample
