"""Whether the ledgers' heads are kept outside of the database: a file that is missing is then one that was lost."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """They were not kept until now."""
    op.add_column("service", sa.Column("has_epoch", sa.Boolean(), server_default=sa.false(), nullable=False))
