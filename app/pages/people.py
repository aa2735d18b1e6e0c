"""Grants and allotments of a dataset, for stewards."""

from fastapi import Response

from app.http.errors import ApiError
from app.pages.api import part
from app.pages.forms import document, with_defaults
from app.pages.frame import STEWARDS_ONLY, Visit, Visiting, page_router
from purse.wire.base import Identifier

_MAX_NAMES = 200  # of analysts, which the form suggests
_DEFAULTS = {"share": "or an epsilon below", "epsilon": "or a share above", "delta": "the budget's delta"}

router = page_router("/datasets/{dataset_id}/people", STEWARDS_ONLY)


@router.get("")
async def show(visit: Visiting, dataset_id: Identifier) -> Response:
    """Return the grants and allotments, and forms for new ones."""
    return await _page(visit, dataset_id, {})


@router.post("/grants")
async def grant(visit: Visiting, dataset_id: Identifier) -> Response:
    """Grant the dataset to an analyst, who can then see it and spend its budget."""
    return await _change(visit, dataset_id, "PUT", "grants")


@router.post("/grants/revoke")
async def revoke(visit: Visiting, dataset_id: Identifier) -> Response:
    """Revoke a grant."""
    return await _change(visit, dataset_id, "DELETE", "grants")


@router.post("/allotments")
async def allot(visit: Visiting, dataset_id: Identifier) -> Response:
    """Limit what all jobs of an analyst may spend together."""
    return await _change(visit, dataset_id, "PUT", "allotments", schema="AllotmentRequest")


@router.post("/allotments/revoke")
async def remove_allotment(visit: Visiting, dataset_id: Identifier) -> Response:
    """Remove an analyst's limit."""
    return await _change(visit, dataset_id, "DELETE", "allotments")


async def _change(visit: Visit, dataset_id: str, method: str, kind: str, schema: str | None = None) -> Response:
    """Send the change for the form's analyst to the API, and return the page with the reason if the API rejects it.

    Parameters
    ----------
    schema : schema of the request's body, which the form fills in; None without a body
    """
    values = await visit.form()
    path = f"/v1/datasets/{dataset_id}/{kind}/{part(values.get('analyst', ''))}"
    body = {} if schema is None else {"json": document(visit.forms.fields(schema, values, {}))}
    error = await visit.rejection(method, path, **body)
    if error is not None:
        return await _page(visit, dataset_id, values, error)
    return visit.go(f"/datasets/{dataset_id}/people")


async def _page(visit: Visit, dataset_id: str, values: dict[str, str], error: ApiError | None = None) -> Response:
    path = f"/v1/datasets/{dataset_id}"
    tokens = await visit.api.get("/v1/tokens", role="analyst", limit=_MAX_NAMES)
    return await visit.page(
        "people.html",
        error=error,
        dataset=await visit.api.get(path),
        grants=await visit.api.get(f"{path}/grants", limit=500),
        allotments=await visit.api.get(f"{path}/allotments", limit=500),
        fields=with_defaults(visit.forms.fields("AllotmentRequest", values, {}), _DEFAULTS),
        analysts=sorted({token["name"] for token in tokens["items"]}),
        grant_analyst="" if "share" in values else values.get("analyst", ""),
        allotment_analyst=values.get("analyst", "") if "share" in values else "",
    )
