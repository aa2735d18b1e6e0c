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
    analyst: Annotated[str, Field(description="Owner of the jobs.")]
    url: Annotated[str, Field(description="The address. Other users than its owner see only scheme and host.")]
    created_at: Timestamp
    delivered_at: Annotated[
        Timestamp | None, Field(description="Time of the last successful delivery. Null before the first one.")
    ]
    failures: Annotated[int, Field(description="Failed attempts since then. A message has at most 8 in 10 hours.")]


class FinishedJob(Wire):
    """The public facts of a finished job."""

    job: Identifier
    dataset: Identifier
    state: Annotated[JobState, Field(description="done, failed or cancelled.")]


class WebhookEvent(Wire):
    """The message, signed by the rules of Standard Webhooks: public facts and no released numbers."""

    type: Annotated[Literal["job.finished"], Field(description="Type of the event.")]
    timestamp: Annotated[Timestamp, Field(description="The job's `finished_at`, rounded to a public grid of times.")]
    data: Annotated[FinishedJob, Field(description="The finished job.")]
