"""Metrics for a monitor: requests, prices, jobs, sessions, leases, budgets. No value and no time depends on the data.

The duration of a job lasts until its end is reported, at a point of the public grid. Requests that may carry data are
counted but not timed. Every label has a closed list of values: routes, methods, statuses, states, reasons.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from accounting.records.ledger import LedgerState, share
from app.http.middleware import FinishedRequest
from app.jobs import store
from app.jobs.leases import Holder
from app.operations.readiness import REASONS
from app.persistence.session import Database
from app.persistence.tables import jobs, ledgers
from app.sessions import store as session_store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = ("queued", "running", "done", "failed", "cancelled")
disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times of the counters, which Prometheus does not need
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)
_JOB_SECONDS: Final = tuple(2.0**k for k in range(-2, 15))  # the grid of app.jobs.grid, up to 4.5 hours
_REMEMBERED_SHARES = 10_000  # each with the text of its ledger state, below 1 kB
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Watched:
    """The parts of a running service that are read whenever metrics are requested.

    Parameters
    ----------
    database : database whose jobs and ledgers are counted
    holder : an observer of leases, which holds none
    waiting_for_disk : returns the number of jobs whose worker had a full disk
    behind : returns the number of ledgers and sessions whose head is newer than the published one
    slots : returns how many attempts may run at once
    reasons : returns why the service is not ready
    """

    database: Database
    holder: Holder
    waiting_for_disk: Callable[[], int]
    behind: Callable[[], int]
    slots: Callable[[], int]
    reasons: Callable[[], Collection[str]]


class Metrics:
    """Counters of one server process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        labels = ("method", "route", "status")
        self._requests = counter("purse_requests", "Requests by method, route template and status.", labels)
        self._seconds = histogram(
            "purse_request_seconds",
            "Duration of requests in seconds, without those that may carry data.",
            labels,
            buckets=_REQUEST_SECONDS,
        )
        self._prices = counter("purse_prices", "Prices by source: calculated, or remembered.", ("source",))
        self._calculations = histogram(
            "purse_calculation_seconds",
            "Duration of the calculation of a price in seconds.",
            buckets=_REQUEST_SECONDS,
        )
        self._ends = histogram(
            "purse_job_seconds",
            "Seconds from the submission of a job to the report of its end, at a point of the public grid.",
            ("state",),
            buckets=_JOB_SECONDS,
        )
        self._answers = counter("purse_session_answers", "Answers that sessions recorded.")
        self._service = _Service()
        self._registry.register(self._service)

    def watch(self, watched: Watched) -> None:
        """Include this service in the metrics from now on."""
        self._service.watched = watched

    def count(self, request: FinishedRequest) -> None:
        """Count a request. Labels come from closed lists, so that callers cannot add metrics without end."""
        labels = (request.method if request.method in _METHODS else "other", request.route, str(request.status))
        self._requests.labels(*labels).inc()
        if request.seconds is not None:
            self._seconds.labels(*labels).observe(request.seconds)

    def priced(self, seconds: float | None) -> None:
        """Count a price; `seconds` is None if the price was remembered."""
        self._prices.labels("remembered" if seconds is None else "calculated").inc()
        if seconds is not None:
            self._calculations.observe(seconds)

    def count_job(self, state: str, seconds: float) -> None:
        """Count a job whose end was reported, `seconds` after its submission."""
        self._ends.labels(state).observe(seconds)

    def count_answers(self, answers: int) -> None:
        """Count answers that a session recorded."""
        self._answers.inc(answers)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _Service(Collector):
    watched: Watched | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; if the database does not answer, only those of this process."""
        if self.watched is None:
            return
        with suppress(sa.exc.SQLAlchemyError, OSError):  # purse_not_ready then has the reason `database`
            yield from _stored(self.watched)
        reasons = set(self.watched.reasons())
        yield _labelled(
            "purse_not_ready",
            "1 if this reason makes the server not ready.",
            "reason",
            {reason: reason in reasons for reason in REASONS},
        )
        yield GaugeMetricFamily(
            "purse_jobs_without_room",
            "Jobs that are tried again later, because the disk of a worker was full.",
            value=self.watched.waiting_for_disk(),
        )
        yield GaugeMetricFamily(
            "purse_epoch_behind",
            "Ledgers and sessions with an unpublished head. If this lasts, the epoch file cannot be written.",
            value=self.watched.behind(),
        )
        yield GaugeMetricFamily(
            "purse_worker_slots",
            "Attempts that may run at once on the workers that this server uses.",
            value=self.watched.slots(),
        )


def _stored(watched: Watched) -> Iterator[Metric]:
    """Yield the gauges of the database: one grouped count over an index, the heartbeats, and the shares of ledgers."""
    with watched.database.read() as connection:
        rows = connection.execute(sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state))
        counts = {row[0]: row[1] for row in rows}
        of_sessions = session_store.count_by_state(connection, watched.database.timestamp())
        beats = store.working(connection)
        of_ledgers = spent_shares(connection)
    shares = [spent for spent in of_ledgers if spent is not None]
    yield _labelled("purse_jobs", "Jobs by state.", "state", {state: counts.get(state, 0) for state in _STATES})
    yield _labelled("purse_sessions", "Sessions by state.", "state", of_sessions)
    yield GaugeMetricFamily("purse_queue_length", "Jobs that wait for a worker.", value=counts.get("queued", 0))
    yield GaugeMetricFamily("purse_holders", "Servers that hold running jobs.", value=len(beats))
    yield GaugeMetricFamily(
        "purse_lease_age_seconds",
        "Greatest time since the last heartbeat of a holder; its lease expires at PURSE_LEASE_SECONDS.",
        value=watched.holder.stillest(beats),
    )
    yield GaugeMetricFamily(
        "purse_ledgers_unreadable",
        "Ledgers whose stored state cannot be read. Nothing can be charged on them.",
        value=of_ledgers.count(None),
    )
    yield GaugeMetricFamily(
        "purse_largest_share",
        "Greatest spent share of a budget, 0 to 1, over all other ledgers.",
        value=max(shares, default=0.0),
    )
    buckets = [(str(bound), float(sum(spent <= bound for spent in shares))) for bound in _SHARES]
    buckets.append(("+Inf", float(len(shares))))
    yield GaugeHistogramMetricFamily(
        "purse_budget_share", "Ledgers by the spent share of their budget.", buckets, sum(shares)
    )


def spent_shares(connection: sa.Connection) -> list[float | None]:
    """Return the spent share of the budget of each ledger, or None for a ledger whose state cannot be read.

    Only states that have changed since the last call are parsed.
    """
    return [_spent_share(document) for document in connection.scalars(sa.select(ledgers.c.state))]


@lru_cache(maxsize=_REMEMBERED_SHARES)
def _spent_share(document: str) -> float | None:
    with suppress(ValueError):  # also of the accounting
        state = LedgerState.from_json(json.loads(document))
        return share(state, state.spent)
    return None


def _labelled(name: str, description: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, description, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family
