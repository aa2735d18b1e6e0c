"""Webhooks and their messages in the database. Every function runs inside the caller's transaction.

A message is stored in the transaction that publishes the end of its job, and deleted once it was accepted or given up.
A sender leases the webhook meanwhile, so that each webhook gets one message at a time from all servers.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.http.lists import Paging
from app.persistence.session import new_id
from app.persistence.tables import deliveries, identities, jobs, webhooks
from purse.wire.jobs import JobState

LEASE_SECONDS = 60.0  # for one attempt, which then has failed
RETRY_DELAYS_SECONDS = (10.0, 40.0, 160.0, 640.0, 2560.0, 10_240.0, 21_600.0)  # before the second and later attempts


@dataclass(frozen=True, slots=True)
class Message:
    """One attempt to send a message about one job.

    Parameters
    ----------
    id : the same at every attempt
    attempts : number of earlier attempts
    lease : time until which no other server sends to this webhook
    """

    id: str
    webhook: str
    url: str
    attempts: int
    lease: float
    job: str
    dataset: str
    state: JobState
    at: str


def enqueue(connection: sa.Connection, owner_id: str, job_id: str) -> None:
    """Store a message for each of the owner's webhooks; wait for a webhook that is being deleted."""
    owned = sa.select(webhooks.c.id).where(webhooks.c.owner_id == owner_id).with_for_update(read=True, key_share=True)
    for webhook in connection.scalars(owned).all():
        new = {"id": new_id("msg"), "webhook_id": webhook, "job_id": job_id, "due": 0.0, "attempts": 0}
        connection.execute(sa.insert(deliveries), new)


def is_due(connection: sa.Connection, now: float) -> bool:
    """Return whether a message is due."""
    return connection.scalar(sa.select(deliveries.c.id).where(deliveries.c.due <= now).limit(1)) is not None


def claim(connection: sa.Connection, now: float, limit: int) -> list[Message]:
    """Lease the webhooks of at most so many due messages, one message of each; return these messages.

    Webhooks take turns: the one whose last lease ended first comes first, whatever the number of waiting messages.
    """
    columns = (deliveries.c.id, deliveries.c.webhook_id, deliveries.c.attempts, webhooks.c.url, webhooks.c.busy_until)
    position = sa.func.row_number().over(partition_by=webhooks.c.id, order_by=(deliveries.c.due, jobs.c.number))
    of_job = (jobs.c.id.label("job"), jobs.c.dataset_id, jobs.c.state, jobs.c.finished_at)
    due = sa.select(*columns, *of_job, position.label("position")).join_from(deliveries, webhooks).join(jobs)
    first = due.where(deliveries.c.due <= now, webhooks.c.busy_until <= now).subquery()
    turns = sa.select(first).where(first.c.position == 1).order_by(first.c.busy_until, first.c.webhook_id)
    messages: list[Message] = []
    for row in connection.execute(turns.limit(10 * limit)):
        if len(messages) == limit:
            break
        free = (webhooks.c.id == row.webhook_id) & (webhooks.c.busy_until <= now)
        if connection.execute(sa.update(webhooks).where(free).values(busy_until=now + LEASE_SECONDS)).rowcount:
            job = (row.job, row.dataset_id, row.state, row.finished_at)
            messages.append(Message(row.id, row.webhook_id, row.url, row.attempts, now + LEASE_SECONDS, *job))
    return messages


def settle(connection: sa.Connection, message: Message, is_accepted: bool, now: float, at: str) -> None:
    """Record the result of an attempt, unless its lease has ended or its webhook was deleted."""
    is_leased = (webhooks.c.id == message.webhook) & (webhooks.c.busy_until == message.lease)
    result = {"delivered_at": at, "failures": 0} if is_accepted else {"failures": webhooks.c.failures + 1}
    if not connection.execute(sa.update(webhooks).where(is_leased).values(busy_until=now, **result)).rowcount:
        return
    this = deliveries.c.id == message.id
    if is_accepted or message.attempts == len(RETRY_DELAYS_SECONDS):
        connection.execute(sa.delete(deliveries).where(this))
    else:
        retry = {"attempts": message.attempts + 1, "due": now + RETRY_DELAYS_SECONDS[message.attempts]}
        connection.execute(sa.update(deliveries).where(this).values(**retry))


def add(connection: sa.Connection, owner_id: str, url: str, at: str) -> str:
    """Return the id of the owner's webhook at this address; register it if there is none."""
    existing = connection.scalar(sa.select(webhooks.c.id).where(webhooks.c.owner_id == owner_id, webhooks.c.url == url))
    if existing is not None:
        return str(existing)
    new = {"id": new_id("hook"), "owner_id": owner_id, "url": url, "created_at": at, "busy_until": 0.0, "failures": 0}
    connection.execute(sa.insert(webhooks), new)
    return str(new["id"])


def count(connection: sa.Connection, owner_id: str) -> int:
    """Return the number of the owner's webhooks."""
    query = sa.select(sa.func.count()).select_from(webhooks).where(webhooks.c.owner_id == owner_id)
    return connection.execute(query).scalar_one()


def page(
    connection: sa.Connection, paging: Paging, visible: sa.ColumnElement[bool], *conditions: sa.ColumnElement[bool]
) -> list[sa.Row[Any]]:
    """Return a page of visible webhooks in the order of creation; an empty one after an invisible webhook."""
    query = _described().where(visible, *conditions)
    return list(connection.execute(paging.by_creation(query, webhooks, visible)))


def get(connection: sa.Connection, webhook_id: str, *visible: sa.ColumnElement[bool]) -> sa.Row[Any] | None:
    """Return a webhook by its id if it meets the conditions, else None."""
    return connection.execute(_described().where(webhooks.c.id == webhook_id, *visible)).one_or_none()


def delete(connection: sa.Connection, webhook_id: str) -> None:
    """Delete a webhook and its waiting messages; wait for a job that is being ended."""
    connection.execute(sa.select(webhooks.c.id).where(webhooks.c.id == webhook_id).with_for_update())
    connection.execute(sa.delete(deliveries).where(deliveries.c.webhook_id == webhook_id))
    connection.execute(sa.delete(webhooks).where(webhooks.c.id == webhook_id))


def _described() -> sa.Select[Any]:
    return sa.select(webhooks, identities.c.name).join_from(webhooks, identities)
