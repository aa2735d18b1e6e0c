"""What the visitor's own browser checks: a receipt, a job's or a file's, and a dataset's whole ledger."""

from typing import Annotated

from fastapi import Query, Response
from fastapi.responses import HTMLResponse

from app.http.queries import strict_router
from app.pages.frame import PageRoute, Visiting
from app.pages.session import PREFIX
from purse.wire.base import Identifier

_SHOWN, _FETCHED = 50, 500  # entries: on a page, and at once for what follows them
router = strict_router(
    prefix=PREFIX, include_in_schema=False, route_class=PageRoute, default_response_class=HTMLResponse
)

Cursor = Annotated[str, Query(pattern="^[0-9]{1,15}$")]


@router.get("/receipts")
async def receipts(visit: Visiting) -> Response:
    """Checks what is dropped on it."""
    return await visit.page("receipt.html", job=None, document=None, keys=await visit.api.get("/v1/keys"))


@router.get("/jobs/{job_id}/receipt")
async def receipt(visit: Visiting, job_id: Identifier) -> Response:
    """A job's receipt, as it was signed."""
    document = (await visit.api.send("GET", f"/v1/jobs/{job_id}/receipt")).text
    service, keys = visit.root.removesuffix(PREFIX), await visit.api.get("/v1/keys")
    return await visit.page("receipt.html", job=job_id, document=document, keys=keys, service=service)


@router.get("/datasets/{dataset_id}/ledger")
async def ledger(visit: Visiting, dataset_id: Identifier, cursor: Cursor | None = None) -> Response:
    """A part of the entries, the newest first, and what the server says of all."""
    path = f"/v1/datasets/{dataset_id}"
    head = await visit.api.get(f"{path}/ledger/head")  # before the entries: they go as far at least
    shown = await visit.api.get(f"{path}/ledger", cursor=cursor, limit=_SHOWN, order="desc")
    dataset, keys = await visit.api.get(path), await visit.api.get("/v1/keys")
    said = {"head": head, "keys": keys, "budget": dataset["budget"]}
    return await visit.page("ledger.html", dataset=dataset, shown=shown, said=said)


@router.get("/datasets/{dataset_id}/ledger/entries")
async def entries(visit: Visiting, dataset_id: Identifier, cursor: Cursor = "0") -> Response:
    """Entries from the API, byte for byte: the page reads them more strictly than we would write them."""
    asked = {"cursor": cursor, "limit": _FETCHED}
    answer = await visit.api.send("GET", f"/v1/datasets/{dataset_id}/ledger", params=asked)
    return Response(answer.content, media_type="application/json")
