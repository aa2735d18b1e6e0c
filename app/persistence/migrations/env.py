"""Runs the steps inside the transaction that `Database.migrate` has begun."""

from alembic import context

from app.persistence.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
