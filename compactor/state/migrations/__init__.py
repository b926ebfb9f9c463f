"""Alembic's steps from one release's tables to the next; run by ``compactor.state.state_database.upgrade``."""
