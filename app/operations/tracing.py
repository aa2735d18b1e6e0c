"""Spans of requests and jobs, for an OTLP collector: the extra `tracing`, loaded if PURSE_OTLP_ENDPOINT is set.

A span of a request contains what a log line does: method, route template, status, request id. Spans are created when
the request has ended, and a request that may carry data, whose duration is not published, has none. The span of a job
lasts from its submission to the point of the grid at which its end is reported. It names the submitting request.
"""

import time

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.http.middleware import REQUEST, FinishedRequest


class Traces:
    """An exporter of spans.

    Parameters
    ----------
    endpoint : address of the collector for traces
    """

    def __init__(self, endpoint: str) -> None:
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "privy-purse"}), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("purse")

    def send_request(self, request: FinishedRequest) -> None:
        """Send the span of a request, as a part of the caller's trace if the caller named one."""
        if request.seconds is None:
            return
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{request.method} {request.route}",
            context=TraceContextTextMapPropagator().extract({"traceparent": request.parent}),
            kind=SpanKind.SERVER,
            start_time=end - round(1e9 * request.seconds),
            attributes={
                "http.request.method": request.method,
                "http.route": request.route,
                "http.response.status_code": request.status,
                "purse.request_id": request.request_id,
            },
        )
        if request.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)

    def send_job(self, state: str, seconds: float) -> None:
        """Send the span of a job. Call this in the context of the request that submitted the job."""
        end = time.time_ns()
        attributes = {"purse.job_state": state, "purse.request_id": REQUEST.get() or "-"}
        start = end - round(1e9 * seconds)
        self._tracer.start_span("job", context=Context(), start_time=start, attributes=attributes).end(end)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()
