"""Alembic's steps from one release's tables to the next.

``compactor.state.state_upgrade.upgrade`` runs them.
"""
