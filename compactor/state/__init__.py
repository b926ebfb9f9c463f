"""What is Compactor's alone: batches, figures of runs, decisions. Tables ``COMPACTOR_…``, migrated by Alembic."""
