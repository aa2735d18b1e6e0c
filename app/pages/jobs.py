"""Jobs: the form for a new job, its price while it is filled in, the list of jobs, and one job with its release."""

import uuid
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import Query, Response

from app.http.errors import ApiError
from app.http.work import in_turn
from app.pages import charts, predictions, releases
from app.pages.forms import document, member_indices, missing, without
from app.pages.frame import Cursor, Visit, Visiting, page_router
from app.pages.sheet import Kind, Sheet
from purse.model import Model
from purse.wire.base import Identifier
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.inference import EXPECTED_IF

router = page_router()

AskedKind = Annotated[Kind, Query()]
_TWO_CANDIDATES = {"candidates.0.method.name": "", "candidates.1.method.name": ""}
_FINAL_STATES = ("done", "failed", "cancelled")
_MAX_NAMES = 200  # datasets whose names a list shows
_MAX_EVALUATIONS_READ = 20  # to find those of one model


@router.get("/datasets/{dataset_id}/new")
async def new(
    visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model", model: Identifier | None = None
) -> Response:
    """Return an empty form; for an evaluation, `model` is the job that released the model."""
    values = {"privacy.epsilon": "0.5", "model": model or ""} | _TWO_CANDIDATES
    sheet = await Sheet.of(visit, dataset_id, kind, values)
    title = (await visit.api.get(f"/v1/jobs/{model}"))["quote"]["title"] if model else None
    return await sheet.page("job_form.html", model_title=title)


@router.post("/datasets/{dataset_id}/fields")
async def fields(visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model") -> Response:
    """Return the form's fields after a choice changed them, or after a list's member was added or removed."""
    values = await visit.form()
    step, _, path = values.pop("step", "").partition(":")
    if step == "add":
        member = f"{path}.{max(member_indices(values, path), default=-1) + 1}"
        values[f"{member}.factors.0.column" if path == "terms" else f"{member}.method.name"] = ""
    if step == "remove":
        values = without(values, path)
    return await (await Sheet.of(visit, dataset_id, kind, values)).page("job_fields.html")


@router.post("/datasets/{dataset_id}/quote")
async def quote(visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model") -> Response:
    """Return the price of the form, or the fields that it still needs."""
    sheet = await Sheet.of(visit, dataset_id, kind, await visit.form())
    context: dict[str, Any] = {"quote": None, "jobs": 1, "expected_if": EXPECTED_IF}
    if not missing(sheet.fields):
        try:
            context |= {"quote": await sheet.quote(), "jobs": len(sheet.documents)}
        except ApiError as error:
            context["problem"] = error.details()
    return await sheet.page("quote.html", **context)


@router.post("/datasets/{dataset_id}/forecast")
async def forecast(visit: Visiting, dataset_id: Identifier) -> Response:
    """Return the accuracy to expect at several epsilons, measured on a public twin; no data is touched."""
    sheet = await Sheet.of(visit, dataset_id, "model", await visit.form())
    body = sheet.document | document(sheet.forecast_fields)
    body["privacy"] = {name: value for name, value in body["privacy"].items() if name == "delta"}
    try:
        expected = (await visit.api.send("POST", "/v1/forecasts", json=body)).json()
    except ApiError as error:
        return await sheet.page("forecast.html", forecast=None, chart=None, problem=error.details())
    return await sheet.page("forecast.html", forecast=expected, target=body["target"], chart=charts.accuracy(expected))


@router.post("/datasets/{dataset_id}/jobs")
async def submit(visit: Visiting, dataset_id: Identifier, kind: AskedKind = "model") -> Response:
    """Charge the budget and queue the jobs of the form; the same form sent twice makes the same jobs."""
    values = await visit.form()
    sheet = await Sheet.of(visit, dataset_id, kind, values)
    key = values.get("key") or str(uuid.uuid4())
    try:
        jobs = await sheet.submit(key)
    except ApiError as error:
        retry_key = None if error.code == "idempotency_conflict" else key
        return await sheet.page("job_form.html", retry_key, error=error)
    return visit.go(f"/jobs/{jobs[0]}" if len(jobs) == 1 else f"/jobs?dataset={dataset_id}")


@router.get("/jobs")
async def listing(visit: Visiting, cursor: Cursor = None, dataset: Identifier | None = None) -> Response:
    """Return the jobs that the visitor may see, the newest first."""
    jobs = await visit.api.get("/v1/jobs", cursor=cursor, dataset=dataset)
    datasets = await visit.api.get("/v1/datasets", limit=_MAX_NAMES, columns="false")
    names = {each["id"]: each["name"] for each in datasets["items"]}
    return await visit.page("jobs.html", jobs=jobs, dataset=dataset, names=names)


@router.get("/jobs/{job_id}")
async def show(visit: Visiting, job_id: Identifier) -> Response:
    """Return one job: its state, its price and its release. An auditor sees its receipt, and not its release."""
    if visit.principal is not None and visit.principal.role == "auditor":
        return visit.go(f"/jobs/{job_id}/receipt")
    return await visit.page("job.html", **await _context(visit, job_id))


@router.get("/jobs/{job_id}/part")
async def part(visit: Visiting, job_id: Identifier) -> Response:
    """Return one job without the page's frame, to refresh an open page."""
    return await visit.page("job_part.html", **await _context(visit, job_id))


@router.post("/jobs/{job_id}/cancel")
async def cancel(visit: Visiting, job_id: Identifier) -> Response:
    """Cancel a job. Its charge is refunded only if it has not started."""
    await visit.api.send("DELETE", f"/v1/jobs/{job_id}")
    return visit.go(f"/jobs/{job_id}")


@router.get("/jobs/{job_id}/files/{name}")
async def download(
    visit: Visiting, job_id: Identifier, name: Literal["model", "statistic", "profile", "evaluation", "receipt"]
) -> Response:
    """Return a release or its receipt as a file, byte for byte as the API returns it."""
    return await visit.download(f"/v1/jobs/{job_id}/{name}", f"{job_id}.{name}.json")


async def _context(visit: Visit, job_id: str) -> dict[str, Any]:
    """Return the values that a job's templates show."""
    job = await visit.api.get(f"/v1/jobs/{job_id}")
    dataset: dict[str, Any] = {}
    with suppress(ApiError):  # an analyst whose grant was revoked keeps the releases
        dataset = await visit.api.get(f"/v1/datasets/{job['dataset']}")
    view = releases.View()
    if job["state"] == "done":
        release = await visit.api.send("GET", f"/v1/jobs/{job_id}/{job['kind']}")
        dates = {column["name"]: column.get("date") for column in dataset.get("columns", ())}
        view = await in_turn(releases.view, job["kind"], release.content, dates)
    model = view.release if isinstance(view.release, Model) else None
    holdout = dataset.get("holdout") if job["kind"] == "model" else None
    evaluations: list[tuple[dict[str, Any], releases.PageTable]] = []
    if model is not None and holdout is not None:
        evaluations = await _evaluations(visit, holdout, job_id)
    model_title = ""
    if isinstance(view.release, ReleasedEvaluation):
        with suppress(ApiError):  # the model may belong to an analyst whose jobs the visitor may not see
            model_title = (await visit.api.get(f"/v1/jobs/{view.release.model}"))["quote"]["title"]
    return {
        "job": job,
        "title": job["quote"]["title"] or str(job["kind"]).capitalize(),
        "dataset_name": dataset.get("name"),
        "is_over": job["state"] in _FINAL_STATES,
        "view": view,
        "model_title": model_title,
        "holdout": holdout,
        "evaluations": evaluations,
        "model": model,
        "features": () if model is None else predictions.features(model),
    }


async def _evaluations(visit: Visit, holdout: str, model: str) -> list[tuple[dict[str, Any], releases.PageTable]]:
    """Return the newest evaluations of a model, each with its measures."""
    jobs = await visit.api.get(
        "/v1/jobs", dataset=holdout, kind="evaluation", state="done", limit=_MAX_EVALUATIONS_READ
    )
    evaluations = []
    for job in jobs["items"]:
        answer = await visit.api.send("GET", f"/v1/jobs/{job['id']}/evaluation")
        view = await in_turn(releases.view, "evaluation", answer.content, {})
        if isinstance(view.release, ReleasedEvaluation) and view.release.model == model:
            evaluations.append((job, view.tables[0]))
    return evaluations
