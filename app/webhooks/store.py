"""Webhooks and the messages to them in the database. Every function works inside the caller's transaction.

A message is written in the transaction in which its job ends, which is not before the end may be told, and deleted once
it was taken or given up. Whoever sends one holds its webhook for so long: one message at a time is on its way to each,
whatever number of servers there are.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.http.lists import Paging
from app.persistence.session import new_id
from app.persistence.tables import deliveries, identities, jobs, webhooks
from purse.wire.jobs import JobState

LEASE = 60.0  # seconds that a server has for one attempt, and then has failed
DELAYS = (10.0, 40.0, 160.0, 640.0, 2560.0, 10_240.0, 21_600.0)  # seconds before the attempts after the first


@dataclass(frozen=True, slots=True)
class Message:
    """One attempt to tell of one job.

    Parameters
    ----------
    id : the same at every attempt
    attempts : those before this one
    lease : until when nobody else sends to this webhook
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
    """A message for each of the owner's webhooks; a webhook that is being deleted is waited for."""
    mine = sa.select(webhooks.c.id).where(webhooks.c.owner_id == owner_id).with_for_update(read=True, key_share=True)
    for webhook in connection.scalars(mine).all():
        new = {"id": new_id("msg"), "webhook_id": webhook, "job_id": job_id, "due": 0.0, "attempts": 0}
        connection.execute(sa.insert(deliveries), new)


def is_due(connection: sa.Connection, now: float) -> bool:
    """Whether there is anything to send."""
    return connection.scalar(sa.select(deliveries.c.id).where(deliveries.c.due <= now).limit(1)) is not None


def claim(connection: sa.Connection, now: float, most: int) -> list[Message]:
    """At most so many messages that are due, each of another webhook, which is nobody else's until its lease ends.

    Webhooks take turns: first are those that were let go longest ago, however many messages wait for the others.
    """
    of = ("id", "webhook_id", "attempts")
    columns = (*(deliveries.c[name] for name in of), webhooks.c.url, webhooks.c.busy_until)
    place = sa.func.row_number().over(partition_by=webhooks.c.id, order_by=(deliveries.c.due, jobs.c.number))
    of_job = (jobs.c.id.label("job"), jobs.c.dataset_id, jobs.c.state, jobs.c.finished_at)
    due = sa.select(*columns, *of_job, place.label("place")).join_from(deliveries, webhooks).join(jobs)
    first = due.where(deliveries.c.due <= now, webhooks.c.busy_until <= now).subquery()
    turns = sa.select(first).where(first.c.place == 1).order_by(first.c.busy_until, first.c.webhook_id)
    found: list[Message] = []
    for row in connection.execute(turns.limit(10 * most)):
        if len(found) == most:
            break
        free = (webhooks.c.id == row.webhook_id) & (webhooks.c.busy_until <= now)
        if connection.execute(sa.update(webhooks).where(free).values(busy_until=now + LEASE)).rowcount:
            job = (row.job, row.dataset_id, row.state, row.finished_at)
            found.append(Message(row.id, row.webhook_id, row.url, row.attempts, now + LEASE, *job))
    return found


def settle(connection: sa.Connection, message: Message, is_taken: bool, now: float, at: str) -> None:
    """What has become of an attempt; nothing, if its lease is over or its webhook is gone."""
    held = (webhooks.c.id == message.webhook) & (webhooks.c.busy_until == message.lease)
    how = {"delivered_at": at, "failures": 0} if is_taken else {"failures": webhooks.c.failures + 1}
    if not connection.execute(sa.update(webhooks).where(held).values(busy_until=now, **how)).rowcount:
        return
    this = deliveries.c.id == message.id
    if is_taken or message.attempts == len(DELAYS):
        connection.execute(sa.delete(deliveries).where(this))
    else:
        later = {"attempts": message.attempts + 1, "due": now + DELAYS[message.attempts]}
        connection.execute(sa.update(deliveries).where(this).values(**later))


def add(connection: sa.Connection, owner_id: str, url: str, at: str) -> str:
    """The id of the owner's webhook at this address: the one that is there, or a new one."""
    same = sa.select(webhooks.c.id).where(webhooks.c.owner_id == owner_id, webhooks.c.url == url)
    known = connection.scalar(same)
    if known is not None:
        return str(known)
    new = {"id": new_id("hook"), "owner_id": owner_id, "url": url, "created_at": at, "busy_until": 0.0, "failures": 0}
    connection.execute(sa.insert(webhooks), new)
    return str(new["id"])


def count(connection: sa.Connection, owner_id: str) -> int:
    """How many webhooks the owner has."""
    mine = sa.select(sa.func.count()).select_from(webhooks).where(webhooks.c.owner_id == owner_id)
    return connection.execute(mine).scalar_one()


def page(
    connection: sa.Connection, asked: Paging, seen: sa.ColumnElement[bool], *wanted: sa.ColumnElement[bool]
) -> list[sa.Row[Any]]:
    """Those of the webhooks seen that are wanted, in the order of their making; none after one not seen."""
    by = (webhooks.c.created_at, webhooks.c.id)
    after = sa.select(*by).where(webhooks.c.id == asked.cursor, seen)
    found = asked.of(_described().where(seen, *wanted), *by, at=after)
    return list(connection.execute(found))


def get(connection: sa.Connection, webhook_id: str, *seen: sa.ColumnElement[bool]) -> sa.Row[Any] | None:
    """A webhook by its id, if it is among those that may be seen."""
    return connection.execute(_described().where(webhooks.c.id == webhook_id, *seen)).one_or_none()


def delete(connection: sa.Connection, webhook_id: str) -> None:
    """The webhook is gone, and what was to be told there; a job that ends just now is waited for."""
    connection.execute(sa.select(webhooks.c.id).where(webhooks.c.id == webhook_id).with_for_update())
    connection.execute(sa.delete(deliveries).where(deliveries.c.webhook_id == webhook_id))
    connection.execute(sa.delete(webhooks).where(webhooks.c.id == webhook_id))


def _described() -> sa.Select[Any]:
    return sa.select(webhooks, identities.c.name).join_from(webhooks, identities)
