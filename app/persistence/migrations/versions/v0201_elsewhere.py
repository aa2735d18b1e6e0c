"""Datasets whose records are elsewhere: another value of `datasets.data`."""

import sqlalchemy as sa
from alembic import op

revision = "0201"
down_revision = "0200"

_CHECK = "data in ('stored', 'elsewhere', 'deleted', 'withdrawn')"


def upgrade() -> None:
    """Replace the CHECK constraint of the column `data`."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(op.f("ck_datasets_data"), "datasets", type_="check")
        op.create_check_constraint(op.f("ck_datasets_data"), "datasets", _CHECK)
        return
    _replace_table()


def _replace_table() -> None:
    """Create the table again with its rows, because SQLite cannot change a constraint.

    Rows of other tables refer to it. SQLite checks them at the commit, when the rows have returned.
    """
    op.execute("pragma defer_foreign_keys = on")
    op.execute("create table datasets_old as select * from datasets")
    op.drop_table("datasets")
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("ledger_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(64), nullable=False),
        sa.Column("folder", sa.String(200), nullable=False),
        sa.Column("data", sa.String(16), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("holdout_of", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_datasets_ledger_id")),
        sa.CheckConstraint(_CHECK, name=op.f("ck_datasets_data")),
    )
    op.execute("insert into datasets select * from datasets_old")
    op.drop_table("datasets_old")
    is_present = sa.text("data != 'withdrawn'")
    op.create_index("ix_datasets_name", "datasets", ["name"], unique=True, sqlite_where=is_present)
    op.create_index("ix_datasets_content", "datasets", ["content_sha256"])
    op.create_index("ix_datasets_ledger", "datasets", ["ledger_id"])
    op.create_index("ix_datasets_holdout", "datasets", ["holdout_of"])
