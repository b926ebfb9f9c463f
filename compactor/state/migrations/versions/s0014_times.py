"""Indexes for the newest runs, those of some days and of a table; one from which alone the overview is read."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("COMPACTOR_RUNS_TIME_IDX", "COMPACTOR_RUNS", ["METASTORE", "ENDED_AT"])
    op.create_index("COMPACTOR_RUNS_TABLE_IDX", "COMPACTOR_RUNS", ["METASTORE", "DB_NAME", "TABLE_NAME"])
    op.drop_index("COMPACTOR_CONDITIONS_TABLE_IDX", "COMPACTOR_CONDITIONS")
    figures = ("OUTCOME", "HEALTH", "DELTAS", "BASE_BYTES", "DELTA_BYTES")
    columns = ["METASTORE", "DB_NAME", "TABLE_NAME", *figures]
    op.create_index("COMPACTOR_CONDITIONS_TABLE_IDX", "COMPACTOR_CONDITIONS", columns)
