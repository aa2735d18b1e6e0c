"""Leases by holders that beat, not by a clock; the end of an attempt kept until it may be told; no step counts."""

import sqlalchemy as sa
from alembic import op

from app.persistence.migrations import names

revision = "0003"
down_revision = "0002"

_KEPT = (
    "id, number, dataset_id, owner_id, analyst, idempotency_key, request_sha256, request, quote, plan, charge, state, "
    "attempt, error, model, receipt, created_at, started_at, finished_at"
)


def upgrade() -> None:
    """No server runs now: what is running is nobody's, and the next one takes it up first, under the same charge."""
    op.create_table(
        "holders",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_holders")),
    )
    names.free("jobs")
    op.create_table(
        "jobs_new",
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
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("boot", sa.String(length=64), nullable=False),
        sa.Column("ticks", sa.Float(), nullable=False),
        sa.Column("due", sa.Float(), nullable=True),
        sa.Column("ended", sa.Text(), nullable=True),
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
        sa.CheckConstraint("lost between 0 and 2", name=op.f("ck_jobs_lost")),
        sa.CheckConstraint("holder is null or (state = 'running' and ended is null)", name=op.f("ck_jobs_holder")),
        sa.CheckConstraint(
            "(ended is null) = (due is null) and (ended is null or state = 'running')", name=op.f("ck_jobs_ended")
        ),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_jobs_dataset_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["tokens.id"], name=op.f("fk_jobs_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("number", name=op.f("uq_jobs_number")),
        sa.UniqueConstraint("owner_id", "idempotency_key", name=op.f("uq_jobs_owner_id")),
    )
    op.execute(
        f"insert into jobs_new ({_KEPT}, lost, boot, ticks) "
        f"select {_KEPT}, case when attempt > 1 then attempt - 1 else 0 end, '', 0.0 from jobs"
    )
    op.drop_table("jobs")
    op.rename_table("jobs_new", "jobs")
    op.create_index("ix_jobs_dataset_owner", "jobs", ["dataset_id", "owner_id"], unique=False)
    op.create_index("ix_jobs_owner", "jobs", ["owner_id", "number"], unique=False)
    op.create_index("ix_jobs_open", "jobs", ["state", "number"], unique=False)
