"""What a monitor may see: requests, prices, jobs, leases, budgets. Nothing of the data, and no time that tells of it.

A job's time is that at which its end was told, a point of the public grid; what may bring data is counted and not
timed. Every label is of a closed list: routes, methods, statuses, states, reasons.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from accounting.records.ledger import share
from app.http.middleware import Over
from app.jobs import store
from app.jobs.leases import Holder
from app.ledger.store import states
from app.operations.readiness import REASONS
from app.persistence.session import Database
from app.persistence.tables import jobs

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = ("queued", "running", "done", "failed", "cancelled")
disable_created_metrics()  # type: ignore[no-untyped-call]  # moments, of which nobody has need here
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
_GRID: Final = tuple(2.0**k for k in range(-2, 15))  # the grid of app.jobs.grid, to four hours and a half
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Watched:
    """What a running service shows of itself whenever it is asked.

    Parameters
    ----------
    database : whose jobs and ledgers are counted
    holder : an observer of leases, who holds none
    without_room : jobs that found a disk full
    behind : ledgers whose head is newer than the epoch's
    slots : attempts that may run here at once
    reasons : why the service is not ready
    """

    database: Database
    holder: Holder
    without_room: Callable[[], int]
    behind: Callable[[], int]
    slots: Callable[[], int]
    reasons: Callable[[], Collection[str]]


class Metrics:
    """Counters of one server process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "purse_requests", "Requests by method, route template and status.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "purse_request_seconds",
            "Seconds that requests took, but for those that may bring data.",
            labels,
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._prices = Counter(
            "purse_prices",
            "Prices by where they came from: calculated, or remembered.",
            ("source",),
            registry=self._registry,
        )
        self._calculations = Histogram(
            "purse_calculation_seconds",
            "Seconds that the calculation of a price took.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._ends = Histogram(
            "purse_job_seconds",
            "Seconds from a job's submission to the point of the public grid at which its end was told here.",
            ("state",),
            buckets=_GRID,
            registry=self._registry,
        )
        self._service = _Service()
        self._registry.register(self._service)

    def watch(self, watched: Watched) -> None:
        """From now on the service is looked at, too, whenever somebody asks."""
        self._service.watched = watched

    def count(self, over: Over) -> None:
        """One request more. Methods and routes are of closed lists, so that nobody can grow the table."""
        labels = (over.method if over.method in _METHODS else "other", over.route, str(over.status))
        self._requests.labels(*labels).inc()
        if over.seconds is not None:
            self._seconds.labels(*labels).observe(over.seconds)

    def priced(self, seconds: float | None) -> None:
        """One price more; None if it was remembered."""
        self._prices.labels("remembered" if seconds is None else "calculated").inc()
        if seconds is not None:
            self._calculations.observe(seconds)

    def told(self, state: str, due: float) -> None:
        """One job more whose end was told, `due` seconds after its submission."""
        self._ends.labels(state).observe(due)

    def text(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self._registry)


class _Service(Collector):
    watched: Watched | None = None

    def describe(self) -> list[Metric]:
        """Nothing is asked before somebody does."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Without its database, what the process knows alone."""
        if self.watched is None:
            return
        with suppress(sa.exc.SQLAlchemyError, OSError):  # which is among the reasons
            yield from _kept(self.watched)
        now, what = set(self.watched.reasons()), "Whether this keeps the server from being ready."
        yield _labelled("purse_not_ready", what, "reason", {reason: reason in now for reason in REASONS})
        what = "Jobs that a worker's disk had no room for, to be tried again."
        yield GaugeMetricFamily("purse_jobs_without_room", what, value=self.watched.without_room())
        what = "Ledgers whose newest head is not in the epoch: it cannot be written, if that lasts."
        yield GaugeMetricFamily("purse_epoch_behind", what, value=self.watched.behind())
        what = "Attempts that may run at once on what this server hands jobs to."
        yield GaugeMetricFamily("purse_worker_slots", what, value=self.watched.slots())


def _kept(watched: Watched) -> Iterator[Metric]:
    """What the database says: one grouped count over an index, the beats of who works, and where the ledgers stand."""
    with watched.database.read() as connection:
        rows = connection.execute(sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state))
        counts = {row[0]: row[1] for row in rows}
        beats = store.working(connection)
        shares = [share(state, state.spent) for state in states(connection)]
    yield _labelled("purse_jobs", "Jobs by state.", "state", {state: counts.get(state, 0) for state in _STATES})
    yield GaugeMetricFamily("purse_queue_length", "Jobs that wait for a worker.", value=counts.get("queued", 0))
    what = "Holders of running jobs."
    yield GaugeMetricFamily("purse_holders", what, value=len(beats))
    what = "Seconds for which the stillest of them has not moved its counter; the lease is over at PURSE_LEASE_SECONDS."
    yield GaugeMetricFamily("purse_lease_age_seconds", what, value=watched.holder.stillest(beats))
    what = "The largest part of a budget that is spent, 0 to 1, over all ledgers."
    yield GaugeMetricFamily("purse_largest_share", what, value=max(shares, default=0.0))
    buckets = [(str(bound), float(sum(share <= bound for share in shares))) for bound in _SHARES]
    buckets.append(("+Inf", float(len(shares))))
    yield GaugeHistogramMetricFamily("purse_budget_share", "Ledgers by the part that is spent.", buckets, sum(shares))


def _labelled(name: str, what: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, what, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family
