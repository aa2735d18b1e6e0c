"""Receipts and ledgers, which the visitor's own browser verifies."""

import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from app.http.work import in_turn
from app.pages.frame import Visit, Visiting, page_router
from purse.wire.base import Identifier

ENTRIES_PER_REQUEST = 500
_ENTRIES_PER_PAGE = 50
router = page_router()

Cursor = Annotated[str, Query(pattern="^[0-9]{1,15}$")]


@router.get("/receipts")
async def receipts(visit: Visiting) -> Response:
    """Return the page that verifies a receipt file in the browser."""
    return await visit.page("receipt.html", subject_id=None, document=None, keys=await visit.api.get("/v1/keys"))


@router.get("/jobs/{job_id}/receipt")
async def receipt(visit: Visiting, job_id: Identifier) -> Response:
    """Return a job's receipt, whose signed bytes the browser verifies."""
    return await _receipt(visit, "job", job_id)


@router.get("/sessions/{session_id}/receipt")
async def session_receipt(visit: Visiting, session_id: Identifier) -> Response:
    """Return the receipt of an ended session, whose signed bytes the browser verifies."""
    return await _receipt(visit, "session", session_id)


async def _receipt(visit: Visit, kind: Literal["job", "session"], subject_id: str) -> Response:
    answer = await visit.api.send("GET", f"/v1/{kind}s/{subject_id}/receipt")
    return await visit.page(
        "receipt.html",
        kind=kind,
        subject_id=subject_id,
        document=answer.text,
        receipt=(await in_turn(answer.json))["receipt"],
        keys=await visit.api.get("/v1/keys"),
    )


@router.get("/datasets/{dataset_id}/ledger")
async def ledger(visit: Visiting, dataset_id: Identifier, cursor: Cursor | None = None) -> Response:
    """Return a part of the ledger, newest entry first, and the server's statements, which the browser checks."""
    path = f"/v1/datasets/{dataset_id}"
    head = await visit.api.get(f"{path}/ledger/head")  # read before the entries, which then reach at least this far
    entries_page = await visit.api.get(f"{path}/ledger", cursor=cursor, limit=_ENTRIES_PER_PAGE, order="desc")
    dataset = await visit.api.get(path)
    keys = await visit.api.get("/v1/keys")
    statements = {"head": head, "keys": keys, "budget": dataset["budget"]}
    return await visit.page("ledger.html", dataset=dataset, entries=entries_page, statements=statements)


@router.get("/datasets/{dataset_id}/ledger/entries")
async def entries(visit: Visiting, dataset_id: Identifier, cursor: Cursor = "0") -> Response:
    """Return ledger entries byte for byte as the API returns them, because the page hashes them."""
    query = {"cursor": cursor, "limit": ENTRIES_PER_REQUEST}
    answer = await visit.api.send("GET", f"/v1/datasets/{dataset_id}/ledger", params=query)
    return Response(answer.content, media_type="application/json")


@router.get("/datasets/{dataset_id}/ledger/file")
async def file(visit: Visiting, dataset_id: Identifier) -> Response:
    """Return all entries as a file of JSON lines, which `purse ledger verify` accepts. It is sent part by part."""
    first = await _oldest_entries(visit, dataset_id, "0")  # before the response begins, so that an error is a page
    headers = {"Content-Disposition": f'attachment; filename="{dataset_id}.ledger.jsonl"'}
    return StreamingResponse(_file(visit, dataset_id, first), media_type="application/jsonl", headers=headers)


async def _file(visit: Visit, dataset_id: str, entries_page: dict[str, Any]) -> AsyncGenerator[bytes]:
    """Yield the lines of this page of entries and of all later ones; only one page is in memory."""
    yield await in_turn(_lines, entries_page["items"])
    while (cursor := entries_page["next"]) is not None:
        entries_page = await _oldest_entries(visit, dataset_id, cursor)
        yield await in_turn(_lines, entries_page["items"])


async def _oldest_entries(visit: Visit, dataset_id: str, cursor: str) -> Any:
    return await visit.api.get(f"/v1/datasets/{dataset_id}/ledger", cursor=cursor, limit=ENTRIES_PER_REQUEST)


def _lines(items: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in items)
