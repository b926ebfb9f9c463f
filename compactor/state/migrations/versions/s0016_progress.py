"""The progress of running compactions, and the page of the scheduler's task of a batch."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "COMPACTOR_PROGRESS",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("ENTRY_ID", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("UNITS", sa.BigInteger, nullable=False),
        sa.Column("UNITS_DONE", sa.BigInteger, nullable=False),
        sa.Column("BYTES", sa.BigInteger, nullable=False),
        sa.Column("BYTES_DONE", sa.BigInteger, nullable=False),
        sa.Column("SPENT_MS", sa.BigInteger, nullable=False),
        sa.Column("AT", sa.BigInteger, nullable=False),
        **_MYSQL,
    )
    op.add_column("COMPACTOR_BATCHES", sa.Column("TASK_URL", sa.String(1024)))
