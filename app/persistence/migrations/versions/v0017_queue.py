"""The queue's index is one that SQLite takes: a claim among 10,000 jobs that wait reads no row of them."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """The state goes first."""
    op.drop_index("ix_jobs_queued", "jobs")
    queued, columns = sa.text("state = 'queued'"), ["state", "owner_id", "dataset_id", "number"]
    op.create_index("ix_jobs_queued", "jobs", columns, sqlite_where=queued, postgresql_where=queued)
