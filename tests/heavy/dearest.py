"""The costliest permitted request of every route that an analyst may call, for `tests.heavy.attack`."""

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Any
from urllib.parse import quote

from fastapi.routing import APIRoute

from app.http.body import MAX_BODY_BYTES
from app.http.routing import dependants, routes
from app.identity.dependencies import Require
from app.main import ROUTERS
from app.pages.frame import stewards
from app.pages.predictions import MAX_FILE_BYTES
from app.pages.routers import PAGES
from app.pages.session import COOKIE, is_page
from app.pages.static_files import address
from tests.support.server import Server
from tests.support.service import JOB, SPEC, people

COLUMNS, MOST_COVARIANCES, LISTED_JOBS = 4000, 512, 500
NAMES = tuple(f"a column with a name of some length, number {number}" for number in range(COLUMNS))
TABLE_COLUMNS, TABLE_GROUPS, TABLE_ROWS = 16, 127, 8_000  # the most groups, and the most descriptions of them
KINDS_OF_ANSWERS, CLOSED_SESSIONS = 64, 4
REGRESSION_COLUMNS = 200  # one of them the target
BUDGET = {"epsilon": 100.0, "delta": 1e-6}
_NAMES = re.compile(r"{([^}]+)}")  # in a path
_PREPARING = 6  # connections that submit the jobs to be listed
_WAIT = 600.0  # seconds for the jobs whose releases are requested


@dataclass(frozen=True, slots=True)
class Facts:
    """The objects that the requests name.

    Parameters
    ----------
    token : the analyst's
    people, wide, census, grouped : datasets: of 20,000 rows, of 4,000 columns, with a holdout set, and with many groups
    jobs : finished jobs of the analyst, by the kind of their release
    session : an open session of the analyst, of many kinds of answers
    closed_session : a session of that kind that was closed
    closing : open sessions of that kind with recorded answers, which the attack closes
    receipt : of the largest release
    webhook : of the analyst
    """

    token: str
    people: str
    wide: str
    census: str
    grouped: str
    jobs: dict[str, str]
    session: str
    closed_session: str
    closing: list[str]
    receipt: dict[str, Any]
    webhook: str


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, as httpx takes it."""

    method: str
    route: str
    path: str
    options: dict[str, Any]


def callable_routes() -> list[tuple[str, str]]:
    """Return method and path of every route that an analyst may call."""
    method_paths = []
    for route in routes((*ROUTERS, *PAGES)):
        if _is_for_analysts(route):
            method_paths += [(method, route.path) for method in sorted(route.methods or ())]
    return method_paths


def _is_for_analysts(route: APIRoute) -> bool:
    called = [dependant.call for dependant in dependants(route)]
    return stewards not in called and all("analyst" in call.roles for call in called if isinstance(call, Require))


def prepare(server: Server) -> Facts:
    """Create datasets, releases and a full list of jobs over HTTP."""
    datasets = {"people": server.upload(SPEC | {"budget": BUDGET}, people(20_000))}
    datasets["wide"] = server.upload(_wide_spec(), _wide_file())
    datasets["census"] = server.upload(SPEC | {"name": "census", "holdout": 0.2, "budget": BUDGET}, people(2_000, 7))
    datasets["grouped"] = server.upload(_grouped_spec(), _grouped_file())
    sample: dict[str, Any] = {"content": people(1000, 3), "params": {"published": "last year's file"}}
    headers = {"Content-Type": "application/octet-stream"}
    server.client.put(f"/v1/datasets/{datasets['people']}/sample", headers=headers, **sample).raise_for_status()
    token = server.client.post("/v1/tokens", json={"name": "greedy", "role": "analyst"}).json()["token"]
    for dataset in datasets.values():
        server.client.put(f"/v1/datasets/{dataset}/grants/greedy").raise_for_status()
    steward, server.client.headers["Authorization"] = server.client.headers["Authorization"], f"Bearer {token}"
    try:
        hook = server.client.post("/v1/webhooks", json={"url": "https://hooks.example/jobs"}).json()["id"]
        jobs = _released(server, datasets)
        with ThreadPoolExecutor(_PREPARING) as threads:
            list(threads.map(lambda _: _listed(server, datasets["people"]), range(LISTED_JOBS)))
        session, closed_session, *closing = (
            _recorded_session(server, datasets["people"], number) for number in range(2 + CLOSED_SESSIONS)
        )
        server.client.post(f"/v1/sessions/{closed_session}/close").raise_for_status()
        receipt = server.client.get(f"/v1/jobs/{jobs['statistic']}/receipt").json()
    finally:
        server.client.headers["Authorization"] = steward
    return Facts(
        token,
        **datasets,
        jobs=jobs,
        session=session,
        closed_session=closed_session,
        closing=closing,
        receipt=receipt,
        webhook=hook,
    )


def _recorded_session(server: Server, dataset: str, number: int) -> str:
    """Open a session of many kinds of answers, record one of each kind, and return its id."""
    session: str = _patient(server, "POST", f"/v1/datasets/{dataset}/sessions", json=_session(number))["id"]
    for event in range(KINDS_OF_ANSWERS):
        _patient(server, "POST", f"/v1/sessions/{session}/steps", json={"event": event})
    return session


def _listed(server: Server, dataset: str) -> None:
    """Submit a job and cancel it, so that it is listed and does not run during the calm."""
    body = JOB | {"dataset": dataset, "privacy": {"epsilon": 1e-3}}
    job = _patient(server, "POST", "/v1/jobs", json=body)
    _patient(server, "DELETE", f"/v1/jobs/{job['id']}")


def _patient(server: Server, method: str, path: str, **options: Any) -> Any:
    """The answer, once the analyst's rate admits the request."""
    while (answer := server.client.request(method, path, **options)).status_code == 429:
        time.sleep(float(answer.headers["Retry-After"]))
    return answer.json() if answer.status_code < 300 else None


def _released(server: Server, datasets: dict[str, str]) -> dict[str, str]:
    """Return finished jobs of each kind, with the largest possible releases."""
    wide, census = datasets["wide"], datasets["census"]
    covariance = {"dataset": wide, "columns": NAMES[:MOST_COVARIANCES], "method": {"name": "covariance"}}
    bodies = {
        "statistic": ("/v1/statistics", covariance | {"privacy": {"epsilon": 5.0}}),
        "profile": ("/v1/statistics", {"dataset": wide, "method": {"name": "profile"}, "privacy": {"epsilon": 5.0}}),
        "model": ("/v1/jobs", {"dataset": wide, "target": NAMES[0], "privacy": {"epsilon": 5.0}}),
        "trained": ("/v1/jobs", JOB | {"dataset": census, "privacy": {"epsilon": 5.0}}),
        "table1": ("/v1/statistics", _table1(datasets["grouped"]) | {"privacy": {"epsilon": 5.0}}),
        "regression": ("/v1/jobs", _regression(datasets["grouped"]) | {"privacy": {"epsilon": 50.0}}),
    }
    jobs = {}
    for kind, (path, body) in bodies.items():
        answer = server.client.post(path, json=body)
        assert answer.status_code == 202, answer.text
        jobs[kind] = answer.json()["id"]
    for kind, job in jobs.items():
        state = server.finished(job, _WAIT)["state"]
        assert state == "done", (kind, state)
    response = server.client.post(f"/v1/models/{jobs['trained']}/evaluations", json={"privacy": {"epsilon": 5.0}})
    jobs["evaluation"] = response.json()["id"]
    assert server.finished(jobs["evaluation"], _WAIT)["state"] == "done"
    return jobs


def _session(number: int) -> dict[str, Any]:
    """Return a plan of 64 kinds of sampled answers."""
    kinds = [
        {
            "type": "PoissonSampledDpEvent",
            "sampling_probability": 1e-4 * (kind + 1),
            "event": {"type": "GaussianDpEvent", "noise_multiplier": 20.0 + 1e-6 * number},
        }
        for kind in range(KINDS_OF_ANSWERS)
    ]
    return {"events": [{"type": "SelfComposedDpEvent", "count": 100, "event": event} for event in kinds]}


def _wide_spec() -> dict[str, Any]:
    columns = [{"name": name, "type": "number", "lower": 0, "upper": 100} for name in NAMES]
    return {"name": "wide", "columns": columns, "budget": BUDGET}


def _wide_file() -> bytes:
    header = ",".join(f'"{name}"' for name in NAMES)
    lines = (",".join(str((row * 7 + column) % 101) for column in range(COLUMNS)) for row in range(200))
    return "\n".join([header, *lines, ""]).encode()


def _grouped_spec() -> dict[str, Any]:
    columns: list[dict[str, Any]] = [
        {"name": name, "type": "number", "lower": 0, "upper": 100} for name in NAMES[:REGRESSION_COLUMNS]
    ]
    group = {"name": "group", "type": "category", "categories": [f"g{number}" for number in range(TABLE_GROUPS)]}
    return {"name": "grouped", "columns": [*columns, group], "budget": BUDGET}


def _grouped_file() -> bytes:
    header = ",".join([*(f'"{name}"' for name in NAMES[:REGRESSION_COLUMNS]), "group"])
    random = Random(1)
    lines = (
        ",".join([*(str(random.randrange(101)) for _ in range(REGRESSION_COLUMNS)), f"g{row % TABLE_GROUPS}"])
        for row in range(TABLE_ROWS)
    )
    return "\n".join([header, *lines, ""]).encode()


def _table1(dataset: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "columns": NAMES[:TABLE_COLUMNS],
        "by": ["group"],
        "method": {"name": "table1"},
    }


def _regression(dataset: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "target": NAMES[0],
        "features": NAMES[1:REGRESSION_COLUMNS],
        "loss": {"name": "squared"},
        "inference": True,
    }


def requests(facts: Facts, routes_wanted: list[tuple[str, str]]) -> Iterator[Sent]:
    """Yield requests of these routes in turn without end. Raise KeyError for a route without a request."""
    makers_by_route = requests_by_route(facts)
    makers = [(route, makers_by_route[route]) for route in routes_wanted]
    for number, ((method, route), make) in enumerate(cycle(makers)):
        path, options = make(number)
        headers = {"Authorization": f"Bearer {facts.token}"}
        if is_page(route):
            headers = {"Cookie": f"{COOKIE}={quote(facts.token, safe='')}", "Sec-Fetch-Site": "same-origin"}
        yield Sent(method, route, path, {**options, "headers": headers | options.get("headers", {})})


Maker = Callable[[int], tuple[str, dict[str, Any]]]


def requests_by_route(facts: Facts) -> dict[tuple[str, str], Maker]:
    """Return a function for each route that makes a request from a number, with another price for each number."""
    return _plain(facts) | _reading(facts) | _asking(facts) | _pages(facts)


def _plain(facts: Facts) -> dict[tuple[str, str], Maker]:
    """Return requests without a query for the routes that name at most a dataset, a session or a webhook."""
    names = {"dataset_id": facts.wide, "session_id": facts.session, "webhook_id": facts.webhook}
    plain = [path for method, path in callable_routes() if method == "GET" and set(_NAMES.findall(path)) <= set(names)]
    return {("GET", path): _get(path.format_map(names)) for path in plain}


def _reading(facts: Facts) -> dict[tuple[str, str], Maker]:
    jobs, wide = facts.jobs, facts.wide
    return {
        ("GET", "/v1/datasets"): _get("/v1/datasets?limit=200"),
        ("GET", "/v1/datasets/{dataset_id}/twin"): _get(f"/v1/datasets/{wide}/twin?rows=500"),
        ("GET", "/v1/datasets/{dataset_id}/sample"): _get(f"/v1/datasets/{facts.people}/sample"),
        ("GET", "/v1/jobs"): _get(f"/v1/jobs?limit={LISTED_JOBS}"),
        ("GET", "/v1/jobs/{job_id}"): _get(f"/v1/jobs/{jobs['model']}"),
        ("GET", "/v1/jobs/{job_id}/events"): _get(f"/v1/jobs/{jobs['model']}/events"),
        ("GET", "/v1/jobs/{job_id}/model"): _get(f"/v1/jobs/{jobs['regression']}/model"),
        ("GET", "/v1/jobs/{job_id}/statistic"): lambda n: _get(
            f"/v1/jobs/{jobs[('statistic', 'table1')[n % 2]]}/statistic"
        )(n),
        ("GET", "/v1/jobs/{job_id}/evaluation"): _get(f"/v1/jobs/{jobs['evaluation']}/evaluation"),
        ("GET", "/v1/jobs/{job_id}/profile"): _get(f"/v1/jobs/{jobs['profile']}/profile"),
        ("GET", "/v1/jobs/{job_id}/receipt"): _get(f"/v1/jobs/{jobs['statistic']}/receipt"),
        ("DELETE", "/v1/jobs/{job_id}"): _get(f"/v1/jobs/{jobs['model']}"),
        ("GET", "/v1/sessions"): _get(f"/v1/sessions?limit={LISTED_JOBS}"),
        ("GET", "/v1/sessions/{session_id}/receipt"): _get(f"/v1/sessions/{facts.closed_session}/receipt"),
        ("GET", "/v1/webhooks"): _get(f"/v1/webhooks?limit={LISTED_JOBS}"),
        ("DELETE", "/v1/webhooks/{webhook_id}"): _get("/v1/webhooks/hook_of_nobody"),
    }


def _asking(facts: Facts) -> dict[tuple[str, str], Maker]:
    """Bodies of 1 MiB, each of another price."""
    wide_job = {"dataset": facts.wide, "target": NAMES[0], "features": NAMES[1:]}
    covariance = {"dataset": facts.wide, "columns": NAMES[:MOST_COVARIANCES], "method": {"name": "covariance"}}
    priced = (wide_job, covariance, _table1(facts.grouped))
    statistics = (covariance, _table1(facts.grouped))
    tuning = JOB | {"dataset": facts.people, "candidates": [{"method": {"name": "dp_gd"}}] * 16}
    forecast = {"dataset": facts.people, "target": "income"}  # of more runs it would take more than a forecast may
    evaluation = f"/v1/models/{facts.jobs['trained']}/evaluations"
    steps, sessions = f"/v1/sessions/{facts.session}/steps", f"/v1/datasets/{facts.people}/sessions"
    calibration = {"mechanism": {"name": "poisson_gaussian", "rate": 1e-3}, "count": 10_000, "delta": 1e-6}
    return {
        ("POST", "/v1/quotes"): lambda n: _post("/v1/quotes", priced[n % len(priced)] | _privacy(n)),
        ("POST", "/v1/jobs"): lambda n: _post("/v1/jobs", wide_job | _privacy(n)),
        ("POST", "/v1/statistics"): lambda n: _post("/v1/statistics", statistics[n % 2] | _privacy(n)),
        ("POST", "/v1/tunings"): lambda n: _post("/v1/tunings", tuning | _privacy(n)),
        ("POST", "/v1/models/{job_id}/evaluations"): lambda n: _post(evaluation, _privacy(n)),
        ("POST", "/v1/forecasts"): lambda n: _post("/v1/forecasts", forecast | {"twin": n}),
        ("POST", "/v1/calibrations"): lambda n: _post("/v1/calibrations", calibration | {"epsilon": 1 + 1e-6 * n}),
        ("POST", "/v1/datasets/{dataset_id}/sessions"): lambda n: _post(sessions, _session(n)),
        ("POST", "/v1/sessions/{session_id}/steps"): lambda n: _post(steps, {"event": n % KINDS_OF_ANSWERS}),
        ("POST", "/v1/sessions/{session_id}/close"): lambda n: (f"/v1/sessions/{_closed(facts, n)}/close", {}),
        ("POST", "/v1/receipts/verify"): lambda _: _post("/v1/receipts/verify", facts.receipt),
        ("POST", "/v1/webhooks"): lambda n: _post("/v1/webhooks", {"url": f"https://hooks.example/{n % 5}"}),
    }


def _pages(facts: Facts) -> dict[tuple[str, str], Maker]:
    wide, jobs = f"/pages/datasets/{facts.wide}", facts.jobs
    part = "/pages/datasets/{dataset_id}"
    tried = f"/pages/datasets/{facts.people}/forecast"
    form = {"target": NAMES[0], "features": "\n".join(NAMES[1:])}
    predictions = f"/pages/jobs/{jobs['trained']}/predictions"
    rows = {"file": ("rows.csv", people(80_000)[:MAX_FILE_BYTES].rpartition(b"\n")[0])}
    return {
        ("GET", "/pages/static/{digest}/{name}"): _get(f"/pages{address('uplot.min.js')}"),
        ("GET", f"{part}/new"): lambda n: _get(f"{wide}/new?kind={('model', 'statistic', 'tuning')[n % 3]}")(n),
        ("POST", f"{part}/fields"): lambda n: _submit(f"{wide}/fields", form, n),
        ("POST", f"{part}/quote"): lambda n: _submit(f"{wide}/quote", form, n),
        ("POST", f"{part}/forecast"): lambda n: _submit(tried, {"target": "income", "twin": str(n)}, n),
        ("POST", f"{part}/jobs"): lambda n: _submit(f"{wide}/jobs", form, n),
        ("GET", f"{part}/twin"): _get(f"{wide}/twin?rows=500"),
        ("GET", "/pages/jobs/{job_id}"): lambda n: _get(f"/pages/jobs/{list(jobs.values())[n % len(jobs)]}")(n),
        ("GET", "/pages/jobs/{job_id}/part"): _get(f"/pages/jobs/{jobs['statistic']}/part"),
        ("POST", "/pages/jobs/{job_id}/cancel"): lambda n: _submit(f"/pages/jobs/{jobs['model']}/cancel", {}, n),
        ("GET", "/pages/jobs/{job_id}/files/{name}"): _get(f"/pages/jobs/{jobs['statistic']}/files/statistic"),
        ("POST", "/pages/jobs/{job_id}/predictions"): lambda _: (predictions, {"files": rows}),
        ("POST", "/pages/jobs/{job_id}/predictions/row"): lambda n: _submit(f"{predictions}/row", {"row.0": "1"}, n),
        ("POST", "/pages/sessions/{session_id}/close"): lambda n: _submit(
            f"/pages/sessions/{_closed(facts, n)}/close", {}, n
        ),
        ("GET", "/pages/sessions/{session_id}/files/receipt"): _get(
            f"/pages/sessions/{facts.closed_session}/files/receipt"
        ),
        ("GET", "/pages/sessions/{session_id}/receipt"): _get(f"/pages/sessions/{facts.closed_session}/receipt"),
        ("GET", "/pages/jobs/{job_id}/receipt"): _get(f"/pages/jobs/{jobs['statistic']}/receipt"),
        ("POST", "/pages/sign-in"): lambda n: _submit("/pages/sign-in", {"token": facts.token}, n),
        ("POST", "/pages/sign-out"): lambda n: _submit("/pages/sign-out", {}, n),
        ("GET", "/pages/{path:path}"): _get("/pages/nowhere"),
    }


def _get(path: str) -> Maker:
    return lambda _: (path, {})


def _privacy(number: int) -> dict[str, Any]:
    return {"privacy": {"epsilon": 0.01 + 1e-7 * number}}


def _closed(facts: Facts, number: int) -> str:
    """Return the session that the request with this number closes."""
    return facts.closing[number % len(facts.closing)]


def _post(path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a POST request whose JSON is padded with spaces to the accepted limit."""
    text = json.dumps(body).encode()
    return path, {"content": text.ljust(MAX_BODY_BYTES), "headers": {"Content-Type": "application/json"}}


def _submit(path: str, form: dict[str, str], number: int) -> tuple[str, dict[str, Any]]:
    values = form | {"privacy.epsilon": str(0.01 + 1e-7 * number)}
    return path, {"data": values, "headers": {"HX-Request": "true"}}
