"""A steward's changes to a dataset: name, freeze, budget, sessions, outside releases, public sample, and deletion."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import Query, Response

from app.http.errors import ApiError
from app.pages import words
from app.pages.forms import document, read_number
from app.pages.frame import STEWARDS_ONLY, Visit, Visiting, page_router
from purse.wire.base import Identifier
from purse.wire.problems import Violation
from purse.wire.twins import MOST_TWIN_ROWS

MAX_SAMPLE_BYTES = 2**24
_EVENTS = ("GaussianDpEvent", "LaplaceDpEvent", "PoissonSampledDpEvent", "EpsilonDeltaDpEvent")  # of the form
_DIGITS = 15  # of a budget in its form
_CHANGES = {
    "renamed": "The dataset was renamed.",
    "frozen": "The dataset is frozen.",
    "unfrozen": "The dataset is no longer frozen.",
    "budget": "The budget was changed.",
    "sessions": "The rule for sessions was changed.",
    "charged": "The outside release was charged.",
    "sample": "The public sample was attached.",
    "no-sample": "The public sample was removed.",
}

router = page_router("/datasets/{dataset_id}/manage", STEWARDS_ONLY)
twins = page_router("/datasets/{dataset_id}/twin")

Changed = Annotated[str, Query(max_length=20)]


@router.get("")
async def show(visit: Visiting, dataset_id: Identifier, changed: Changed = "") -> Response:
    """Return the forms, and a sentence about the change that was made last."""
    return await _page(visit, dataset_id, note=_CHANGES.get(changed))


@router.post("/name")
async def rename(visit: Visiting, dataset_id: Identifier) -> Response:
    """Rename a dataset that has no charges."""
    values = await visit.form()
    return await _amend(visit, dataset_id, {"name": values.get("name", "")}, values, "renamed")


@router.post("/freeze")
async def freeze(visit: Visiting, dataset_id: Identifier) -> Response:
    """Freeze or unfreeze a dataset."""
    is_frozen = (await visit.form()).get("frozen") == "true"
    return await _amend(visit, dataset_id, {"frozen": is_frozen}, {}, "frozen" if is_frozen else "unfrozen")


@router.post("/budget")
async def budget(visit: Visiting, dataset_id: Identifier) -> Response:
    """Raise the budget, or change it if nothing has been charged."""
    values = await visit.form()
    fields = visit.forms.fields("Amendment", values, {})
    return await _amend(visit, dataset_id, document([f for f in fields if f.name == "budget"]), values, "budget")


@router.post("/sessions")
async def sessions(visit: Visiting, dataset_id: Identifier) -> Response:
    """Change the rule for sessions."""
    values = await visit.form()
    return await _amend(visit, dataset_id, {"sessions": values.get("sessions", "")}, values, "sessions")


@router.post("/charges")
async def charge(visit: Visiting, dataset_id: Identifier) -> Response:
    """Charge a release that was made outside this service."""
    values = await visit.form()
    body = {"label": values.get("label", ""), "event": _event(values), "exceeds": "exceeds" in values}
    return await _change(visit, dataset_id, values, "charged", "POST", "/charges", json=body)


@router.post("/sample")
async def attach(visit: Visiting, dataset_id: Identifier) -> Response:
    """Attach a public sample."""
    values, file = await visit.file_form(MAX_SAMPLE_BYTES)
    sample: dict[str, Any] = {"params": {"published": values.get("published", "")}, "content": file}
    headers = {"Content-Type": "application/octet-stream"}
    return await _change(visit, dataset_id, values, "sample", "PUT", "/sample", headers=headers, **sample)


@router.post("/sample/remove")
async def detach(visit: Visiting, dataset_id: Identifier) -> Response:
    """Remove the public sample."""
    return await _change(visit, dataset_id, {}, "no-sample", "DELETE", "/sample")


@router.post("/delete")
async def delete(visit: Visiting, dataset_id: Identifier) -> Response:
    """Withdraw a dataset, or delete its values if it has charges. Its name must be typed to confirm this."""
    values = await visit.form()
    dataset = await visit.api.get(f"/v1/datasets/{dataset_id}")
    if values.get("confirmation") != dataset["name"]:
        why = Violation(where="body.confirmation", what="is not the dataset's name: type the name to confirm")
        return await _page(visit, dataset_id, values, ApiError("invalid_request", violations=[why]))
    try:
        deleted = (await visit.api.send("DELETE", f"/v1/datasets/{dataset_id}")).json()
    except ApiError as error:
        return await _page(visit, dataset_id, values, error)
    return visit.go("" if deleted["data"] == "withdrawn" else f"/datasets/{dataset_id}")


@twins.get("")
async def twin(
    visit: Visiting, dataset_id: Identifier, rows: Annotated[int, Query(ge=1, le=MOST_TWIN_ROWS)] = 1000
) -> Response:
    """Return synthetic rows as a CSV file."""
    return await visit.download(f"/v1/datasets/{dataset_id}/twin", f"{dataset_id}.synthetic.csv", rows=rows)


def _event(values: dict[str, str]) -> dict[str, Any]:
    """Return the event of an outside release. Text that is not a number is passed on, and the API rejects it."""
    kind = values.get("event.type", "")
    match kind:
        case "PoissonSampledDpEvent":
            inner = {"type": "GaussianDpEvent"} | _filled_in(values, "noise_multiplier")
            event = {"type": kind, "event": inner} | _filled_in(values, "sampling_probability")
        case "EpsilonDeltaDpEvent":
            event = {"type": kind, "delta": 0.0} | _filled_in(values, "epsilon")
        case _:
            event = {"type": kind} | _filled_in(values, "noise_multiplier")
    repeated = _filled_in(values, "count")
    return event if repeated in ({}, {"count": 1}) else {"type": "SelfComposedDpEvent", "event": event} | repeated


def _filled_in(values: dict[str, str], name: str) -> dict[str, Any]:
    """Return the field of an event with its number; nothing if it is empty, which the API reports as missing."""
    text = values.get(f"event.{name}", "")
    return {name: read_number(text)} if text else {}


async def _amend(visit: Visit, dataset_id: str, change: Any, values: dict[str, str], changed: str) -> Response:
    return await _change(visit, dataset_id, values, changed, "PATCH", "", json=change)


async def _change(
    visit: Visit, dataset_id: str, values: dict[str, str], changed: str, method: str, path: str, **content: Any
) -> Response:
    """Send a change to the API, and return the page with the reason if the API rejects it."""
    error = await visit.rejection(method, f"/v1/datasets/{dataset_id}{path}", **content)
    if error is not None:
        return await _page(visit, dataset_id, values, error)
    return visit.go(f"/datasets/{dataset_id}/manage?changed={changed}")


async def _page(
    visit: Visit,
    dataset_id: str,
    values: dict[str, str] | None = None,
    error: ApiError | None = None,
    note: str | None = None,
) -> Response:
    path = f"/v1/datasets/{dataset_id}"
    sample = None
    with suppress(ApiError):  # there is no public sample
        sample = await visit.api.get(f"{path}/sample")
    dataset = await visit.api.get(path)
    current = {f"budget.{name}": words.number(dataset["budget"][name], _DIGITS) for name in ("epsilon", "delta")}
    fields = visit.forms.fields("Amendment", current | (values or {}), {})
    is_charged = bool(dataset["budget"]["analysts"])
    fixed = ("budget.filter", "budget.slack") if is_charged else ()
    return await visit.page(
        "manage.html",
        error=error,
        dataset=dataset,
        is_charged=is_charged,
        sample=sample,
        budget_fields=[
            part for field in fields if field.name == "budget" for part in field.parts if part.name not in fixed
        ],
        events={kind: words.EVENTS[kind] for kind in _EVENTS},
        values=values or {},
        note=note,
    )
