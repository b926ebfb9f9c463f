"""The queries that read tables, as other programs told of them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "COMPACTOR_READS",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("READ_KEY", sa.String(64), primary_key=True),
        sa.Column("DB_NAME", sa.String(256), nullable=False),
        sa.Column("TABLE_NAME", sa.String(256), nullable=False),
        sa.Column("ENGINE", sa.String(32), nullable=False),
        sa.Column("LIKENESS", sa.String(64), nullable=False),
        sa.Column("ENDED_AT", sa.BigInteger, nullable=False),
        sa.Column("SECONDS", sa.Double, nullable=False),
        sa.Column("FILES", sa.BigInteger),
        sa.Column("BYTES", sa.BigInteger),
        **_MYSQL,
    )
    table = ["METASTORE", "DB_NAME", "TABLE_NAME", "ENDED_AT"]
    op.create_index("COMPACTOR_READS_TABLE_IDX", "COMPACTOR_READS", table)
    op.create_index("COMPACTOR_READS_TIME_IDX", "COMPACTOR_READS", ["METASTORE", "ENDED_AT"])
