"""Who hears of each request that is over, and of each job."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.http.middleware import Over
from app.operations.metrics import Metrics
from app.persistence.files import StartRefused
from app.settings import Settings

if TYPE_CHECKING:
    from app.operations.tracing import Traces


def traces_of(settings: Settings) -> "Traces | None":
    """Where spans go, if they go anywhere; `StartRefused` without the extra."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from app.operations.tracing import Traces  # late: an extra
    except ModuleNotFoundError:
        raise StartRefused(
            "PURSE_OTLP_ENDPOINT needs the extra `tracing`: pip install 'privy-purse[tracing]'"
        ) from None
    return Traces(settings.otlp_endpoint)


def job_tellers(metrics: Metrics, traces: "Traces | None") -> Callable[[str, float], None]:
    """Counts each job whose end was told, and makes a span of it."""

    def tell(state: str, seconds: float) -> None:
        metrics.told(state, seconds)
        if traces is not None:
            traces.tell_job(state, seconds)

    return tell


def tellers(metrics: Metrics, traces: "Traces | None") -> Callable[[Over], None]:
    """Counts each request that is over, and makes a span of it."""

    def tell(over: Over) -> None:
        metrics.count(over)
        if traces is not None:
            traces.tell(over)

    return tell
