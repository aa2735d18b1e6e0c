"""Spans, where an operator wants them: what a line of the log holds, and nothing more."""

import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import app.main
from app.operations import tracing
from app.persistence.files import StartRefused
from app.settings import Settings
from tests.service.conftest import MakeService
from tests.support.service import JOB

_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.slow
def test_a_span_holds_codes_and_is_part_of_its_callers_trace(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(tracing, "OTLPSpanExporter", lambda endpoint: exporter)  # noqa: ARG005
    with make_service(tmp_path, otlp_endpoint="http://collector:4318/v1/traces") as service:
        dataset = service.dataset(name="canary4711")
        headers = {"traceparent": f"00-{_TRACE}-{_SPAN}-01", "baggage": "who=canary4711", "User-Agent": "canary4711"}
        job = JOB | {"dataset": dataset}
        answer = service.call("analyst", "POST", "/v1/jobs?canary4711=1", json=job, headers=headers)
        submitted = service.call("analyst", "POST", "/v1/jobs", json=job)
        service.finished(submitted.json()["id"])
    spans = exporter.get_finished_spans()
    names = {span.name for span in spans}
    assert "POST /v1/jobs" in names
    assert "POST /v1/datasets" not in names, "the duration of an upload may depend on the file"
    spans_with_ids = [(span, span.attributes["purse.request_id"]) for span in spans if span.attributes]
    (request_span,) = (span for span, request_id in spans_with_ids if request_id == answer.headers["X-Request-ID"])
    spans_by_name = {
        span.name: span for span, request_id in spans_with_ids if request_id == submitted.headers["X-Request-ID"]
    }
    assert set(spans_by_name) == {"POST /v1/jobs", "job"}
    assert set(spans_by_name["job"].attributes or ()) == {"purse.job_state", "purse.request_id"}
    assert request_span.context is not None
    assert request_span.parent is not None
    assert (f"{request_span.context.trace_id:032x}", f"{request_span.parent.span_id:016x}") == (_TRACE, _SPAN)
    allowed = {"http.request.method", "http.route", "http.response.status_code", "purse.request_id"}
    assert all(set(span.attributes or ()) == allowed and not span.events for span in spans if span.name != "job")
    text = "".join(span.to_json() for span in spans)
    for secret in ("canary4711", dataset, *service.tokens.values()):
        assert secret not in text


def test_without_the_extra_a_start_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "app.operations.tracing", None)
    with pytest.raises(StartRefused, match=r"privy-purse\[tracing\]"):
        app.main.create_app(Settings(home=tmp_path, otlp_endpoint="https://collector/v1/traces"))
