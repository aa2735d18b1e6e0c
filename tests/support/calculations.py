"""Calculations inside the test's process: on a thread, with the caches that all tests share."""

from fastapi.concurrency import run_in_threadpool

from app.calculation.questions import ANSWER, QUESTION, answer
from app.datasets.profiles import PublishedProfile
from app.datasets.store import DatasetRow
from app.quotes import pricing, requests
from app.quotes.pricing import Priced
from app.settings import Settings
from app.wire import JobRequest, StatisticRequest, TuningRequest


class InlineCalculators:
    """A substitute for the service's calculating process that answers in this process."""

    def start(self) -> None:
        """There is nothing to start."""

    def is_warm(self) -> bool:
        """At once."""
        return True

    async def ask(self, question: bytes) -> bytes:
        """Return the answer, serialised and parsed as between processes."""
        result = await run_in_threadpool(answer, QUESTION.validate_json(question))
        return ANSWER.dump_json(result)

    def close(self) -> None:
        """There is nothing to close."""


def price(
    dataset: DatasetRow,
    request: JobRequest | StatisticRequest | TuningRequest,
    settings: Settings,
    profile: PublishedProfile | None = None,
) -> Priced:
    """Return the price of a request, computed in this process."""
    requested = requests.read(dataset, request, settings, profile)
    return pricing.priced(requested, answer(requested.question))
