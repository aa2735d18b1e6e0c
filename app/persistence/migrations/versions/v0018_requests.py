"""A job knows the request that submitted it, so that what a log says of either can be put together."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Of jobs from before nobody knows."""
    op.add_column("jobs", sa.Column("request_id", sa.String(64)))
