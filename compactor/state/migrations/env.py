"""Alembic's entry point: runs the steps on the connection that ``store.upgrade`` passes."""

from __future__ import annotations

from alembic import context

from compactor.state.state_tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the caller's transaction holds all steps, except on MySQL
)
with context.begin_transaction():
    context.run_migrations()
