"""Alembic's steps from one release's tables to the next.

``compactor.state.state_database.upgrade`` runs them.
"""
