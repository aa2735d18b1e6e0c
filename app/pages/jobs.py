"""Jobs: a form made from the schema, its price while it is filled in, and what becomes of it."""

import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from fastapi.responses import HTMLResponse

from app.http.errors import ApiError
from app.http.queries import strict_router
from app.http.work import in_turn
from app.pages import releases
from app.pages.api import part as named
from app.pages.forms import Field, Forms, document, numbers, without
from app.pages.frame import PageRoute, Visit, Visiting
from app.pages.session import PREFIX
from purse.wire.base import Identifier

router = strict_router(
    prefix=PREFIX, include_in_schema=False, route_class=PageRoute, default_response_class=HTMLResponse
)

Kind = Literal["model", "tuning", "statistic", "evaluation"]
AskedKind = Annotated[Kind, Query()]
Cursor = Annotated[str | None, Query(max_length=64)]
_SCHEMAS: dict[Kind, str] = {
    "model": "JobRequest",
    "tuning": "TuningRequest",
    "statistic": "StatisticRequest",
    "evaluation": "EvaluationRequest",
}
_FIRST = ("model", "target", "positive", "features", "columns", "method", "candidates", "repeats", "privacy")
_LISTED = {"candidates.0.method.name": "", "candidates.1.method.name": ""}  # a tuning begins with two
_OVER = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A form for a job on one dataset, as far as it is filled in; `tried` is what a forecast takes beside it."""

    visit: Visit
    dataset: dict[str, Any]
    kind: Kind
    fields: list[Field]
    tried: list[Field]

    @classmethod
    async def of(cls, visit: Visit, dataset_id: str, kind: Kind, filled: dict[str, str]) -> "Sheet":
        """Return the form of the schema over the dataset's columns, with the values that were filled in."""
        dataset = await visit.api.get(f"/v1/datasets/{dataset_id}")
        return await in_turn(cls._filled, visit, dataset, kind, filled)

    @classmethod
    def _filled(cls, visit: Visit, dataset: dict[str, Any], kind: Kind, filled: dict[str, str]) -> "Sheet":
        names = [column["name"] for column in dataset["columns"]]
        options = {"target": names, "features": names, "columns": names}
        target = next((column for column in dataset["columns"] if column["name"] == filled.get("target")), None)
        if target is not None and target["type"] == "category":
            options["positive"] = target["categories"]
        forms = Forms(visit.request.app.openapi()["components"]["schemas"])
        tried = forms.fields("ForecastRequest", filled, {}, forms.schemas["JobRequest"]["properties"])
        return cls(visit, dataset, kind, forms.fields(_SCHEMAS[kind], filled, options, ("dataset",)), tried)

    @property
    def document(self) -> dict[str, Any]:
        """The request that it comes to."""
        of = {} if self.kind == "evaluation" else {"dataset": self.dataset["id"]}
        return of | document(self.fields)

    async def submit(self, key: str) -> str:
        """The id of the job that it becomes."""
        body, headers = self.document, {b"Idempotency-Key": key.encode()}
        place = {"model": "/v1/jobs", "statistic": "/v1/statistics", "tuning": "/v1/tunings"}.get(self.kind)
        if place is None:
            place = f"/v1/models/{named(str(body.pop('model', '')))}/evaluations"
        return str((await self.visit.api.send("POST", place, json=body, headers=headers)).json()["id"])

    async def page(self, template: str, status: int = 200, key: str | None = None, **context: Any) -> HTMLResponse:
        """The form, or a part of it; `key` is that of a request that may have been done, else a fresh one."""
        return await self.visit.page(
            template,
            status,
            dataset=self.dataset,
            kind=self.kind,
            first=[field for field in self.fields if field.name in _FIRST],
            more=[field for field in self.fields if field.name not in _FIRST],
            tried=self.tried,
            key=key or str(uuid.uuid4()),
            **context,
        )


@router.get("/datasets/{dataset_id}/new")
async def new(
    visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model", model: Identifier | None = None
) -> Response:
    """An empty form; of an evaluation with the job that released the model, on the kept-out part of its dataset."""
    sheet = await Sheet.of(visit, dataset_id, kind, {"privacy.epsilon": "0.5", "model": model or ""} | _LISTED)
    return await sheet.page("job_form.html", problem=None)


@router.post("/datasets/{dataset_id}/fields")
async def fields(visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model") -> Response:
    """The form again, with the fields of what was chosen; of a list one more or one less."""
    said = await visit.form()
    step, _, place = said.pop("step", "").partition(":")
    if step == "add":
        said[f"{place}.{max(numbers(said, place), default=-1) + 1}.method.name"] = ""
    if step == "remove":
        said = without(said, place)
    return await (await Sheet.of(visit, dataset_id, kind, said)).page("job_fields.html")


@router.post("/datasets/{dataset_id}/quote")
async def quote(visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model") -> Response:
    """The price of what is filled in, or what is still to be said."""
    sheet = await Sheet.of(visit, dataset_id, kind, await visit.form())
    try:
        priced = (await visit.api.send("POST", "/v1/quotes", json=sheet.document)).json()
    except ApiError as error:
        return await sheet.page("quote.html", quote=None, problem=error.details())
    return await sheet.page("quote.html", quote=priced, problem=None)


@router.post("/datasets/{dataset_id}/forecast")
async def forecast(visit: Visiting, dataset_id: Identifier) -> Response:
    """What accuracy to expect of the model at which epsilon, tried on a public twin; touches no data."""
    sheet = await Sheet.of(visit, dataset_id, "model", await visit.form())
    asked = sheet.document | document(sheet.tried)
    asked["privacy"] = {name: value for name, value in asked["privacy"].items() if name == "delta"}
    try:
        told = (await visit.api.send("POST", "/v1/forecasts", json=asked)).json()
    except ApiError as error:
        return await sheet.page("forecast.html", forecast=None, problem=error.details())
    return await sheet.page("forecast.html", forecast=told, problem=None)


@router.post("/datasets/{dataset_id}/jobs")
async def submit(visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model") -> Response:
    """Reserves the budget and queues the job; the same form sent twice is one job."""
    filled = await visit.form()
    sheet = await Sheet.of(visit, dataset_id, kind, filled)
    key = filled.get("key") or str(uuid.uuid4())
    try:
        job = await sheet.submit(key)
    except ApiError as error:
        kept = None if error.code == "idempotency_conflict" else key
        return await sheet.page("job_form.html", error.status, kept, problem=error.details())
    return visit.go(f"/jobs/{job}")


@router.get("/jobs")
async def listing(visit: Visiting, cursor: Cursor = None, dataset: Identifier | None = None) -> Response:
    """The visitor's jobs, the newest first; a steward's and an auditor's are everybody's."""
    found = await visit.api.get("/v1/jobs", cursor=cursor, dataset=dataset)
    return await visit.page("jobs.html", found=found, dataset=dataset)


@router.get("/jobs/{job_id}")
async def show(visit: Visiting, job_id: Identifier) -> Response:
    """One job: its state, its price, and what it released."""
    return await visit.page("job.html", **await _known(visit, job_id))


@router.get("/jobs/{job_id}/part")
async def part(visit: Visiting, job_id: Identifier) -> Response:
    """The same without its frame, for a page that is open."""
    return await visit.page("job_part.html", **await _known(visit, job_id))


@router.post("/jobs/{job_id}/cancel")
async def cancel(visit: Visiting, job_id: Identifier) -> Response:
    """Cancels it; refunded only before it started."""
    await visit.api.send("DELETE", f"/v1/jobs/{job_id}")
    return visit.go(f"/jobs/{job_id}")


@router.get("/jobs/{job_id}/files/{name}")
async def download(
    visit: Visiting, job_id: Identifier, name: Literal["model", "statistic", "profile", "evaluation", "receipt"]
) -> Response:
    """A release or its receipt, byte for byte as the interface gives it."""
    found = await visit.api.send("GET", f"/v1/jobs/{job_id}/{name}")
    headers = {"Content-Disposition": f'attachment; filename="{job_id}.{name}.json"'}
    return Response(found.content, media_type="application/json", headers=headers)


async def _known(visit: Visit, job_id: str) -> dict[str, Any]:
    job = await visit.api.get(f"/v1/jobs/{job_id}")
    shown = releases.Shown()
    dataset: dict[str, Any] = {}
    if job["state"] == "done":
        release = await visit.api.send("GET", f"/v1/jobs/{job_id}/{job['kind']}")
        with suppress(ApiError):  # who has lost the grant keeps what was released
            dataset = await visit.api.get(f"/v1/datasets/{job['dataset']}")
        dates = {column["name"]: column.get("date") for column in dataset.get("columns", ())}
        shown = await in_turn(releases.shown, job["kind"], release.content, dates)
    kept_out = dataset.get("holdout") if job["kind"] == "model" else None
    return {"job": job, "is_over": job["state"] in _OVER, "shown": shown, "kept_out": kept_out}
