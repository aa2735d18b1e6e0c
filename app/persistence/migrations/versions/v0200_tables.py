"""The tables of version 0.2, the first that was released."""

import sqlalchemy as sa
from alembic import op

revision = "0200"
down_revision = None


def upgrade() -> None:
    """Create every table, index and sequence."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("jobs_number")))
    op.create_table(
        "holders",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("boot", sa.String(length=64), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_holders")),
    )
    op.create_table(
        "identities",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.CheckConstraint("role in ('steward', 'analyst', 'auditor')", name=op.f("ck_identities_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identities")),
        sa.UniqueConstraint("name", name=op.f("uq_identities_name")),
    )
    op.create_table(
        "ledgers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("family", sa.String(length=200), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledgers")),
        sa.UniqueConstraint("family", name=op.f("uq_ledgers_family")),
    )
    op.create_table(
        "service",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("has_epoch", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service")),
    )
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
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_allotments_identity_id")),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_allotments_ledger_id")),
        sa.PrimaryKeyConstraint("ledger_id", "identity_id", name=op.f("pk_allotments")),
    )
    op.create_table(
        "analyst_spend",
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("charges", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_analyst_spend_ledger_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["identities.id"], name=op.f("fk_analyst_spend_owner_id")),
        sa.PrimaryKeyConstraint("ledger_id", "owner_id", name=op.f("pk_analyst_spend")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_checkpoints_ledger_id")),
        sa.PrimaryKeyConstraint("ledger_id", name=op.f("pk_checkpoints")),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("folder", sa.String(length=200), nullable=False),
        sa.Column("data", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.Column("holdout_of", sa.String(length=64), nullable=True),
        sa.CheckConstraint("data in ('stored', 'deleted', 'withdrawn')", name=op.f("ck_datasets_data")),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_datasets_ledger_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
    )
    op.create_index("ix_datasets_content", "datasets", ["content_sha256"], unique=False)
    op.create_index("ix_datasets_holdout", "datasets", ["holdout_of"], unique=False)
    op.create_index("ix_datasets_ledger", "datasets", ["ledger_id"], unique=False)
    op.create_index(
        "ix_datasets_name",
        "datasets",
        ["name"],
        unique=True,
        sqlite_where=sa.text("data != 'withdrawn'"),
        postgresql_where=sa.text("data != 'withdrawn'"),
    )
    op.create_table(
        "ledger_entries",
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_ledger_entries_ledger_id")),
        sa.PrimaryKeyConstraint("ledger_id", "sequence", name=op.f("pk_ledger_entries")),
    )
    op.create_index(
        "ix_ledger_entries_external",
        "ledger_entries",
        ["ledger_id", "sequence"],
        unique=False,
        sqlite_where=sa.text("kind = 'external'"),
        postgresql_where=sa.text("kind = 'external'"),
    )
    op.create_index(
        "ix_ledger_entries_promises",
        "ledger_entries",
        ["ledger_id", "sequence"],
        unique=False,
        sqlite_where=sa.text("kind IN ('opened', 'promised')"),
        postgresql_where=sa.text("kind IN ('opened', 'promised')"),
    )
    op.create_table(
        "subjects",
        sa.Column("issuer", sa.String(length=1000), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("identity_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_subjects_identity_id")),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_subjects")),
        sa.UniqueConstraint("identity_id", name=op.f("uq_subjects_identity_id")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("identity_id", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=200), nullable=True),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.Column("expires_at", sa.String(length=40), nullable=True),
        sa.Column("revoked_at", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["identity_id"], ["identities.id"], name=op.f("fk_tokens_identity_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_table(
        "turns",
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["identities.id"], name=op.f("fk_turns_owner_id")),
        sa.PrimaryKeyConstraint("owner_id", name=op.f("pk_turns")),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("url", sa.String(length=1000), nullable=False),
        sa.Column("created_at", sa.String(length=40), nullable=False),
        sa.Column("busy_until", sa.Float(), nullable=False),
        sa.Column("delivered_at", sa.String(length=40), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["identities.id"], name=op.f("fk_webhooks_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sa.UniqueConstraint("owner_id", "url", name=op.f("uq_webhooks_owner_id")),
    )
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
    op.create_index("ix_grants_identity", "grants", ["identity_id", "dataset_id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=16), server_default="model", nullable=False),
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("analyst", sa.String(length=200), nullable=False),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("quote", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
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
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("method", sa.String(length=40), nullable=True),
        sa.CheckConstraint(
            "(ended is null) = (due is null) and (ended is null or state = 'running')", name=op.f("ck_jobs_ended")
        ),
        sa.CheckConstraint(
            "(state = 'done') = (model is not null) and (state = 'done') = (receipt is not null)",
            name=op.f("ck_jobs_release"),
        ),
        sa.CheckConstraint("holder is null or (state = 'running' and ended is null)", name=op.f("ck_jobs_holder")),
        sa.CheckConstraint("state in ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_jobs_state")),
        sa.CheckConstraint("lost between 0 and 2", name=op.f("ck_jobs_lost")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_jobs_dataset_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["identities.id"], name=op.f("fk_jobs_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("number", name=op.f("uq_jobs_number")),
        sa.UniqueConstraint("owner_id", "idempotency_key", name=op.f("uq_jobs_owner_id")),
    )
    op.create_index("ix_jobs_dataset", "jobs", ["dataset_id", "number"], unique=False)
    op.create_index("ix_jobs_dataset_owner", "jobs", ["dataset_id", "owner_id"], unique=False)
    op.create_index("ix_jobs_kind", "jobs", ["kind", "number"], unique=False)
    op.create_index("ix_jobs_method", "jobs", ["method", "number"], unique=False)
    op.create_index("ix_jobs_open", "jobs", ["state", "number"], unique=False)
    op.create_index("ix_jobs_owner", "jobs", ["owner_id", "number"], unique=False)
    op.create_index(
        "ix_jobs_queued",
        "jobs",
        ["state", "owner_id", "dataset_id", "number"],
        unique=False,
        sqlite_where=sa.text("state IN ('queued', 'running')"),
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_index("ix_jobs_released", "jobs", ["dataset_id", "kind", "state", "finished_at", "number"], unique=False)
    op.create_table(
        "samples",
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.Text(), nullable=False),
        sa.Column("published", sa.String(length=200), nullable=False),
        sa.Column("attached_by", sa.String(length=200), nullable=False),
        sa.Column("attached_at", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_samples_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_samples")),
    )
    op.create_table(
        "stored_values",
        sa.Column("dataset_id", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("damaged_at", sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_stored_values_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_stored_values")),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("webhook_id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("due", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_deliveries_job_id")),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], name=op.f("fk_deliveries_webhook_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["due"], unique=False)
    op.create_index("ix_deliveries_webhook", "deliveries", ["webhook_id"], unique=False)
