"""Tokens: a steward makes one for a person or program, lists them, and revokes them."""

from typing import Any

from fastapi import Response

from app.http.errors import ApiError
from app.pages.api import part
from app.pages.frame import STEWARDS_ONLY, Cursor, Visit, Visiting, page_router

_SECONDS_PER_DAY = 86_400
_LIFETIMES = {"90 days": 90, "30 days": 30, "1 year": 365, "does not expire": None}  # in days, the usual one first
_ROLES = {
    "analyst": "requests models and statistics of datasets that are granted to them",
    "steward": "manages datasets, budgets, grants and tokens",
    "auditor": "reads ledgers and receipts",
}
_MAX_LISTED = 200

router = page_router("/tokens", STEWARDS_ONLY)


@router.get("")
async def show(visit: Visiting, cursor: Cursor = None) -> Response:
    """Return the list of tokens and the form for a new one."""
    return await _page(visit, cursor=cursor)


@router.post("")
async def create(visit: Visiting) -> Response:
    """Make a token and show its secret, once."""
    values = await visit.form()
    body: dict[str, Any] = {"name": values.get("name", ""), "role": values.get("role", "")}
    if days := _LIFETIMES.get(values.get("lifetime", "")):
        body["lifetime"] = days * _SECONDS_PER_DAY
    try:
        token = (await visit.api.send("POST", "/v1/tokens", json=body)).json()
    except ApiError as error:
        return await _page(visit, values, error)
    return await _page(visit, token=token)


@router.post("/revoke")
async def revoke(visit: Visiting) -> Response:
    """Revoke a token immediately."""
    values = await visit.form()
    error = await visit.rejection("DELETE", f"/v1/tokens/{part(values.get('token', ''))}")
    return visit.go("/tokens") if error is None else await _page(visit, {}, error)


async def _page(
    visit: Visit,
    values: dict[str, str] | None = None,
    error: ApiError | None = None,
    token: dict[str, Any] | None = None,
    cursor: str | None = None,
) -> Response:
    return await visit.page(
        "tokens.html",
        200 if token is None else 201,
        error=error,
        tokens=await visit.api.get("/v1/tokens", limit=_MAX_LISTED, cursor=cursor),
        new_token=token,
        values=values or {},
        roles=_ROLES,
        lifetimes=_LIFETIMES,
    )
