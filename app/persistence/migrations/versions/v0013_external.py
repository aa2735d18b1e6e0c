"""Charges from outside are found without a walk over the other entries."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """An index of those alone."""
    those = sa.text("kind = 'external'")
    place = ["ledger_id", "sequence"]
    op.create_index("ix_ledger_entries_external", "ledger_entries", place, sqlite_where=those, postgresql_where=those)
