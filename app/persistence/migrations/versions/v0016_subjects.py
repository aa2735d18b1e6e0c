"""Subjects: identities that a provider of sign-on vouches for."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Nobody has signed on yet."""
    op.create_table(
        "subjects",
        sa.Column("issuer", sa.String(length=1000), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("identity_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_subjects_identity_id")),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_subjects")),
        sa.UniqueConstraint("identity_id", name=op.f("uq_subjects_identity_id")),
    )
