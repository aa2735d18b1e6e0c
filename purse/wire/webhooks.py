"""Webhooks: where somebody wants to be told that a job of theirs is over, and what is told."""

from typing import Annotated, Literal

from pydantic import Field

from purse.wire.base import Identifier, Timestamp, Wire
from purse.wire.jobs import JobState

Address = Annotated[
    str,
    Field(
        max_length=1000,
        pattern=r"^https?://[!-~]+$",
        description="Where to send a POST: https, at a public address, unless the operator has named the host.",
    ),
]


class WebhookRequest(Wire):
    """A place that is told of each job of yours that is over from now on."""

    url: Address


class Webhook(Wire):
    """A place that is told of finished jobs, and how that goes."""

    id: Identifier
    analyst: Annotated[str, Field(description="Whose jobs it is told of.")]
    url: Annotated[str, Field(description="Where; to others than its owner no more than scheme and host.")]
    created_at: Timestamp
    delivered_at: Annotated[Timestamp | None, Field(description="When it last took a message; null if it never has.")]
    failures: Annotated[int, Field(description="Attempts that failed since then; a message has 8 in 10 hours.")]


class FinishedJob(Wire):
    """A job that is over: what everybody is told who may see it."""

    job: Identifier
    dataset: Identifier
    state: Annotated[JobState, Field(description="done, failed or cancelled.")]


class WebhookEvent(Wire):
    """What is sent, signed by the rules of Standard Webhooks: public facts, and nothing that was released."""

    type: Annotated[Literal["job.finished"], Field(description="What has happened.")]
    timestamp: Annotated[Timestamp, Field(description="The job's `finished_at`, which is on a public grid of times.")]
    data: Annotated[FinishedJob, Field(description="Of which job.")]
