"""Webhooks: addresses that receive a message when a job finishes, and the message."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Timestamp, Wire
from purse.wire.jobs import JobState

Address = Annotated[
    str,
    Field(
        max_length=1000,
        pattern=r"^https?://[!-~]+$",
        description="Address for a POST request: https and public, unless the operator has allowed the host.",
    ),
]


class WebhookRequest(Wire):
    """A request to send a message to an address for each of your jobs that finishes from now on."""

    url: Address


class Webhook(Wire):
    """A webhook and the state of its deliveries."""

    id: Identifier
    analyst: str
    """Owner of the jobs."""
    url: str
    """The address. Other users than its owner see only scheme and host."""
    created_at: Timestamp
    delivered_at: Timestamp | None
    """Time of the last successful delivery. Null before the first one."""
    failures: int
    """Number of failed attempts since then. A message has at most 8 attempts in 10 hours."""


class FinishedJob(Wire):
    """The public facts of a finished job."""

    job: Identifier
    dataset: Identifier
    state: JobState
    """State of the job: done, failed or cancelled."""


class WebhookEvent(Wire):
    """The message, signed by the rules of Standard Webhooks: public facts and no released numbers."""

    type: Literal["job.finished"]
    """Type of the event."""
    timestamp: Annotated[Timestamp, Field(description="The job's `finished_at`, rounded to a public grid of times.")]
    data: FinishedJob
    """The finished job."""
