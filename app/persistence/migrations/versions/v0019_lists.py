"""Lists of jobs by dataset, method and kind are found without a walk over the others."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_METHOD = {
    "sqlite": "json_extract(quote, '$.method.name')",
    "postgresql": "CAST(quote AS JSONB) #>> '{method,name}'",
}


def upgrade() -> None:
    """The method is the one that the quote names."""
    op.add_column("jobs", sa.Column("method", sa.String(40)))
    op.execute(f"UPDATE jobs SET method = {_METHOD[op.get_bind().dialect.name]}")
    op.create_index("ix_jobs_dataset", "jobs", ["dataset_id", "number"])
    op.create_index("ix_jobs_method", "jobs", ["method", "number"])
    op.create_index("ix_jobs_kind", "jobs", ["kind", "number"])
