"""Spans of requests and jobs, for a collector that speaks OTLP: the extra `tracing`, loaded for PURSE_OTLP_ENDPOINT.

A span holds what a line of the log does: method, route template, status, request id. It is made when the request is
over, so that one which may have brought data, whose time is nobody's, leaves none. A job's goes from its submission to
the point of the grid at which its end was told, and names the request that submitted it.
"""

import time

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.http.middleware import REQUEST, Over


class Traces:
    """Where spans go.

    Parameters
    ----------
    endpoint : the collector's address for traces
    exporter : a test's, instead of one to there
    """

    def __init__(self, endpoint: str, exporter: SpanExporter | None = None) -> None:
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "privy-purse"}), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("purse")

    def tell(self, over: Over) -> None:
        """One span, a part of the caller's trace if it named one."""
        if over.seconds is None:
            return
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"{over.method} {over.route}",
            context=TraceContextTextMapPropagator().extract({"traceparent": over.parent}),
            kind=SpanKind.SERVER,
            start_time=ended - round(1e9 * over.seconds),
            attributes={
                "http.request.method": over.method,
                "http.route": over.route,
                "http.response.status_code": over.status,
                "purse.request_id": over.request_id,
            },
        )
        if over.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def tell_job(self, state: str, seconds: float) -> None:
        """One span of a job, said in the request that submitted it."""
        ended = time.time_ns()
        told = {"purse.job_state": state, "purse.request_id": REQUEST.get() or "-"}
        began = ended - round(1e9 * seconds)
        self._tracer.start_span("job", context=Context(), start_time=began, attributes=told).end(ended)

    def close(self) -> None:
        """Sends what waits."""
        self._provider.shutdown()
