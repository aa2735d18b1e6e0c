"""A part of a dataset's records may be kept out of training, as a dataset of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Of datasets from before nothing was kept out."""
    op.add_column("datasets", sa.Column("holdout_of", sa.String(64)))
    op.create_index("ix_datasets_holdout", "datasets", ["holdout_of"])
