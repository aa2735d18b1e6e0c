"""Signed checkpoints of ledgers."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add the table; the first start verifies every ledger from its first entry."""
    op.create_table(
        "checkpoints",
        sa.Column("ledger_id", sa.String(64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("ledger_id", name="pk_checkpoints"),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name="fk_checkpoints_ledger_id"),
    )
