"""Allotments: what one analyst may spend of a ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Nobody has one."""
    op.create_table(
        "allotments",
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("identity_id", sa.String(length=64), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("share", sa.Float(), nullable=True),
        sa.Column("epsilon", sa.Float(), nullable=True),
        sa.Column("delta", sa.Float(), nullable=True),
        sa.Column("set_by", sa.String(length=200), nullable=False),
        sa.Column("set_at", sa.String(length=40), nullable=False),
        sa.CheckConstraint("mode in ('reserved', 'shared')", name=op.f("ck_allotments_mode")),
        sa.CheckConstraint(
            "(share is null) = (epsilon is not null) and (epsilon is null) = (delta is null)",
            name=op.f("ck_allotments_part"),
        ),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_allotments_ledger_id")),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_allotments_identity_id")),
        sa.PrimaryKeyConstraint("ledger_id", "identity_id", name=op.f("pk_allotments")),
    )
