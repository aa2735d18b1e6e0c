"""Routes that register and describe datasets."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from fastapi.concurrency import contextmanager_in_threadpool

from accounting.records.chain import EntryKind
from app.datasets import folders, imports, service, spool
from app.datasets.budgets import BudgetAnswers
from app.datasets.names import DatasetId
from app.datasets.store import DatasetFilters
from app.datasets.upload import Upload, receive
from app.http import conditional
from app.http.dependencies import Locate, ServicePart
from app.http.errors import responses
from app.http.lists import NUMBER, Paging, paging_parameters
from app.http.queries import strict_router
from app.identity.dependencies import Anyone, Auditor, Manager, ServiceDatabase, ServiceSettings
from app.ledger import service as ledgers
from app.ledger.routes import Keys
from purse.wire.base import Name, Page
from purse.wire.budgets import BudgetStatus
from purse.wire.datasets import Dataset, Registered
from purse.wire.receipts import LedgerEntry, LedgerHead

UPLOADS_EACH, UPLOADS = 4, 16  # received at a time, of one steward and of all: each has a file on the disk
router = strict_router(prefix="/v1/datasets", tags=["datasets"])

_FORM = {
    "type": "object",
    "required": ["spec"],
    "minProperties": 1,
    "maxProperties": 2,
    "additionalProperties": False,
    "properties": {
        "spec": {
            "$ref": "#/components/schemas/DatasetSpec",
            "description": "The declaration, as JSON: at most 4 MiB.",
        },
        "file": {
            "type": "string",
            "format": "binary",
            "description": "CSV in the spec's dialect, perhaps packed by gzip or Zstandard, or Parquet. The content "
            "decides which. The file's name is ignored. Leave it out if the spec's `data` is elsewhere.",
        },
        "upload": {
            "type": "string",
            "pattern": "^[a-z0-9_]{1,64}$",
            "description": "Instead of `file`: the id of a complete upload.",
        },
        "path": {
            "type": "string",
            "maxLength": imports.MOST_PATH_CHARACTERS,
            "description": "Instead of `file`: the path of a file below the server's PURSE_IMPORT_URL, if it is set.",
        },
    },
}


async def uploaded(request: Request, settings: ServiceSettings, principal: Manager) -> AsyncIterator[Upload]:
    """Receive the upload into a folder that is removed after the request. A steward's token is checked first."""
    with request.app.state.services.uploads.slot(principal.id), folders.incoming(settings.home) as folder:
        file, most_bytes = folder / "upload", settings.max_upload_bytes
        spec, part = await receive(request, file, most_bytes)
        if "upload" in part:
            complete = spool.complete(settings.home, principal.id, part["upload"])
            async with contextmanager_in_threadpool(complete) as spooled:
                yield Upload(spec, spooled, folder, most_bytes)
        elif "path" in part:
            imported = imports.copy_of(settings, principal.id, part["path"], file)
            async with contextmanager_in_threadpool(imported) as copy:
                yield Upload(spec, copy, folder, settings.max_import_bytes)
        else:
            yield Upload(spec, file if part else None, folder, most_bytes)


@router.post(
    "",
    status_code=201,
    summary="Register a dataset",
    responses=responses(
        "invalid_request",
        "out_of_range",
        "unreadable_file",
        "unparsed_values",
        "name_taken",
        "duplicate_dataset",
        "family_mismatch",
        "too_large",
        "unsupported_media_type",
        "not_found",
        "upload_incomplete",
        "upload_busy",
        "disk_full",
        "storage_unavailable",
        "request_timeout",
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": _FORM, "encoding": {"spec": {"contentType": "application/json"}}},
            },
        }
    },
)
def create(
    database: ServiceDatabase,
    settings: ServiceSettings,
    principal: Manager,
    upload: Annotated[Upload, Depends(uploaded)],
    locate: Locate,
) -> Registered:
    """Reads the declared columns, clamps and encodes them by the declaration, and opens the budget.

    The file is part of the request, a complete upload, or a file that the server copies from the operator's storage.
    An upload remains until the dataset is registered, so that a refused spec can be corrected. A file that cannot be
    read completely is refused. Values that are missing, do not parse or lie outside the bounds become the declared
    default or bound. Only this answer's `report` counts them. A file with more of them than `max_unparsed` or
    `max_clamped` allows is refused (`unparsed_values`, with the same report). The same values cannot be registered
    twice, except in one family, whose datasets share one budget.

    If the spec's `data` is "elsewhere", send the spec alone. The dataset then has a budget, a ledger and a public
    number of records, but no values. Sessions and outside charges spend its budget; nothing is computed from it here.
    """
    registered = service.create(database, settings, principal, upload)
    locate(f"{router.prefix}/{registered.id}")
    return registered


@router.get("", summary="List datasets")
def listing(
    database: ServiceDatabase,
    principal: Anyone,
    paging: Annotated[Paging, Depends(paging_parameters(usual=50, largest=200))],
    filters: Annotated[DatasetFilters, Depends()],
    columns: Annotated[
        bool,
        Query(description="If false, `columns` is empty. Lists of categories can be long."),
    ] = True,
) -> Page[Dataset]:
    """Returns public facts, ordered by the time of registration. Datasets that are damaged are left out."""
    return service.page(database, principal, paging, filters, with_columns=columns)


@router.get("/{dataset_id}", summary="Read a dataset", responses=responses("dataset_damaged"))
def read(database: ServiceDatabase, principal: Anyone, dataset_id: DatasetId) -> Dataset:
    """Returns the declaration, n, and the state of the budget. Only n comes from the data."""
    return service.get(database, dataset_id, principal)


@router.get(
    "/{dataset_id}/budget",
    response_model=BudgetStatus,
    summary="Read a dataset's budget",
    responses=responses("dataset_damaged") | conditional.RESPONSES,
)
async def budget(
    cache: Annotated[BudgetAnswers, Depends(ServicePart("answers"))],
    principal: Anyone,
    dataset_id: DatasetId,
    if_none_match: conditional.IfNoneMatch = None,
) -> Response:
    """Returns what is spent and what remains. Analysts see the total and their own part. Stewards and auditors see all.

    With the `ETag` of an earlier answer as `If-None-Match`, the answer is a 304 until the budget changes.
    """
    return conditional.respond(await cache.budget(dataset_id, principal), if_none_match)


@router.get("/{dataset_id}/ledger", summary="Read a dataset's ledger")
def ledger(
    database: ServiceDatabase,
    _principal: Auditor,
    dataset_id: DatasetId,
    paging: Annotated[Paging, Depends(paging_parameters(NUMBER, first="asc"))],
    analyst: Annotated[
        Name | None, Query(description="Only entries about this analyst's jobs and sessions, by name or identity id.")
    ] = None,
    kind: Annotated[EntryKind | None, Query(description="Only entries of this kind.")] = None,
) -> Page[LedgerEntry]:
    """Return every charge, refund and release as a hash chain that anyone can check, from its first entry on.

    A cursor is a sequence number. To verify the chain, read all its entries without `analyst` and `kind`.
    """
    return ledgers.page(database, dataset_id, paging, analyst, kind)


@router.get("/{dataset_id}/ledger/head", summary="Read a ledger's head")
def head(database: ServiceDatabase, signing: Keys, principal: Anyone, dataset_id: DatasetId) -> LedgerHead:
    """Returns the signed number and hash of the newest entry. Analysts get those of their own newest release.

    Keep it on another machine: a ledger that lacks this entry later was truncated or rewritten.
    """
    return service.head(database, signing, dataset_id, principal)
