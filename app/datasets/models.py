"""Released models, which can be evaluated."""

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from app.identity.store import Principal
from app.persistence.tables import jobs


@dataclass(frozen=True, slots=True)
class ReleasedModel:
    """A published model, the dataset that it was trained on, and the `JobSpec` that ran."""

    job: str
    dataset_id: str
    document: str
    spec: str

    @property
    def sha256(self) -> str:
        """The digest that the receipt states."""
        return hashlib.sha256(self.document.encode()).hexdigest()


def get(connection: sa.Connection, job_id: str, principal: Principal) -> ReleasedModel | None:
    """Return the model that a job released, or None if it released none, or if it is another analyst's job."""
    released = (jobs.c.id == job_id) & (jobs.c.kind == "model") & (jobs.c.state == "done")
    if principal.role == "analyst":
        released &= jobs.c.owner_id == principal.id
    query = sa.select(jobs.c.id, jobs.c.dataset_id, jobs.c.model, jobs.c.spec).where(released)
    row = connection.execute(query).one_or_none()
    return None if row is None else ReleasedModel(*row)
