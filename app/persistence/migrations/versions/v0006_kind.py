"""What a job releases: a model, as all did until now, or a profile."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Those that are there release models."""
    op.add_column("jobs", sa.Column("kind", sa.String(length=16), server_default="model", nullable=False))
