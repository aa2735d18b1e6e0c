"""A checksum of each dataset's stored values; by these and its declaration it is known again, not by its file."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Older datasets get theirs at the next start (`app.datasets.values`)."""
    op.execute("alter table datasets rename column file_sha256 to content_sha256")
    op.create_table(
        "stored_values",
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("damaged_at", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_stored_values_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_stored_values")),
    )
