"""Entries that promise a budget are found without a walk over the others."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """An index of those alone."""
    those = sa.text("kind IN ('opened', 'promised')")
    place = ["ledger_id", "sequence"]
    op.create_index("ix_ledger_entries_promises", "ledger_entries", place, sqlite_where=those, postgresql_where=those)
