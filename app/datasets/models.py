"""Models that were released: what an evaluation is of."""

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from app.identity.store import Principal
from app.persistence.tables import jobs


@dataclass(frozen=True, slots=True)
class ReleasedModel:
    """A model as it was published, the dataset that it was trained on, and what ran (`app.sources.spec.JobSpec`)."""

    job: str
    dataset_id: str
    document: str
    spec: str

    @property
    def sha256(self) -> str:
        """The digest that its receipt names."""
        return hashlib.sha256(self.document.encode()).hexdigest()


def get(connection: sa.Connection, job_id: str, principal: Principal) -> ReleasedModel | None:
    """What a job released, if that is a model: to an analyst of their own."""
    released = (jobs.c.id == job_id) & (jobs.c.kind == "model") & (jobs.c.state == "done")
    if principal.role == "analyst":
        released &= jobs.c.owner_id == principal.id
    found = sa.select(jobs.c.id, jobs.c.dataset_id, jobs.c.model, jobs.c.spec).where(released)
    row = connection.execute(found).one_or_none()
    return None if row is None else ReleasedModel(*row)
