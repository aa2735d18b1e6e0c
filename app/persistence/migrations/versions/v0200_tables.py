"""The schema of version 0.2, the first that was released.

`app.persistence.schema.create` gives an empty database the newest tables at once. No database is ever upgraded to this
revision. Migrations after it start from databases that version 0.2 created.
"""

revision = "0200"
down_revision = None


def upgrade() -> None:
    """Refuse to run: no released version has an older schema."""
    raise NotImplementedError("no database is upgraded to the first released schema")
