"""A dataset's latest profile without a walk over its jobs."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """An index by what jobs released, and when."""
    op.create_index("ix_jobs_released", "jobs", ["dataset_id", "kind", "state", "finished_at", "number"])
