"""The first page, the list of datasets, and one dataset."""

import time
from collections import Counter
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from app.http.errors import NO_ROUTE, ApiError
from app.http.handlers import respond
from app.http.queries import strict_router
from app.http.work import in_turn
from app.pages import charts
from app.pages.frame import Cursor, PageRoute, Passing, Visiting
from app.pages.session import PREFIX
from purse.wire.base import Identifier
from purse.wire.datasets import listed_order

router = strict_router(include_in_schema=False, route_class=PageRoute, default_response_class=HTMLResponse)
fallback = APIRouter(include_in_schema=False, route_class=PageRoute, default_response_class=HTMLResponse)
"""All other addresses. Included after every other router."""

_MOST_COLUMNS = 300  # shown on a dataset's page


@router.get("/")
def root(visit: Passing) -> Response:
    """Redirect a browser to the pages. A program gets 404."""
    if "text/html" not in visit.request.headers.get("accept", ""):
        return respond(ApiError("not_found", NO_ROUTE))
    return visit.go("")


@router.get(PREFIX)
async def datasets(visit: Visiting, cursor: Cursor = None) -> Response:
    """Return the datasets that the visitor may see. A holdout set follows its dataset."""
    listed = await visit.api.get("/v1/datasets", cursor=cursor)
    order = listed_order([(each["id"], each["holdout_of"]) for each in listed["items"]])
    listed["items"] = [listed["items"][at] for at in order]
    return await visit.page("datasets.html", datasets=listed)


@router.get(f"{PREFIX}/datasets/{{dataset_id}}")
async def dataset(visit: Visiting, dataset_id: Identifier) -> Response:
    """Return a dataset's public facts, its budget, and the visitor's jobs on it by method."""
    public = await visit.api.get(f"/v1/datasets/{dataset_id}")
    whole = public["holdout_of"] and await visit.api.get(f"/v1/datasets/{public['holdout_of']}")
    jobs = await visit.api.get("/v1/jobs", dataset=dataset_id, limit=500)
    charged = [job for job in jobs["items"] if job["state"] != "cancelled" or job["started_at"] is not None]
    analysts = [each["analyst"] for each in public["budget"]["analysts"]]
    return await visit.page(
        "dataset.html",
        dataset=public,
        whole=whole,
        jobs=jobs,
        charged=charged,
        methods=await in_turn(_by_method, charged),
        chart=None if jobs["next"] else await in_turn(charts.spending, charged[::-1], time.time(), analysts),
        most_columns=_MOST_COLUMNS,
    )


@router.get(f"{PREFIX}/glossary")
async def glossary(visit: Visiting) -> Response:
    """Return short explanations of the technical terms on the pages."""
    return await visit.page("glossary.html")


@fallback.get(f"{PREFIX}/{{path:path}}")
async def nowhere(visit: Visiting) -> Response:
    """Return 404 as a page, or as problem details for a program."""
    error = ApiError("not_found", "No page has this address. Check it for a typing error, or start from the datasets.")
    if "text/html" not in visit.request.headers.get("accept", ""):
        return respond(error)
    raise error


def _by_method(charged: list[dict[str, Any]]) -> list[tuple[str, int, float]]:
    """Return the number of charged jobs by method and the share that they use now, the largest share first."""
    count = Counter[str]()
    share = Counter[str]()
    for job in charged:
        name = job["quote"]["method"]["name"]
        count[name] += 1
        share[name] += job["share"] or 0
    return [(name, count[name], total) for name, total in share.most_common()]
