"""Sessions: budget that is reserved for answers computed elsewhere, and the requests that record them.

The list of datasets gets an index too.
"""

import sqlalchemy as sa
from alembic import op

revision = "0202"
down_revision = "0201"


def upgrade() -> None:
    """Create the tables `sessions` and `session_steps` and two indexes; delete empty sums."""
    op.execute("delete from analyst_spend where charges = 0")  # the currency of the ledger may have changed since
    is_settled = sa.text("kind = 'settled'")
    op.create_index(
        "ix_ledger_entries_settled",
        "ledger_entries",
        ["ledger_id", "sequence"],
        sqlite_where=is_settled,
        postgresql_where=is_settled,
    )
    op.create_index("ix_datasets_created", "datasets", ["created_at", "id"])
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("dataset_id", sa.String(64), nullable=False),
        sa.Column("owner_id", sa.String(64), nullable=False),
        sa.Column("analyst", sa.String(200), nullable=False),
        sa.Column("title", sa.String(200)),
        sa.Column("idempotency_key", sa.String(200), nullable=False),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.Column("refundable", sa.String(16), nullable=False),
        sa.Column("noise_multiplier", sa.Float),
        sa.Column("reserved", sa.Text, nullable=False),
        sa.Column("charged", sa.Text, nullable=False),
        sa.Column("entry", sa.BigInteger, nullable=False),
        sa.Column("settled", sa.BigInteger),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False),
        sa.Column("ended_at", sa.String(40)),
        sa.CheckConstraint("state in ('open', 'closed', 'expired')", name=op.f("ck_sessions_state")),
        sa.CheckConstraint("refundable in ('unused', 'untouched', 'nothing')", name=op.f("ck_sessions_refundable")),
        sa.CheckConstraint("(state = 'open') = (ended_at is null)", name=op.f("ck_sessions_ended")),
        sa.CheckConstraint("state != 'open' or settled is null", name=op.f("ck_sessions_settled")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_sessions_dataset_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["identities.id"], name=op.f("fk_sessions_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("owner_id", "idempotency_key", name=op.f("uq_sessions_owner_id")),
    )
    op.create_index("ix_sessions_created", "sessions", ["created_at", "id"])
    op.create_index("ix_sessions_owner", "sessions", ["owner_id", "created_at", "id"])
    op.create_index("ix_sessions_dataset", "sessions", ["dataset_id", "created_at", "id"])
    op.create_index("ix_sessions_open", "sessions", ["state", "owner_id", "expires_at"])
    op.create_table(
        "session_steps",
        sa.Column("session_id", sa.String(64), nullable=False),
        sa.Column("idempotency_key", sa.String(200), nullable=False),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_session_steps_session_id")),
        sa.PrimaryKeyConstraint("session_id", "idempotency_key", name=op.f("pk_session_steps")),
    )
