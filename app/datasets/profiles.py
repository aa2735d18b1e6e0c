"""Released profiles of a dataset, which are public facts."""

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from app.persistence.tables import jobs
from purse.wire.profiles import DatasetProfile

RELEASED = (jobs.c.kind == "profile") & (jobs.c.state == "done")


@dataclass(frozen=True, slots=True)
class PublishedProfile:
    """A published profile, and its digest, which the receipt states."""

    document: DatasetProfile
    sha256: str


def latest(connection: sa.Connection, dataset_id: str) -> str | None:
    """Return the id of the job that released a dataset's latest profile, or None if there is no profile."""
    query = sa.select(jobs.c.id).where(RELEASED, jobs.c.dataset_id == dataset_id)
    return connection.scalar(query.order_by(jobs.c.finished_at.desc(), jobs.c.number.desc()).limit(1))


def get(connection: sa.Connection, dataset_id: str, job_id: str) -> PublishedProfile | None:
    """Return the profile of this dataset that a job released, or None for any other job, which may not even exist."""
    condition = (jobs.c.id == job_id) & (jobs.c.dataset_id == dataset_id)
    text = connection.scalar(sa.select(jobs.c.model).where(RELEASED, condition))
    if text is None:
        return None
    return PublishedProfile(DatasetProfile.model_validate_json(text), hashlib.sha256(text.encode()).hexdigest())
