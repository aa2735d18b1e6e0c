"""Resumable uploads of large files, by the tus protocol 1.0 (core, creation, expiration, termination)."""

from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.datasets import spool
from app.datasets.spool import Spooled
from app.datasets.upload import blocks
from app.http.dependencies import Locate
from app.http.errors import ApiError, responses
from app.http.queries import strict_router
from app.identity.dependencies import Manager, ServiceSettings, Steward
from app.persistence.clock import stamp
from app.settings import Settings
from purse.wire.base import Identifier, Order, Page
from purse.wire.uploads import UploadStatus

VERSION = "1.0.0"
MEDIA_TYPES = ("application/offset+octet-stream", "application/octet-stream")
_MOST_BYTES = 2**53
_BODY: dict[str, Any] = {  # with the media type that client generators know
    "required": True,
    "description": f"Bytes of the file. The protocol's own type, {MEDIA_TYPES[0]}, is accepted as well.",
    "content": {MEDIA_TYPES[1]: {"schema": {"type": "string", "format": "binary"}}},
}


async def _protocol(request: Request, response: Response) -> AsyncIterator[None]:
    """State the protocol's version in every answer; raise an `ApiError` unsupported_version for another version."""
    response.headers["Tus-Resumable"] = VERSION
    try:
        if request.headers.get("tus-resumable", VERSION) != VERSION:
            raise ApiError("unsupported_version", headers={"Tus-Version": VERSION})
        yield
    except ApiError as error:
        error.headers = {**(error.headers or {}), "Tus-Resumable": VERSION}
        raise


router = strict_router(prefix="/v1/uploads", tags=["datasets"], dependencies=[Depends(_protocol)])


@router.post(
    "",
    status_code=201,
    summary="Begin an upload",
    responses=responses("unsupported_version", "invalid_request", "out_of_range", "too_large", "disk_full"),
)
def begin(
    settings: ServiceSettings,
    principal: Manager,
    response: Response,
    locate: Locate,
    length: Annotated[
        int, Header(alias="Upload-Length", ge=1, le=_MOST_BYTES, description="Size of the file in bytes.")
    ],
) -> UploadStatus:
    """Creates an empty upload. PATCH adds the file's bytes, and `POST /v1/datasets` registers the complete file.

    `Upload-Metadata` is ignored, because a file's name can reveal something about its records.
    """
    upload = spool.begin(settings, principal.id, length)
    locate(f"{router.prefix}/{upload.id}")
    return _status(upload, settings, response)


@router.get("", summary="List uploads", responses=responses("unsupported_version"))
def listing(
    settings: ServiceSettings,
    principal: Steward,
    order: Annotated[Order, Query(description="Order by the last write. `desc` begins with the latest.")] = "desc",
) -> Page[UploadStatus]:
    """Returns the caller's own uploads, all on one page."""
    uploads = sorted(
        spool.owned(settings.home, principal.id), key=lambda upload: upload.written, reverse=order == "desc"
    )
    return Page[UploadStatus](items=[_status(upload, settings) for upload in uploads], next=None)


@router.get("/{upload_id}", summary="Read an upload's offset", responses=responses("unsupported_version"))
def read(
    settings: ServiceSettings,
    principal: Steward,
    response: Response,
    upload_id: Identifier,
) -> UploadStatus:
    """Returns the number of bytes that are safely on disk. HEAD returns it in headers."""
    return _status(spool.find(settings.home, principal.id, upload_id), settings, response)


@router.patch(
    "/{upload_id}",
    status_code=204,
    summary="Continue an upload",
    responses=responses(
        "unsupported_version",
        "offset_mismatch",
        "upload_busy",
        "out_of_range",
        "too_large",
        "unsupported_media_type",
        "request_timeout",
    ),
    openapi_extra={"requestBody": _BODY},
)
async def resume(
    request: Request,
    settings: ServiceSettings,
    principal: Manager,
    response: Response,
    upload_id: Identifier,
    offset: Annotated[
        int,
        Header(
            alias="Upload-Offset", ge=0, le=_MOST_BYTES, description="Position in the file at which the body begins."
        ),
    ],
) -> None:
    """Appends the body at the end of the upload. If the request breaks off, the received bytes are kept."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() not in MEDIA_TYPES:
        raise ApiError("unsupported_media_type", f"The Content-Type must be {' or '.join(MEDIA_TYPES)}.")
    with request.app.state.services.uploads.slot(principal.id):
        upload = await run_in_threadpool(spool.find, settings.home, principal.id, upload_id)
        if offset != upload.offset:  # before a byte is read
            raise ApiError("offset_mismatch")
        try:
            async for block in blocks(request):
                offset = await run_in_threadpool(spool.append, upload, offset, block)
        finally:
            upload = await run_in_threadpool(spool.find, settings.home, principal.id, upload_id)
    _status(upload, settings, response)


@router.delete(
    "/{upload_id}",
    status_code=204,
    summary="Delete an upload",
    responses=responses("unsupported_version", "upload_busy"),
)
def end(settings: ServiceSettings, principal: Manager, upload_id: Identifier) -> None:
    """Deletes the upload from the disk."""
    spool.remove(spool.find(settings.home, principal.id, upload_id))


def _status(upload: Spooled, settings: Settings, response: Response | None = None) -> UploadStatus:
    expires = upload.written + settings.upload_seconds
    if response is not None:
        response.headers["Upload-Offset"] = str(upload.offset)
        response.headers["Upload-Length"] = str(upload.length)
        response.headers["Upload-Expires"] = formatdate(expires, usegmt=True)
    return UploadStatus(id=upload.id, length=upload.length, offset=upload.offset, expires_at=stamp(expires))
