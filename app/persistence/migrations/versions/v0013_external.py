"""Charges from outside are found without a walk over the other entries."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """An index of those alone."""
    external = sa.text("kind = 'external'")
    op.create_index("ix_ledger_entries_external", "ledger_entries", ["ledger_id", "sequence"], sqlite_where=external)
