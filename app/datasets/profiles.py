"""The profiles that were released of a dataset: public facts from then on."""

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from app.persistence.tables import jobs
from purse.wire.profiles import DatasetProfile

_RELEASED = (jobs.c.kind == "profile") & (jobs.c.state == "done")


@dataclass(frozen=True, slots=True)
class Released:
    """A profile as it was published, and the digest that its receipt names."""

    document: DatasetProfile
    sha256: str


def latest(connection: sa.Connection, dataset_id: str) -> str | None:
    """The job that released a dataset's latest profile."""
    query = sa.select(jobs.c.id).where(_RELEASED, jobs.c.dataset_id == dataset_id)
    return connection.scalar(query.order_by(jobs.c.finished_at.desc(), jobs.c.number.desc()).limit(1))


def get(connection: sa.Connection, dataset_id: str, job_id: str) -> Released | None:
    """What a job released, if that is a profile of this dataset: of another one nothing is said, not that it is."""
    mine = (jobs.c.id == job_id) & (jobs.c.dataset_id == dataset_id)
    text = connection.scalar(sa.select(jobs.c.model).where(_RELEASED, mine))
    if text is None:
        return None
    return Released(DatasetProfile.model_validate_json(text), hashlib.sha256(text.encode()).hexdigest())
