"""What a monitor may see: how many requests ended how, and how many jobs are in which state. Nothing of the data."""

from collections.abc import Callable, Iterator

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from accounting.records.ledger import share
from app.ledger.store import states
from app.persistence.session import Database
from app.persistence.tables import jobs

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = ("queued", "running", "done", "failed", "cancelled")
disable_created_metrics()  # type: ignore[no-untyped-call]  # moments, of which nobody has need here
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Counters of one server process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "purse_requests",
            "Requests by method, route template and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._jobs = _Jobs()
        self._registry.register(self._jobs)

    def watch(self, database: Database, without_room: Callable[[], int], behind: Callable[[], int]) -> None:
        """From now on the jobs in this database are counted, too, whenever asked, those that found a disk full, and the
        ledgers whose head is newer than the epoch's.
        """
        self._jobs.database, self._jobs.without_room, self._jobs.behind = database, without_room, behind

    def count(self, method: str, route: str, status: int) -> None:
        """One request more. Methods and routes are of closed lists, so that nobody can grow the table."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()

    def text(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self._registry)


class _Jobs(Collector):
    database: Database | None = None
    without_room: Callable[[], int] = staticmethod(lambda: 0)
    behind: Callable[[], int] = staticmethod(lambda: 0)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One grouped count, over an index."""
        counts: dict[str, int] = {}
        if self.database is not None:
            with self.database.read() as connection:
                rows = connection.execute(sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state))
                counts = {row[0]: row[1] for row in rows}
        yield from _families(counts)
        what = "Jobs that a worker's disk had no room for, to be tried again."
        yield GaugeMetricFamily("purse_jobs_without_room", what, value=self.without_room())
        what = "Ledgers whose newest head is not in the epoch: it cannot be written, if that lasts."
        yield GaugeMetricFamily("purse_epoch_behind", what, value=self.behind())
        what = "The largest part of a budget that is spent, 0 to 1, over all ledgers."
        yield GaugeMetricFamily("purse_largest_share", what, value=self._largest_share())

    def _largest_share(self) -> float:
        if self.database is None:
            return 0.0
        with self.database.read() as connection:
            return max((share(state, state.spent) for state in states(connection)), default=0.0)


def _families(counts: dict[str, int]) -> Iterator[GaugeMetricFamily]:
    family = GaugeMetricFamily("purse_jobs", "Jobs by state.", labels=("state",))
    for state in _STATES:
        family.add_metric((state,), counts.get(state, 0))
    yield family
    yield GaugeMetricFamily("purse_queue_length", "Jobs that wait for a worker.", value=counts.get("queued", 0))
