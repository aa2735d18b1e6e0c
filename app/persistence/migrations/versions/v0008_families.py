"""A ledger is its own thing, which the datasets of a family share; a dataset may have lost its values."""

import sqlalchemy as sa
from alembic import op

from app.persistence.migrations import names

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Each dataset that is there has a ledger of its own, under its own id; no entry is changed."""
    if not names.is_postgres():
        op.execute("pragma defer_foreign_keys = on")  # datasets go and come back, under the rows that point to them
    op.create_table(
        "ledgers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("family", sa.String(length=200), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledgers")),
        sa.UniqueConstraint("family", name=op.f("uq_ledgers_family")),
    )
    op.execute("insert into ledgers (id, state) select id, state from datasets")
    _datasets()
    _entries()
    _spend()


def _datasets() -> None:
    op.execute("create table datasets_old as select * from datasets")
    if names.is_postgres():
        op.execute("drop table datasets cascade")  # with what points to it
    else:
        op.drop_table("datasets")
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
        sa.CheckConstraint("data in ('stored', 'deleted', 'withdrawn')", name=op.f("ck_datasets_data")),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_datasets_ledger_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
    )
    kept = "id, name, rows, spec, content_sha256, folder, created_at"
    op.execute(f"insert into datasets ({kept}, ledger_id, data) select {kept}, id, 'stored' from datasets_old")
    op.drop_table("datasets_old")
    there = sa.text("data != 'withdrawn'")
    op.create_index("ix_datasets_name", "datasets", ["name"], unique=True, sqlite_where=there, postgresql_where=there)
    op.create_index("ix_datasets_content", "datasets", ["content_sha256"], unique=False)
    op.create_index("ix_datasets_ledger", "datasets", ["ledger_id"], unique=False)
    if names.is_postgres():
        for table in ("jobs", "stored_values"):
            op.create_foreign_key(f"fk_{table}_dataset_id", table, "datasets", ["dataset_id"], ["id"])


def _entries() -> None:
    names.free("ledger_entries")
    op.create_table(
        "entries_new",
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_ledger_entries_ledger_id")),
        sa.PrimaryKeyConstraint("ledger_id", "sequence", name=op.f("pk_ledger_entries")),
    )
    op.execute(
        "insert into entries_new select dataset_id, sequence, kind, body, previous_hash, hash from ledger_entries"
    )
    op.drop_table("ledger_entries")
    op.rename_table("entries_new", "ledger_entries")


def _spend() -> None:
    names.free("analyst_spend")
    op.create_table(
        "spend_new",
        sa.Column("ledger_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("charges", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_analyst_spend_ledger_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["tokens.id"], name=op.f("fk_analyst_spend_owner_id")),
        sa.PrimaryKeyConstraint("ledger_id", "owner_id", name=op.f("pk_analyst_spend")),
    )
    op.execute("insert into spend_new select dataset_id, owner_id, charges, spent from analyst_spend")
    op.drop_table("analyst_spend")
    op.rename_table("spend_new", "analyst_spend")
