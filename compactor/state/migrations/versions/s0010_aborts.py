"""The time at which each aborted transaction was first seen to be aborted."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "COMPACTOR_ABORTS",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("TXN_ID", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("STARTED", sa.BigInteger, nullable=False),
        sa.Column("SEEN_AT", sa.BigInteger, nullable=False),
        **_MYSQL,
    )
