"""Compactor's own state: batches, figures of runs, decisions.

Tables ``COMPACTOR_…``, migrated by Alembic.
"""
