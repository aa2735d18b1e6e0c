"""Tokens, datasets, ledgers, jobs."""

import sqlalchemy as sa
from alembic import op

from app.persistence.migrations import names

revision = "0001"
down_revision = None


def upgrade() -> None:
    """The tables of version 0.1."""
    if names.is_postgres():
        op.execute(sa.schema.CreateSequence(sa.Sequence("jobs_number")))
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("file_sha256", sa.String(length=64), nullable=False),
        sa.Column("folder", sa.String(length=200), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("file_sha256", name=op.f("uq_datasets_file_sha256")),
        sa.UniqueConstraint("name", name=op.f("uq_datasets_name")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.Column("revoked_at", sa.String(length=40), nullable=True),
        sa.CheckConstraint("role in ('steward', 'analyst', 'auditor')", name=op.f("ck_tokens_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_table(
        "analyst_spend",
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("charges", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_analyst_spend_dataset_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["tokens.id"], name=op.f("fk_analyst_spend_owner_id")),
        sa.PrimaryKeyConstraint("dataset_id", "owner_id", name=op.f("pk_analyst_spend")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("analyst", sa.String(length=200), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("quote", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("charge", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(length=32), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("receipt", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.Column("started_at", sa.String(length=40), nullable=True),
        sa.Column("finished_at", sa.String(length=40), nullable=True),
        sa.CheckConstraint(
            "(state = 'done') = (model is not null) and (state = 'done') = (receipt is not null)",
            name=op.f("ck_jobs_release"),
        ),
        sa.CheckConstraint("state in ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_jobs_state")),
        sa.CheckConstraint("attempt between 0 and 2", name=op.f("ck_jobs_attempt")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_jobs_dataset_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["tokens.id"], name=op.f("fk_jobs_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("number", name=op.f("uq_jobs_number")),
        sa.UniqueConstraint("owner_id", "idempotency_key", name=op.f("uq_jobs_owner_id")),
    )
    op.create_index("ix_jobs_dataset_owner", "jobs", ["dataset_id", "owner_id"], unique=False)
    op.create_index("ix_jobs_open", "jobs", ["state", "number"], unique=False)
    op.create_table(
        "ledger_entries",
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_ledger_entries_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", "sequence", name=op.f("pk_ledger_entries")),
    )
