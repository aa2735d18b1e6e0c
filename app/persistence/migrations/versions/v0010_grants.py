"""Grants: without one a dataset is not there for an analyst."""

import time

import sqlalchemy as sa
from alembic import op

from app.persistence.clock import stamp

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Whoever can spend on a dataset today keeps that: a grant on each for every analyst with a live token."""
    op.create_table(
        "grants",
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("identity_id", sa.String(length=64), nullable=False),
        sa.Column("granted_by", sa.String(length=200), nullable=False),
        sa.Column("granted_at", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_grants_dataset_id")),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_grants_identity_id")),
        sa.PrimaryKeyConstraint("dataset_id", "identity_id", name=op.f("pk_grants")),
    )
    op.create_index("ix_grants_identity", "grants", ["identity_id", "dataset_id"])
    now = stamp(time.time())
    op.execute(
        f"insert into grants select datasets.id, identities.id, 'migration', '{now}' "
        "from datasets, identities where role = 'analyst' and data != 'withdrawn' "
        "and exists (select 1 from tokens where identity_id = identities.id and revoked_at is null)"
    )
