"""Public samples of datasets."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """No dataset has one yet."""
    op.create_table(
        "samples",
        sa.Column("dataset_id", sa.String(64), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.Text(), nullable=False),
        sa.Column("published", sa.String(200), nullable=False),
        sa.Column("attached_by", sa.String(200), nullable=False),
        sa.Column("attached_at", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", name="pk_samples"),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_samples_dataset_id"),
    )
