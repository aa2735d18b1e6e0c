"""The observers of finished requests and jobs: metrics, and traces if they are configured."""

from typing import TYPE_CHECKING

from app.http.middleware import FinishedRequest
from app.operations.metrics import Metrics
from app.persistence.files import StartRefused
from app.settings import Settings

if TYPE_CHECKING:
    from app.operations.tracing import Traces


class Observers:
    """The metrics of this process, and the traces that it sends.

    Raises
    ------
    StartRefused
        if the settings enable traces, and the extra `tracing` is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self.metrics = Metrics()
        self._traces = _traces(settings)

    def request_ended(self, request: FinishedRequest) -> None:
        """Count a request and trace it."""
        self.metrics.count(request)
        if self._traces is not None:
            self._traces.send_request(request)

    def job_ended(self, state: str, seconds: float) -> None:
        """Count a job whose end was reported, `seconds` after its submission, and trace it."""
        self.metrics.count_job(state, seconds)
        if self._traces is not None:
            self._traces.send_job(state, seconds)

    def close(self) -> None:
        """Send the remaining traces."""
        if self._traces is not None:
            self._traces.close()


def _traces(settings: Settings) -> "Traces | None":
    if settings.otlp_endpoint is None:
        return None
    try:
        from app.operations.tracing import Traces  # late: an extra
    except ModuleNotFoundError:
        raise StartRefused(
            "PURSE_OTLP_ENDPOINT is set, but the extra `tracing` is not installed. Run "
            "pip install 'privy-purse[tracing]', or unset PURSE_OTLP_ENDPOINT"
        ) from None
    return Traces(settings.otlp_endpoint)
