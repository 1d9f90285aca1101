"""What Alembic runs to migrate: on the connection that `databases` hands it, in the transaction that is open there."""

from alembic import context

from longturn.stores.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
context.run_migrations()
