"""Large files in as many requests as it takes, by the tus protocol 1.0 (core, creation, expiration, termination)."""

from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.datasets import spool
from app.datasets.spool import Spooled
from app.datasets.upload import blocks
from app.http.errors import ApiError, responses
from app.http.location import Locate
from app.http.queries import strict_router
from app.identity.dependencies import Principal, require, settings
from app.persistence.clock import stamp
from app.settings import Settings
from purse.wire.base import Identifier, Order, Page
from purse.wire.uploads import UploadStatus

VERSION = "1.0.0"
MEDIA_TYPES = ("application/offset+octet-stream", "application/octet-stream")
_MOST = 2**53
_BODY: dict[str, Any] = {  # by the name that generators of clients know
    "required": True,
    "description": f"Bytes of the file; {MEDIA_TYPES[0]}, as the protocol has it, is taken as well.",
    "content": {MEDIA_TYPES[1]: {"schema": {"type": "string", "format": "binary"}}},
}


async def _spoken(request: Request, response: Response) -> AsyncIterator[None]:
    """The protocol's version, in every answer; `ApiError` unsupported_version of a request that speaks another one."""
    response.headers["Tus-Resumable"] = VERSION
    try:
        if request.headers.get("tus-resumable", VERSION) != VERSION:
            raise ApiError("unsupported_version", headers={"Tus-Version": VERSION})
        yield
    except ApiError as error:
        error.headers = {**(error.headers or {}), "Tus-Resumable": VERSION}
        raise


router = strict_router(prefix="/v1/uploads", tags=["datasets"], dependencies=[Depends(_spoken)])
Chosen = Annotated[Settings, Depends(settings)]
Owner = Annotated[Principal, Depends(require("steward", scope="manage"))]


@router.post(
    "",
    status_code=201,
    summary="Begin an upload",
    responses=responses("unsupported_version", "invalid_request", "out_of_range", "too_large", "disk_full"),
)
def begin(
    chosen: Chosen,
    principal: Owner,
    response: Response,
    locate: Locate,
    length: Annotated[int, Header(alias="Upload-Length", ge=1, le=_MOST, description="The bytes of the whole file.")],
) -> UploadStatus:
    """A place for a file, which arrives by PATCH and becomes a dataset by `POST /v1/datasets`.

    What is sent as `Upload-Metadata` is ignored: a file's name may tell of those in it.
    """
    made = spool.begin(chosen, principal.id, length)
    locate(f"{router.prefix}/{made.id}")
    return _status(made, chosen, response)


@router.get("", summary="List uploads", responses=responses("unsupported_version"))
def listing(
    chosen: Chosen,
    principal: Annotated[Principal, Depends(require("steward"))],
    order: Annotated[Order, Query(description="`desc` has the one written last first.")] = "desc",
) -> Page[UploadStatus]:
    """The caller's own, all on one page: there are never more than a few."""
    found = sorted(spool.mine(chosen.home, principal.id), key=lambda upload: upload.written, reverse=order == "desc")
    return Page[UploadStatus](items=[_status(upload, chosen) for upload in found], next=None)


@router.get("/{upload_id}", summary="Read an upload's offset", responses=responses("unsupported_version", "not_found"))
def read(
    chosen: Chosen,
    principal: Annotated[Principal, Depends(require("steward"))],
    response: Response,
    upload_id: Identifier,
) -> UploadStatus:
    """The offset counts what is on the disk, whatever then happens to the server. HEAD says it in headers."""
    return _status(spool.find(chosen.home, principal.id, upload_id), chosen, response)


@router.patch(
    "/{upload_id}",
    status_code=204,
    summary="Go on with an upload",
    responses=responses(
        "unsupported_version",
        "not_found",
        "offset_mismatch",
        "upload_busy",
        "out_of_range",
        "too_large",
        "unsupported_media_type",
        "disk_full",
        "request_timeout",
    ),
    openapi_extra={"requestBody": _BODY},
)
async def go_on(
    request: Request,
    chosen: Chosen,
    principal: Owner,
    response: Response,
    upload_id: Identifier,
    offset: Annotated[
        int, Header(alias="Upload-Offset", ge=0, le=_MOST, description="Where in the file the body begins.")
    ],
) -> None:
    """Writes the body where the upload ends, and nowhere else. Of one that breaks off, what has come is kept."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() not in MEDIA_TYPES:
        raise ApiError("unsupported_media_type", f"The body must be {MEDIA_TYPES[0]}.")
    with request.app.state.services.uploads.taken(principal.id):
        upload = await run_in_threadpool(spool.find, chosen.home, principal.id, upload_id)
        if offset != upload.offset:  # before a byte is read
            raise ApiError("offset_mismatch")
        try:
            async for block in blocks(request):
                offset = await run_in_threadpool(spool.append, upload, offset, block)
        finally:
            upload = await run_in_threadpool(spool.find, chosen.home, principal.id, upload_id)
    _status(upload, chosen, response)


@router.delete(
    "/{upload_id}",
    status_code=204,
    summary="Delete an upload",
    responses=responses("unsupported_version", "not_found", "upload_busy"),
)
def end(chosen: Chosen, principal: Owner, upload_id: Identifier) -> None:
    """It is gone from the disk."""
    spool.remove(spool.find(chosen.home, principal.id, upload_id))


def _status(upload: Spooled, chosen: Settings, response: Response | None = None) -> UploadStatus:
    expires = upload.written + chosen.upload_seconds
    if response is not None:
        response.headers["Upload-Offset"], response.headers["Upload-Length"] = str(upload.offset), str(upload.length)
        response.headers["Upload-Expires"] = formatdate(expires, usegmt=True)
    return UploadStatus(id=upload.id, length=upload.length, offset=upload.offset, expires_at=stamp(expires))
