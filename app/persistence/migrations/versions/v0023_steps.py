"""The queue's index is one through which PostgreSQL, too, steps from one analyst to the next."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Of all jobs that are not over: of one state alone, PostgreSQL reads it from its beginning."""
    op.drop_index("ix_jobs_queued", "jobs")
    still, columns = sa.text("state IN ('queued', 'running')"), ["state", "owner_id", "dataset_id", "number"]
    op.create_index("ix_jobs_queued", "jobs", columns, sqlite_where=still, postgresql_where=still)
