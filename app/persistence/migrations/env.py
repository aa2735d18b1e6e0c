"""Run the migrations inside the transaction that `Database.migrate` began."""

from alembic import context

from app.persistence.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
