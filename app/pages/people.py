"""Who knows of a dataset, and what each may spend of its budget: for stewards."""

from typing import Any

from fastapi import Depends, Response
from fastapi.responses import HTMLResponse

from app.http.errors import ApiError
from app.http.queries import strict_router
from app.pages.api import part
from app.pages.forms import Forms, document
from app.pages.frame import PageRoute, Visit, Visiting, stewards
from app.pages.session import PREFIX
from purse.wire.base import Identifier

router = strict_router(
    prefix=f"{PREFIX}/datasets/{{dataset_id}}/people",
    include_in_schema=False,
    route_class=PageRoute,
    default_response_class=HTMLResponse,
    dependencies=[Depends(stewards)],
)


@router.get("")
async def show(visit: Visiting, dataset_id: Identifier) -> Response:
    """Grants and allotments, and forms for more."""
    return await _page(visit, dataset_id, {})


@router.post("/grants")
async def grant(visit: Visiting, dataset_id: Identifier) -> Response:
    """From now on the analyst sees the dataset and spends on it."""
    said = await visit.form()
    return await _done(visit, dataset_id, said, "PUT", f"grants/{part(said.get('analyst', ''))}")


@router.post("/grants/revoke")
async def revoke(visit: Visiting, dataset_id: Identifier) -> Response:
    """From now on not."""
    said = await visit.form()
    return await _done(visit, dataset_id, said, "DELETE", f"grants/{part(said.get('analyst', ''))}")


@router.post("/allotments")
async def allot(visit: Visiting, dataset_id: Identifier) -> Response:
    """From now on the analyst's jobs together spend at most this."""
    said = await visit.form()
    asked = document(_forms(visit).fields("AllotmentRequest", said, {}))
    return await _done(visit, dataset_id, said, "PUT", f"allotments/{part(said.get('analyst', ''))}", json=asked)


@router.post("/allotments/revoke")
async def take_back(visit: Visiting, dataset_id: Identifier) -> Response:
    """From now on there is no such limit."""
    said = await visit.form()
    return await _done(visit, dataset_id, said, "DELETE", f"allotments/{part(said.get('analyst', ''))}")


def _forms(visit: Visit) -> Forms:
    return Forms(visit.request.app.openapi()["components"]["schemas"])


async def _done(visit: Visit, dataset_id: str, said: dict[str, str], method: str, path: str, **body: Any) -> Response:
    """The page again, with what was refused on it."""
    try:
        await visit.api.send(method, f"/v1/datasets/{dataset_id}/{path}", **body)
    except ApiError as error:
        return await _page(visit, dataset_id, said, error)
    return visit.go(f"/datasets/{dataset_id}/people")


async def _page(visit: Visit, dataset_id: str, said: dict[str, str], error: ApiError | None = None) -> Response:
    place = f"/v1/datasets/{dataset_id}"
    return await visit.page(
        "people.html",
        200 if error is None else error.status,
        dataset=await visit.api.get(place),
        grants=await visit.api.get(f"{place}/grants", limit=500),
        allotments=await visit.api.get(f"{place}/allotments", limit=500),
        fields=_forms(visit).fields("AllotmentRequest", said, {}),
        granted="" if "share" in said else said.get("analyst", ""),
        allotted=said.get("analyst", "") if "share" in said else "",
        problem=None if error is None else error.details(),
    )
