"""Columns for what a run's time depends on, the processor time it took, and what was expected of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("COMPACTOR_RUNS", sa.Column("STORE", sa.String(32)))
    op.add_column("COMPACTOR_RUNS", sa.Column("TOGETHER", sa.BigInteger, nullable=False, server_default="1"))
    for name in ("CORE_SECONDS", "EXPECTED_SECONDS"):
        op.add_column("COMPACTOR_RUNS", sa.Column(name, sa.Double))
