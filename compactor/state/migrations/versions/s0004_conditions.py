"""Results of the last look at each table and partition, and the bytes that a run copied unchanged."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
_FIGURES = ("BASE_BYTES", "DELTA_BYTES", "DELETE_BYTES", "DELTAS", "FILES", "SMALL_FILES", "OBSOLETE", "ABORTS")


def upgrade() -> None:
    op.add_column("COMPACTOR_RUNS", sa.Column("BYTES_COPIED", sa.BigInteger))
    op.create_table(
        "COMPACTOR_CONDITIONS",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("ENTITY_KEY", sa.String(64), primary_key=True),
        sa.Column("DB_NAME", sa.String(128), nullable=False),
        sa.Column("TABLE_NAME", sa.String(256), nullable=False),
        sa.Column("PART_NAME", sa.String(767)),
        sa.Column("SEEN_AT", sa.BigInteger, nullable=False),
        sa.Column("OUTCOME", sa.String(64), nullable=False),
        sa.Column("BECAUSE", sa.Text, nullable=False),
        sa.Column("FLIPS", sa.Text, nullable=False),
        sa.Column("LAST_COMPACTED", sa.BigInteger),
        *(sa.Column(name, sa.BigInteger) for name in _FIGURES),
        sa.Column("HEALTH", sa.BigInteger),
        **_MYSQL,
    )
