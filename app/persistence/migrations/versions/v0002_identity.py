"""The service's own identity, and an index for an owner's jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """A database that is older gets its identity when it is opened beside its home."""
    op.create_table(
        "service",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service")),
    )
    op.create_index("ix_jobs_owner", "jobs", ["owner_id", "number"], unique=False)
