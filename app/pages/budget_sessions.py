"""Sessions: the list of budget reserved for programs elsewhere, and one session with its plan and its end."""

from fastapi import Response

from app.pages.frame import Cursor, Visiting, page_router
from purse.wire.base import Identifier

router = page_router("/sessions")


@router.get("")
async def listing(visit: Visiting, cursor: Cursor = None, dataset: Identifier | None = None) -> Response:
    """Return the sessions that the visitor may see, the newest first."""
    sessions = await visit.api.get("/v1/sessions", cursor=cursor, dataset=dataset)
    return await visit.page("sessions.html", sessions=sessions, dataset=dataset)


@router.get("/{session_id}")
async def show(visit: Visiting, session_id: Identifier) -> Response:
    """Return one session: its plan, the recorded answers, and its charge."""
    return await visit.page("session.html", session=await visit.api.get(f"/v1/sessions/{session_id}"))


@router.post("/{session_id}/close")
async def close(visit: Visiting, session_id: Identifier) -> Response:
    """Close a session. Its unused part is refunded if its rule allows this."""
    await visit.api.send("POST", f"/v1/sessions/{session_id}/close")
    return visit.go(f"/sessions/{session_id}")


@router.get("/{session_id}/files/receipt")
async def download(visit: Visiting, session_id: Identifier) -> Response:
    """Return the receipt of an ended session as a file, byte for byte as the API returns it."""
    return await visit.download(f"/v1/sessions/{session_id}/receipt", f"{session_id}.receipt.json")
