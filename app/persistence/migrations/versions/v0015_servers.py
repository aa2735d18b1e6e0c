"""Many servers: a holder says on which boot it is, and analysts take turns."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Whoever held something before is dead; nobody has had a turn."""
    op.drop_table("holders")
    op.create_table(
        "holders",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("boot", sa.String(length=64), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_holders")),
    )
    op.create_table(
        "turns",
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["identities.id"], name=op.f("fk_turns_owner_id")),
        sa.PrimaryKeyConstraint("owner_id", name=op.f("pk_turns")),
    )
    queued = sa.text("state = 'queued'")
    columns = ["owner_id", "dataset_id", "number"]
    op.create_index("ix_jobs_queued", "jobs", columns, sqlite_where=queued, postgresql_where=queued)
