"""The client against answers made up here: what it sends, what it tries again, what it says when refused."""

import asyncio
import gc
import hashlib
import inspect
import json
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
import rfc8785
from pyarrow import csv

from accounting.errors import ReceiptInvalid
from accounting.mechanisms import Gaussian
from accounting.plan import Plan, PlannedQuery, ReleasePlan
from accounting.privacy import Unit
from accounting.records import receipt as receipts
from accounting.records import signing
from accounting.records.chain import GENESIS, Entry, link
from accounting.records.signing import sign_json
from app.quotes.calibrations import CalibrationRequest
from app.sources.encoding import encoder
from app.wire import (
    EvaluationBody,
    ForecastRequest,
    JobRequest,
    StatisticRequest,
    TuningRequest,
)
from purse import (
    AsyncClient,
    Client,
    JobNotReleased,
    Model,
    NotVerified,
    ProblemError,
    Receipt,
    Unreachable,
    load,
    predict,
)
from purse.client import client as client_module
from purse.client import sending
from purse.client.aio import certificates
from purse.client.calls import api_path
from purse.client.events import EventStream
from purse.client.requests import privacy_of
from purse.prediction import encode
from purse.wire.allotments import AllotmentRequest
from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.files import Dialect
from purse.wire.neighbors import MEANING
from purse.wire.receipts import KeySet, ReceiptDocument
from solvers.methods import DpSvrg
from tests.support.light import WITHOUT, python
from tests.support.live import live
from tests.support.models import model_document
from tests.support.patience import PATIENCE
from tests.support.service import SPEC, people
from tests.support.workbook import workbook

Handler = Callable[[httpx.Request], httpx.Response]
PRIVACY = {"epsilon": 0.5, "delta": 1e-7}
QUOTE = {
    "dataset": "ds_a",
    "method": {"name": "dp_gd", "steps": 10, "step": 0.5},
    "reason": "requested",
    "preparation": {"name": "declared", "reason": "requested", "statement": "as declared"},
    "epsilon": 0.5,
    "delta": 1e-7,
    "neighbors": "replace_one",
    "meaning": MEANING["replace_one"],
    "elsewhere": None,
    "accountant": "exact_gaussian",
    "accountant_version": "1",
    "queries": [
        {
            "name": "g",
            "count": 10,
            "answers": 10,
            "mechanism": {"name": "gaussian"},
            "noise_multiplier": 9.0,
            "noise_std": 0.1,
        }
    ],
    "gradient_evaluations": 1000,
    "forecast": {
        "excess_risk": None,
        "untrained": 0.7,
        "distance": 6.0,
        "distance_certain": False,
        "statement": "not proven",
        "seconds": 0.1,
    },
    "rows": 100,
    "unit": {"name": "row"},
    "dimension": 3,
    "row_norm": 2.0,
    "gradient_bound": 2.0,
    "slope_limit": 1.0,
    "fits": True,
    "share": 0.4,
    "remaining": {"epsilon": 1.0, "delta": 1e-7},
    "remaining_after": None,
}
COLUMNS: list[Column] = [
    NumberColumn(name="age", type="number", lower=0, upper=50, default=10),
    CategoryColumn(name="sex", type="category", categories=["f", "m"]),
]
NOBODY: dict[str, object] = {"age": None, "sex": None}
MODEL = Model.model_validate(
    model_document(
        coefficients=[2.0, 0.5, -0.5, 3.0], intercept=-1.0, features=[column.model_dump() for column in COLUMNS]
    )
)


def _job(state: str = "queued", **fields: Any) -> dict[str, Any]:
    progress = {"done": 0, "total": 10}
    base = {"id": "job_a", "kind": "model", "dataset": "ds_a", "analyst": "alice", "state": state, "attempt": 0}
    return base | {"progress": progress, "quote": QUOTE, "created_at": "2026-01-01T00:00:00Z"} | fields


def _client(handler: Handler, **options: Any) -> Client:
    return Client("http://purse.test", "secret", transport=httpx.MockTransport(handler), **options)


class Recorded:
    """A server that answers every request alike, and keeps the requests.

    Parameters
    ----------
    answer : what it returns
    """

    def __init__(self, answer: httpx.Response) -> None:
        self._answer, self.requests = answer, list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        return httpx.Response(self._answer.status_code, content=self._answer.content)


def _problem(code: str, status: int, **fields: Any) -> httpx.Response:
    body = {"type": f"urn:x:{code}", "title": "A title", "status": status, "code": code} | fields
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})


def test_privacy_is_a_number_or_a_mapping() -> None:
    for epsilon in (1, 0.5, np.float32(0.5), np.int64(1)):
        assert privacy_of(epsilon) == {"epsilon": float(epsilon)}
    assert privacy_of({"epsilon": 1, "delta": 1e-6}) == {"epsilon": 1, "delta": 1e-6}
    for wrong in ("lots", True, None, [0.5]):
        with pytest.raises(ValueError, match=f"^privacy must be an epsilon .* type {type(wrong).__name__}$"):
            privacy_of(wrong)


@pytest.mark.slow
def test_submit_repeats_lost_requests_with_the_same_idempotency_key() -> None:
    keys, bodies = [], []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        bodies.append(json.loads(request.content))
        if len(keys) < 3:
            raise httpx.ReadError("gone")
        return httpx.Response(202, json=_job())

    with _client(answer) as purse:
        job = purse.jobs.submit(dataset="ds_a", target="y", privacy=PRIVACY, method=DpSvrg())
        again = purse.jobs.submit(dataset="ds_a", target="y", privacy=PRIVACY)
        mine = purse.jobs.submit(dataset="ds_a", target="y", privacy=PRIVACY, idempotency_key="mine")
    assert (job.id, job.state, again.id, mine.id) == ("job_a", "queued", "job_a", "job_a")
    assert len(set(keys[:3])) == 1
    assert len(keys[0]) >= 32
    assert keys[3] != keys[0]
    assert keys[4] == "mine"
    assert bodies[0]["method"]["name"] == "dp_svrg"
    assert bodies[3] == {"dataset": "ds_a", "target": "y", "privacy": PRIVACY}


@pytest.mark.slow
def test_an_unreachable_server_is_reported_after_four_attempts() -> None:
    tried = []

    def answer(request: httpx.Request) -> httpx.Response:
        tried.append(request.method)
        raise httpx.ConnectError("refused")

    with _client(answer) as purse:
        with pytest.raises(Unreachable, match="refused"):
            purse.datasets.get("ds_a")
        assert len(tried) == 4
        with pytest.raises(Unreachable):
            purse.tokens.create("bob", "analyst")  # a repeated request could create two tokens
        assert tried[4:] == ["POST"]
        with pytest.raises(Unreachable, match="mine"):  # the key that repeats the request without a second charge
            purse.jobs.submit(dataset="ds_a", target="y", privacy=PRIVACY, idempotency_key="mine")


def test_certificates_are_loaded_for_https_only_and_always_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = list[str]()
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: read.append("certificates"))
    for make in (Client, AsyncClient):
        make("http://127.0.0.1:1", "secret")
        assert read == []
        make("https://127.0.0.1:1", "secret")
        assert read
        read.clear()
    nobody = certificates("HTTP://127.0.0.1:1")
    assert isinstance(nobody, ssl.SSLContext)
    assert (nobody.verify_mode, nobody.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert nobody.get_ca_certs() == []
    assert certificates("https://127.0.0.1:1") is True


def test_not_a_number_never_leaves() -> None:
    def answer(_request: httpx.Request) -> httpx.Response:
        raise AssertionError("nothing is sent")

    with _client(answer) as purse:
        for bad in (float("nan"), float("inf"), np.float64("nan")):
            with pytest.raises(ValueError, match=r"^privacy\.delta:.* finite"):
                purse.quote(dataset="ds_a", target="y", privacy={"epsilon": 1.0, "delta": bad})
            with pytest.raises(ValueError, match=r"^columns\.1\.lower:.* finite"):
                purse.datasets.declare(spec={"columns": [{"lower": 0.0}, {"lower": bad}]})


def test_an_address_without_http_is_refused() -> None:
    with (
        Client("localhost:8000", token="purse_" + "a" * 43) as purse,
        pytest.raises(Unreachable, match="https://"),
    ):
        purse.datasets.list()


def test_problem_document_becomes_problem_error() -> None:
    remaining = {"epsilon": 0.25, "delta": 1e-6}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/jobs":
            return _problem("budget_exhausted", 409, detail="Nothing was charged.", remaining=remaining, instance="new")
        violations = [{"where": "body.privacy.epsilon", "what": "must be at least 0.001"}]
        return _problem("out_of_range", 422, violations=violations)

    with _client(answer) as purse:
        with pytest.raises(ProblemError, match="budget_exhausted: ") as refused:
            purse.jobs.submit(dataset="ds_a", target="y", privacy=PRIVACY)
        assert (refused.value.code, refused.value.status) == ("budget_exhausted", 409)
        assert refused.value.remaining is not None
        assert refused.value.remaining.model_dump() == remaining
        with pytest.raises(ProblemError, match=r"0\.001") as wrong:
            purse.quote(dataset="ds_a", target="y", privacy=PRIVACY)
        assert [violation.where for violation in wrong.value.violations] == ["body.privacy.epsilon"]


def test_a_workbooks_sheet_is_sent_as_the_declared_csv(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="python-calamine is not installed: no workbook is read")
    file, server = workbook(tmp_path / "stays.xlsx", {"a": [["y"]], "b": [["x"], [1.5]]}), Recorded(httpx.Response(413))
    with _client(server) as purse:
        with pytest.raises(ProblemError):
            purse.datasets.upload(file, spec={"dialect": {"decimal": ",", "delimiter": ";"}}, sheet="b")
        with pytest.raises(ValueError, match="sheet"):
            purse.datasets.upload(BytesIO(b"x"), spec={}, sheet="b")
        german = {"dialect": {"decimal": ",", "delimiter": ";"}}
        for source, options in ((file, {"sheet": "b"}), (pa.table({"x": [1.5]}), {})):
            with pytest.raises(ProblemError):
                purse.datasets.attach_sample("ds_a", source, published="p", spec=german, **options)
    first, *of_samples = (request.content for request in server.requests)
    assert b"x\r\n1,5\r\n" in first
    assert of_samples == [b"x\r\n1,5\r\n"] * 2


def test_a_refused_declaration_names_its_columns_and_no_positions() -> None:
    places = (
        "spec.columns.1.number",
        "spec.columns.0.category.categories",
        "spec.columns.7.name",
        "spec.budget.epsilon",
    )
    violations = [{"where": where, "what": "is wrong"} for where in places]
    spec = {"columns": [{"name": "sex", "type": "category"}, {"name": "admitted", "type": "number"}]}
    with (
        _client(lambda _: _problem("invalid_request", 422, violations=violations)) as purse,
        pytest.raises(ProblemError, match="'admitted': is wrong") as refused,
    ):
        purse.datasets.upload(BytesIO(b"x"), spec=spec)
    expected = ["'admitted'", "'sex'.categories", "spec.columns.7.name", "spec.budget.epsilon"]
    assert [violation.where for violation in refused.value.violations] == expected


def test_an_error_that_is_not_a_problem_document_is_an_unexpected_response() -> None:
    with _client(lambda _request: httpx.Response(502, text="<html>proxy</html>")) as purse:
        with pytest.raises(ProblemError) as failed:
            purse.keys()
        assert (failed.value.code, failed.value.status) == ("unexpected_response", 502)
        assert "proxy" not in str(failed.value)


def test_upload_streams_the_declaration_first_and_then_the_file(tmp_path: Path) -> None:
    reads = []

    class Source(BytesIO):
        name = "/somewhere/d.csv"

        def read(self, size: int | None = -1, /) -> bytes:
            reads.append(size)
            return super().read(size)

    server = Recorded(httpx.Response(413))
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    spec = {"name": "d", "columns": [], "budget": {"epsilon": 1.0, "delta": 1e-6}}
    with _client(server) as purse:
        for file in (Source(b"x\n" * 300_000), tmp_path / "d.parquet"):
            with pytest.raises(ProblemError):
                purse.datasets.upload(file, spec=spec)
    assert reads
    assert all(size is not None and 0 < size <= 2**20 for size in reads)
    first, second = (request.content for request in server.requests)
    for body, name, media_type in ((first, b"d.csv", b"text/csv"), (second, b"d.parquet", b"application/vnd")):
        assert body.index(b'name="spec"') < body.index(b'name="file"')
        assert json.dumps(spec).encode() in body
        assert b'filename="' + name + b'"' in body
        assert media_type in body


def test_lists_are_read_to_their_last_page_and_unknown_fields_of_a_newer_server_are_passed_over() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params.get("cursor", 0))
        entry = {"id": f"tok_{page}", "name": "a", "role": "analyst", "identity": "idn_a", "scopes": []} | {
            "created_at": "t",
            "colour": "new",
        }
        return httpx.Response(200, json={"items": [entry], "next": str(page + 1) if page < 2 else None})

    with _client(answer) as purse:
        assert [token.id for token in purse.tokens.list()] == ["tok_0", "tok_1", "tok_2"]


def test_a_dataset_may_be_stated_by_its_name() -> None:
    """The server resolves names, so that a name costs no further request."""
    server = Recorded(_problem("not_found", 404))
    short: dict[str, Any] = {"target": "y", "privacy": 0.5, "method": "dp_gd", "loss": "logistic", "domain": "free"}
    with _client(server) as purse:
        for ask in (lambda: purse.quote(dataset="my census", **short), lambda: purse.datasets.budget("my census?")):
            with pytest.raises(ProblemError, match="not_found"):
                ask()
    quote, budget = server.requests
    named = {"method": {"name": "dp_gd"}, "loss": {"name": "logistic"}, "domain": {"name": "free"}}
    assert json.loads(quote.content) == {"dataset": "my census", "target": "y", "privacy": {"epsilon": 0.5}, **named}
    assert budget.url.raw_path == b"/v1/datasets/my%20census%3F/budget"


class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream of events that breaks off."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __iter__(self) -> Iterator[bytes]:
        yield self._text.encode()
        raise httpx.ReadError("gone")

    async def __aiter__(self) -> Any:
        yield self._text.encode()
        raise httpx.ReadError("gone")


def _event(state: str, completed: int) -> str:
    data = json.dumps({"state": state, "attempt": 1, "progress": {"done": completed, "total": 10}})
    return f"event: job\ndata: {data}\nid: 1.{completed}\n\n"


class Story:
    """A server on which one job runs; its stream breaks off after the first event."""

    def __init__(self, end: str = "done") -> None:
        self.end = end
        self.resumed: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/events"):
            self.resumed.append(request.headers.get("last-event-id"))
            if len(self.resumed) == 1:
                return httpx.Response(200, stream=Broken(": hello\n\n" + _event("running", 3)))
            return httpx.Response(200, text=": still here\n\n" + _event("running", 7) + _event(self.end, 10))
        if path.endswith("/model"):
            return httpx.Response(200, json=MODEL.model_dump(mode="json"))
        error = {"error": "job_failed"} if self.end == "failed" else {}
        return httpx.Response(200, json=_job(self.end if self.resumed else "running", **error))


@pytest.mark.slow
def test_result_follows_the_job_through_a_lost_connection() -> None:
    story, counts = Story(), []
    with _client(story) as purse:
        job = purse.jobs.get("job_a")
        model = job.result(progress=lambda event: counts.append(event.progress.done))
    assert counts == [3, 7, 10]
    assert story.resumed == [None, "1.3"]
    assert (job.state, repr(job)) == ("done", f"<model {job.id}: done>")
    assert model == MODEL


@pytest.mark.slow
def test_result_of_a_failed_job_is_an_error_and_of_a_finished_one_needs_no_stream() -> None:
    with _client(Story("failed")) as purse:
        job = purse.jobs.get("job_a")
        with pytest.raises(JobNotReleased, match="failed") as failed:
            job.result(progress=False)
        assert (failed.value.state, failed.value.error) == ("failed", "job_failed")
    story = Story()
    story.resumed.append(None)
    with _client(story) as purse:
        assert purse.jobs.get("job_a").result() == MODEL
    assert len(story.resumed) == 1


def test_result_raises_after_its_timeout_and_the_job_continues() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return httpx.Response(200, stream=Broken(_event("running", 1)))
        return httpx.Response(200, json=_job("running"))

    with _client(answer) as purse, pytest.raises(TimeoutError, match="goes on"):
        purse.jobs.get("job_a").result(timeout=0.0)


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_async_client_retries_and_resumes_like_the_blocking_one() -> None:
    story, keys, counts = Story(), [], []

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            keys.append(request.headers["idempotency-key"])
            if len(keys) == 1:
                raise httpx.ConnectError("refused")
            return httpx.Response(202, json=_job())
        if request.url.path == "/v1/datasets/ds_a":
            return _problem("not_found", 404, detail="no such dataset")
        return story(request)

    async with AsyncClient("http://purse.test", "secret", transport=httpx.MockTransport(answer)) as purse:
        with pytest.raises(ProblemError, match="no such dataset"):
            await purse.datasets.get("ds_a")
        job = await purse.jobs.submit(dataset="ds_a", target="y", privacy=PRIVACY)
        assert await job.result(progress=lambda event: counts.append(event.progress.done)) == MODEL
    assert counts == [3, 7, 10]
    assert story.resumed == [None, "1.3"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_both_clients_offer_the_same() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    from purse.client import aio, datasets, jobs
    from purse.client import sessions as of_sessions

    rooms = {"Client": aio, "Datasets": datasets, "Jobs": jobs, "JobHandle": jobs, "Tokens": aio}
    rooms |= {"Sessions": of_sessions, "SessionHandle": of_sessions}
    for name, room in rooms.items():
        assert public(getattr(client_module, name)) == public(getattr(room, f"Async{name}"))


def test_wrong_and_missing_keywords_are_named_with_the_callers_class() -> None:
    with _client(lambda _request: httpx.Response(500)) as purse:
        with pytest.raises(TypeError, match=r"^Jobs\.submit\(\): .*`slope_limit`\?$"):
            purse.jobs.submit(dataset="ds_a", target="y", privacy=1.0, slop_limit=1.0)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"^Client\.quote\(\) missing .*'privacy'"):
            purse.quote(dataset="ds_a")  # type: ignore[call-arg]
    with _client(lambda _request: httpx.Response(500)) as purse, pytest.raises(ProblemError):
        purse.tokens.create(name="ada", role="analyst")  # a keyword that the check of keywords uses itself
    with pytest.raises(TypeError, match=r"^AsyncClient\.forecast\(\): .*`wnated`"):
        _ = AsyncClient("http://x").forecast(dataset="d", target="y", wnated=0.9)  # type: ignore[call-arg]


def _forecast(request: httpx.Request) -> httpx.Response:
    """A forecast of one epsilon, with score epsilon / 4; a refusal of several."""
    body = json.loads(request.content)
    epsilons = body["privacy"].get("epsilons", ())
    if len(epsilons) != 1:
        return _problem("out_of_range", 422, detail="These runs exceed the work limit of a forecast.")
    [epsilon] = epsilons
    scored = {"epsilon": epsilon, "method": "dp_gd", "score": dict.fromkeys(("median", "low", "high"), epsilon / 4)}
    answer = {"dataset": "ds_a", "target": "y", "measure": "accuracy", "source": "declaration", "signal": 0.5}
    answer |= {"delta": 1e-6, "records": 100, "test_rows": 100, "twin": 0, "constant": 0.0, "optimum": 1.0}
    answer |= {"twin_records": 100, "runs": 3 if epsilon < 4 else 10, "at": [scored]}
    answer |= {"wanted": {"score": body["wanted"], "epsilon": None}, "rests_on": ["The same.", f"At {epsilon}."]}
    return httpx.Response(200, json=answer)


def test_a_forecast_beyond_the_work_limit_is_requested_epsilon_by_epsilon() -> None:
    """Issue 29, friction 28: one epsilon of a dataset with thousands of categories works, and six do not."""
    with _client(_forecast) as purse:
        forecast = purse.forecast(dataset="ds_a", target="y", epsilons=[4.0, 1.0, 2.0], wanted=0.5)
        usual = purse.forecast(dataset="ds_a", target="y", wanted=0.5)
    assert [(each.epsilon, each.score.median) for each in forecast.at] == [(1.0, 0.25), (2.0, 0.5), (4.0, 1.0)]
    assert forecast.wanted is not None
    assert (forecast.wanted.epsilon, forecast.runs) == (2.0, 3)
    assert forecast.rests_on == ["The same.", "At 1.0.", "At 2.0.", "At 4.0."]
    assert [each.epsilon for each in usual.at] == [0.1, 0.2, 0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize("violations", [None, [{"where": "body.signal", "what": "must be at most 0.99"}]])
def test_a_forecast_that_one_epsilon_does_not_mend_is_refused(violations: Any) -> None:
    server = Recorded(_problem("out_of_range", 422, detail="The target has one value.", violations=violations))
    with _client(server) as purse, pytest.raises(ProblemError, match="out_of_range"):
        purse.forecast(dataset="ds_a", target="y", epsilons=[1.0, 2.0])
    assert len(server.requests) == (2 if violations is None else 1)


def test_table1_sends_the_groups_and_reads_conditions_from_text() -> None:
    server = Recorded(httpx.Response(202, json=_job()))
    older, female = {"column": "age", "op": ">=", "value": 65}, {"column": "sex", "op": "==", "value": "f"}
    with _client(server) as purse:
        purse.statistics.table1(dataset="ds_a", by="ward", privacy=0.5)
        purse.statistics.table1(dataset="ds_a", by=("ward",), columns=["y"], where=["age >= 65", female], privacy=0.5)
    request = {"dataset": "ds_a", "by": ["ward"], "method": {"name": "table1"}, "privacy": {"epsilon": 0.5}}
    bodies = [json.loads(sent.content) for sent in server.requests]
    assert bodies == [request, request | {"columns": ["y"], "where": [older, female]}]


def test_signatures_list_every_option_and_these_are_the_fields_of_the_requests() -> None:
    """An option that the service learns is added to the client's types, or this test fails."""
    job, evaluation = {*JobRequest.model_fields, *StatisticRequest.model_fields}, {*EvaluationBody.model_fields}
    tuning, forecast = {*TuningRequest.model_fields}, {*ForecastRequest.model_fields}
    calibration = {*CalibrationRequest.model_fields}
    methods: dict[Any, set[str]] = {
        Client.quote: job | evaluation | tuning | {"model"},
        client_module.Jobs.submit: job | {"idempotency_key"},
        client_module.Jobs.tune: tuning | {"idempotency_key"},
        client_module.Jobs.evaluate: evaluation | {"idempotency_key", "model"},
        client_module.JobHandle.evaluate: evaluation,
        Client.forecast: forecast - {"privacy"} | {"epsilons", "delta"},
        Client.calibrate: calibration,
        client_module.Datasets.allot: {*AllotmentRequest.model_fields, "dataset", "analyst"},
    }
    for method, fields in methods.items():
        assert set(inspect.signature(method).parameters) - {"self"} == fields, method.__qualname__


def test_the_token_of_the_environment_is_sent_to_the_address_of_the_environment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def host_and_token(*address: str) -> tuple[str, str | None]:
        server = Recorded(httpx.Response(200, json={"keys": []}))
        with Client(*address, transport=httpx.MockTransport(server)) as purse:
            purse.keys()
        [request] = server.requests
        return request.url.host, request.headers.get("authorization")

    monkeypatch.setenv("PURSE_URL", "http://purse.test")
    monkeypatch.setenv("PURSE_TOKEN", "secret")
    assert host_and_token() == ("purse.test", "Bearer secret")
    assert host_and_token("http://other.test") == ("other.test", None)
    assert host_and_token("http://other.test", "mine") == ("other.test", "Bearer mine")
    monkeypatch.delenv("PURSE_URL")
    assert host_and_token() == ("127.0.0.1", "Bearer secret")


def test_a_twin_is_bytes_and_a_frame() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: a twin's frame is not tried")
    with _client(lambda _request: httpx.Response(200, content=b"age;x\n1;0,5\n2;1,5\n")) as purse:
        twin = purse.datasets.twin("ds_a")
    assert bytes(twin).startswith(b"age;x")
    frame = twin.to_frame(Dialect(delimiter=";", decimal=","))
    assert frame.to_dict("list") == {"age": [1, 2], "x": [0.5, 1.5]}


def test_the_annotations_of_the_blocking_client_are_the_types_that_it_returns() -> None:
    for method in (client_module.Jobs.submit, client_module.Jobs.get):
        assert inspect.signature(method).return_annotation is client_module.JobHandle
    assert not any(map(inspect.iscoroutinefunction, vars(client_module.Jobs).values()))
    assert "idempotency_key" in inspect.signature(client_module.Jobs.submit).parameters
    assert "budget_exhausted" in str(client_module.Jobs.submit.__doc__)


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_blocking_client_works_beside_a_running_loop_as_in_a_notebook() -> None:
    with _client(Story()) as purse:
        assert [event.state for event in purse.jobs.get("job_a").events()] == ["running", "running", "done"]
        assert purse.jobs.get("job_a").result(progress=False) == MODEL


def test_threads_share_one_blocking_client() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        time.sleep(0.01)
        return httpx.Response(200, json=_job() | {"id": request.url.path.rsplit("/")[-1]})

    identifiers = [f"job_{i}" for i in range(24)]
    with _client(answer) as purse, ThreadPoolExecutor(8) as pool:
        assert [job.id for job in pool.map(purse.jobs.get, identifiers)] == identifiers


class Watched(httpx.SyncByteStream):
    """A stream that ends with an error, if one is given, and knows whether it was closed."""

    def __init__(self, text: str, error: BaseException | None = None) -> None:
        self.text, self.error, self.closed = text, error, False

    def __iter__(self) -> Iterator[bytes]:
        yield self.text.encode()
        if self.error:
            raise self.error
        while True:
            yield b": still here\n\n"

    def close(self) -> None:
        self.closed = True


def test_an_interrupt_while_waiting_reaches_the_caller_and_closes_the_stream() -> None:
    stream = Watched(_event("running", 3), KeyboardInterrupt())

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=stream) if "events" in request.url.path else httpx.Response(200, json=_job())

    counts: list[int] = []
    with _client(answer) as purse:
        job = purse.jobs.get("job_a")
        with pytest.raises(KeyboardInterrupt):
            job.result(progress=lambda event: counts.append(event.progress.done))
        assert stream.closed
        assert job.refresh().state == "queued"  # the client remains usable
    assert counts == [3]


@pytest.mark.slow
def test_abandoned_events_close_their_stream() -> None:
    stream = Watched(_event("running", 3))

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=stream) if "events" in request.url.path else httpx.Response(200, json=_job())

    with _client(answer) as purse:
        for event in purse.jobs.get("job_a").events():
            assert event.progress.done == 3
            break
        gc.collect()
        assert stream.closed


def test_prediction_by_hand() -> None:
    rows: list[dict[str, object]] = [
        {"age": 25, "sex": "f"},  # 0 -> margin -1 + 0.5
        {"age": "80", "sex": " m "},  # clamped to 1 -> -1 + 2 - 0.5
        {"age": None, "sex": "?"},  # default 10 -> -0.6 -> -1 - 1.2 + 3
        NOBODY,
    ]
    margin = np.array([-0.5, 0.5, 0.8, 0.8])
    assert predict(MODEL, rows) == pytest.approx(1 / (1 + np.exp(-margin)), rel=1e-12)
    assert predict(MODEL, []).shape == (0,)


def test_prediction_by_softmax_is_a_probability_for_each_class() -> None:
    weights = [[2.0, 0.5, -0.5, 3.0], [0.0] * 4, [0.0, 0.0, 0.0, 1.0]]
    changes = {"loss": "softmax", "link": "softmax", "coefficients": weights, "intercept": [-1.0, 0.0, 1e3]}
    model = Model.model_validate(MODEL.model_dump() | changes | {"classes": ["a", "b", "c"]})
    rows: list[dict[str, object]] = [{"age": 25, "sex": "f"}, {"age": 50, "sex": "m"}]
    assert predict(model, rows).tolist() == [[0.0, 0.0, 1.0]] * 2  # a margin of 1000 leaves nothing
    level = model.model_copy(update={"intercept": [-1.0, 0.0, 0.0]})
    weighed = np.exp([[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0]])
    assert predict(level, rows) == pytest.approx(weighed / weighed.sum(axis=1, keepdims=True), rel=1e-12)
    assert predict(level, []).shape == (0, 3)
    with pytest.raises(ValueError, match="link softmax"):
        predict(level.model_copy(update={"classes": ["a", "b"]}), rows)
    with pytest.raises(ValueError, match="several rows"):
        predict(level.model_copy(update={"link": "logistic"}), rows)
    with pytest.raises(ValueError, match="coefficients"):
        predict(level.model_copy(update={"intercept": [0.0, 0.0]}), rows)


def test_prediction_by_sign_is_the_class_and_a_margin_of_0_is_the_negative_one() -> None:
    rule = MODEL.model_copy(update={"loss": "huber_hinge", "link": "sign"})
    rows: list[dict[str, object]] = [{"age": 25, "sex": "f"}, {"age": "80", "sex": " m "}, NOBODY]
    assert predict(rule, rows).tolist() == ["no", "yes", "yes"]
    level = rule.model_copy(update={"coefficients": [0.0] * 4, "intercept": 0.0})
    assert predict(level, [NOBODY]).tolist() == ["no"]
    with pytest.raises(ValueError, match="two classes"):
        predict(rule.model_copy(update={"classes": None}), [NOBODY])


def test_prediction_of_a_number_is_in_its_own_units_and_extreme_margins_are_finite() -> None:
    target = NumberColumn(name="y", type="number", lower=-10, upper=30)
    number = MODEL.model_copy(update={"link": "identity", "classes": None, "target": target})
    assert predict(number, [{"age": 25, "sex": "f"}]) == pytest.approx([10 + 20 * -0.5])
    steep = MODEL.model_copy(update={"intercept": -5e3})
    assert predict(steep, [{"age": 25, "sex": "f"}])[0] == 0.0
    assert predict(steep.model_copy(update={"intercept": 5e3}), [NOBODY])[0] == 1.0
    with pytest.raises(ValueError, match="coefficients"):
        predict(MODEL.model_copy(update={"features": COLUMNS[:1]}), [NOBODY])
    with pytest.raises(ValueError, match="link identity"):
        predict(number.model_copy(update={"target": COLUMNS[1]}), [NOBODY])


@pytest.mark.parametrize("default", [None, 12.5])
def test_numbers_are_encoded_as_the_server_encodes_them(default: float | None) -> None:
    column = NumberColumn(name="x", type="number", lower=-3.7, upper=41.3, default=default)
    texts = [
        "1",
        " 2.5 ",
        "-9",
        "1e2",
        ".5",
        "5.",
        "+3",
        "1_0",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "0x10",
        "",
        "five",
        "１",
    ]
    expected = encoder(column).read(pa.array(texts))[0]
    assert np.array_equal(encode(column, texts), expected)
    floats = [0.1, 17.3, -1e300, 1e300, float("nan"), float("inf"), 41.3, -3.7, 5e-324]
    assert np.array_equal(encode(column, floats), encoder(column).read(pa.array(floats))[0])
    mixed: list[object] = [True, 3, np.float32(2.5), np.int64(7), None, object(), 10**400]
    read = pa.array([1.0, 3.0, 2.5, 7.0, None, None, None], pa.float64())
    assert np.array_equal(encode(column, mixed), encoder(column).read(read)[0])


@pytest.mark.parametrize("coding", [{"origin": 0.0}, {"origin": 2.0, "scale": 5.0}, {"origin": -3.7}])
@pytest.mark.parametrize("default", [None, 0.5])
def test_numbers_with_an_origin_are_encoded_as_the_server_encodes_them(
    coding: dict[str, Any], default: float | None
) -> None:
    column = NumberColumn(name="x", type="number", lower=-3.7, upper=41.3, default=default, **coding)
    floats = [0.1, 17.3, -1e300, 1e300, float("nan"), 0.0, 2.0, 41.3, -3.7, 5e-324]
    codes = encode(column, floats)
    assert np.array_equal(codes, encoder(column).read(pa.array(floats))[0])
    low, high = column.code_range
    assert (low, high) == (codes.min(), codes.max())
    origin, scale = column.coding or (0.0, 0.0)
    changes = {"link": "identity", "classes": None, "target": column, "coefficients": [0.0] * 4, "intercept": 0.5}
    assert predict(MODEL.model_copy(update=changes), [NOBODY]) == pytest.approx([origin + scale * 0.5])


@pytest.mark.parametrize("default", [None, "b"])
def test_categories_are_encoded_as_the_server_encodes_them(default: str | None) -> None:
    named = ["a", "b", " c", "1", "0.5", "true", "1e+10", "0.000001", "1.5e-7", "-0", "100"]
    column = CategoryColumn(name="x", type="category", categories=named, default=default)

    def codes(values: list[Any]) -> list[float]:
        return list(encode(column, values))

    texts = ["a", " a", "c", " c", "b\t", "", "A", "other", "1"]
    assert codes(texts) == list(encoder(column).read(pa.array(texts))[0])
    floats = [1.0, 0.5, 1e10, 1e-6, 1.5e-7, -0.0, float("nan"), float("inf"), 100.0, 2.0]
    assert codes(floats) == list(encoder(column).read(pa.array(floats))[0])
    assert codes([True, False]) == list(encoder(column).read(pa.array([True, False]))[0])
    assert codes([1, 100, 7]) == list(encoder(column).read(pa.array([1, 100, 7]))[0])


def _receipt(model: Model) -> tuple[ReceiptDocument, KeySet]:
    plan = Plan((PlannedQuery("gradient", 4, Gaussian(), 40.0),))
    key = signing.generate_key()
    digest = hashlib.sha256(rfc8785.dumps(model.model_dump(mode="json"))).hexdigest()
    body = {"job": "job_a", "attempt": 1, "model_sha256": digest}
    entry: Entry = link(1, "released", body, GENESIS)
    receipt = receipts.build(
        receipts.ReleaseFacts(
            id="rcpt_a",
            dataset="ds_a",
            dataset_name="census",
            records=100,
            unit=Unit(),
            analyst="alice",
            job="job_a",
            method={"name": "dp_gd"},
            release_plan=ReleasePlan(plan, 1.0, 1e-6, "exact_gaussian", "1"),
            transcript=plan,
            model_sha256=digest,
            entry=entry,
            issued_at="2026-01-01T00:00:00Z",
        )
    )
    document = ReceiptDocument(receipt=receipt, signature=sign_json(receipt, key))
    return document, KeySet.model_validate(signing.jwks(key))


@pytest.mark.slow
def test_verify_signature_does_not_need_the_solvers_and_verify_does(tmp_path: Path) -> None:
    Receipt(*_receipt(MODEL)).save(tmp_path)
    (tmp_path / "others.json").write_text(_receipt(MODEL)[1].model_dump_json())
    code = """
import purse
receipt = purse.load("receipt.json", "keys.json")
receipt.verify_signature()
print("signed")
for wrong in (receipt.verify, purse.load("receipt.json", "others.json").verify_signature):
    try:
        wrong()
    except purse.ClientError as error:
        print(type(error).__name__, error)
"""
    result = python(WITHOUT + code, tmp_path)
    signed, lacking, unknown = result.stdout.splitlines()
    assert (signed, lacking.split()[0], unknown.split()[0]) == ("signed", "NotInstalled", "NotVerified")
    assert lacking.endswith("pip install 'privy-purse[solvers]'")


def test_receipt_is_verified_offline_against_saved_keys_only(tmp_path: Path) -> None:
    document, keys = _receipt(MODEL)
    path, saved = Receipt(document, keys).save(tmp_path / "kept")
    verification = load(path, saved).verify(model=MODEL)
    assert verification.holds
    assert verification.recomputed_epsilon is not None
    assert verification.recomputed_epsilon <= 1.0
    with pytest.raises(NotVerified, match="another model"):
        load(path, saved).verify(model=MODEL.model_copy(update={"intercept": 7.0}))
    _, strangers = _receipt(MODEL)
    with pytest.raises(NotVerified):
        load(path, saved).verify(keys=strangers)
    changed = document.model_copy(update={"receipt": {**document.receipt, "epsilon": 0.1}})
    with pytest.raises(NotVerified):
        Receipt(changed, keys).verify()
    for wrong in ({}, document.receipt | {"more": 1}, document.receipt | {"epsilon": "0.1"}):
        with pytest.raises(NotVerified) as malformed:
            Receipt(ReceiptDocument(receipt=wrong, signature=document.signature), keys).verify()
        assert isinstance(malformed.value.__cause__, ReceiptInvalid)
    with pytest.raises(NotVerified, match="not a receipt"):
        load(saved, saved)
    with pytest.raises(NotVerified, match="key set"):
        load(path, path)


def test_a_model_restored_from_its_file_has_the_digest_in_the_receipt(tmp_path: Path) -> None:
    awkward = MODEL.model_copy(update={"coefficients": [1e-300, -0.0, 1e21, 0.1 + 0.2], "intercept": 1.0})
    path = tmp_path / "model.json"
    path.write_text(json.dumps(awkward.model_dump(mode="json"), indent=2))
    restored = Model.model_validate_json(path.read_bytes())
    document, keys = _receipt(awkward)
    assert Receipt(document, keys).verify(model=restored).holds


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_async_client_works_with_the_application_itself(tmp_path: Path) -> None:
    spec = {"name": "people", "columns": SPEC["columns"], "budget": {"epsilon": 1.0, "delta": 1e-6}}
    table = csv.read_csv(pa.BufferReader(people()))

    with live(tmp_path / "home") as running:
        transport = httpx.ASGITransport(running.app)
        async with AsyncClient("http://purse.test", running.token, transport=transport) as purse:
            await purse.ready()
            dataset = await purse.datasets.upload(table, spec=spec)
            settings: dict[str, Any] = {"dataset": "people", "target": "income", "privacy": 0.5}
            assert (await purse.quote(**settings)).fits
            job = await purse.jobs.submit(**settings, method="dp_svrg")
            assert job.job.quote.method.name == "dp_svrg"
            assert job.job.quote.method["epochs"] >= 1
            model = await job.result(timeout=PATIENCE)
            receipt = await job.receipt()
            assert receipt.verify(model=model).holds
            assert (await purse.verify(receipt)).valid
            assert [listed_job.id for listed_job in await purse.jobs.list()] == [job.id]
            assert (await purse.datasets.budget(dataset)).jobs == 1
            with pytest.raises(ProblemError) as refused:
                await purse.jobs.submit(**settings | {"privacy": 1})
            assert refused.value.code == "budget_exhausted"
            ledger, head = await purse.ledger(dataset.id), await purse.ledger_head(dataset.id)
            assert (head.sequence, head.hash) == (receipt.head.sequence, receipt.head.hash)
            assert receipt.verify(ledger=ledger, heads=[receipt.head]).chain
            with pytest.raises(NotVerified, match="entries are missing"):
                receipt.verify(ledger=ledger[:-1], heads=[receipt.head])
    assert 0 < model.predict([{"age": 40, "sex": "f"}])[0] < 1
    assert set(model.named) >= {"age", "sex = f", "intercept"}
    assert [entry.kind for entry in ledger] == ["opened", "charged", "started", "released"]


@pytest.mark.anyio
async def test_a_session_is_closed_at_the_end_of_its_with_block_but_not_after_an_error(tmp_path: Path) -> None:
    spec = {"name": "people", "columns": SPEC["columns"], "budget": {"epsilon": 1.0, "delta": 1e-6}}
    gaussian = {"type": "GaussianDpEvent", "noise_multiplier": 40.0}

    with live(tmp_path / "home") as running, Client(running.url, running.token) as purse:
        purse.datasets.upload(BytesIO(people()), spec=spec)
        transport = httpx.ASGITransport(running.app)
        async with AsyncClient("http://purse.test", running.token, transport=transport) as waiting:
            opened = await waiting.sessions.open(dataset="people", events=[gaussian, gaussian], lifetime=600)
            async with opened:
                assert opened.noise_multiplier is None
                assert (await opened.record(event=1)).plan[1].recorded == 1
            assert opened.state == "closed"
            assert (await waiting.sessions.get(opened.id)).session == opened.session
            assert (await opened.receipt()).verify().holds
        session = purse.sessions.open(dataset="people", privacy=0.3, steps=10, title="a survey")
        session.record(3)
        with pytest.raises(ZeroDivisionError) as failed, session:
            _ = 1 // 0  # a refund after an error that depends on the data would reveal the error
        assert f"{session.id} stays open" in failed.value.__notes__[0]
        assert (session.state, session.refresh().plan[0].recorded) == ("open", 3)
        assert session.noise_multiplier is not None
        with session:
            pass
        with pytest.raises(ProblemError) as refused:
            session.record()
        assert refused.value.code == "session_ended"
        assert session.close() == session.refresh() == session.session
        ledger = purse.ledger("people")
        assert session.receipt().verify(ledger=ledger).chain
        assert next(iter(purse.sessions.list(dataset="people"))).id == session.id


class _Waits:
    """A server that refuses a few times and says how long to wait; the waits themselves are only counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: int, header: str | None, status: int = 429) -> None:
        self.refusals, self.header, self.status = refusals, header, status
        self.calls = 0
        self.slept: list[float] = []

        async def later(_driver: object, seconds: float) -> None:
            self.slept.append(seconds)

        for driver in (sending.Waiting, sending.Blocking):
            monkeypatch.setattr(driver, "sleep", later)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        if self.calls <= self.refusals:
            refused = _problem("too_many_requests" if self.status == 429 else "overloaded", self.status)
            if self.header is not None:
                refused.headers["Retry-After"] = self.header
            return refused
        if request.url.path.endswith("/events"):
            return httpx.Response(200, text=_event("done", 10))
        return httpx.Response(200, json=QUOTE)

    def quote(self, is_async: bool) -> None:
        settings: dict[str, Any] = {"dataset": "ds_a", "target": "y", "privacy": PRIVACY}
        if not is_async:
            with _client(self) as purse:
                assert purse.quote(**settings).fits
            return

        async def ask() -> None:
            transport = httpx.MockTransport(self)
            async with AsyncClient("http://purse.test", "secret", transport=transport) as purse:
                assert (await purse.quote(**settings)).fits

        asyncio.run(ask())


@pytest.mark.parametrize("is_async", [False, True])
class TestRetryAfter:
    @pytest.mark.parametrize("status", [429, 503])
    def test_is_waited_for(self, monkeypatch: pytest.MonkeyPatch, is_async: bool, status: int) -> None:
        server = _Waits(monkeypatch, 3, "5", status)
        server.quote(is_async)
        assert (server.calls, server.slept) == (4, [5.0, 5.0, 5.0])

    def test_not_for_ever(self, monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
        server = _Waits(monkeypatch, 99, "5")
        with pytest.raises(ProblemError) as raised:
            server.quote(is_async)
        assert (raised.value.code, raised.value.retry_after) == ("too_many_requests", 5.0)
        assert (server.calls, server.slept) == (4, [5.0, 5.0, 5.0])

    @pytest.mark.parametrize("header", ["61", "999999999", "9" * 400, "-1", "nan", "inf", "1e9", "soon", "", None])
    def test_not_for_long_and_not_for_nonsense(
        self, monkeypatch: pytest.MonkeyPatch, is_async: bool, header: str | None
    ) -> None:
        server = _Waits(monkeypatch, 1, header)
        with pytest.raises(ProblemError):
            server.quote(is_async)
        assert (server.calls, server.slept) == (1, [])

    def test_does_not_wait_after_other_errors(self, monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
        server = _Waits(monkeypatch, 1, "5", 500)
        with pytest.raises(ProblemError):
            server.quote(is_async)
        assert server.slept == []


def test_an_upload_is_not_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Waits(monkeypatch, 1, "5")
    with _client(server) as purse, pytest.raises(ProblemError) as raised:
        purse.datasets.upload(BytesIO(b"a\n1\n"), spec=SPEC)
    assert (raised.value.retry_after, server.calls, server.slept) == (5.0, 1, [])


def test_a_stream_is_requested_again_while_the_server_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    server = _Waits(monkeypatch, 2, "7", 503)
    sender = sending.Sender(sending.Blocking(httpx.Client(transport=httpx.MockTransport(server), base_url="http://x")))
    events = list(sending.each(sender.follow(EventStream("job_a", None))))
    assert [event.state for event in events] == ["done"]
    assert [seconds for seconds in server.slept if seconds > 5] == [7.0, 7.0]


def test_the_blocking_driver_closes_and_refuses_a_coroutine_that_needs_an_event_loop() -> None:
    steps = []

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            steps.append("closed")

    with pytest.raises(RuntimeError, match="event loop"):
        sending.run(waits())
    assert steps == ["closed"]


@pytest.mark.anyio
async def test_a_refused_stream_is_the_servers_problem_on_an_event_loop_too() -> None:
    transport = httpx.MockTransport(lambda _request: _problem("not_found", 404, detail="no such job"))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        stream = EventStream("job_a", None)
        with pytest.raises(ProblemError, match="no such job"):
            async with sending.Waiting(http).lines(stream.call(), stream.read_timeout()):
                pytest.fail("nothing is read")


@pytest.mark.parametrize("step", [".", "..", "ada/..", "people/grants/ada"])
def test_names_that_lead_to_another_path_are_refused(step: str) -> None:
    """Otherwise withdrawing the grant of `..` would delete the dataset."""
    with pytest.raises(ValueError, match="Use the id"):
        api_path("datasets", "ds_a", "grants", step)
    assert api_path("datasets", "ds_a", "grants", "a.b..") == "/v1/datasets/ds_a/grants/a.b.."
