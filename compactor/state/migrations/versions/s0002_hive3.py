"""Values for which Hive 3.1's queue has no columns, and the newest lock when an entry was first seen."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.add_column("COMPACTOR_SIGHTINGS", sa.Column("NEWEST_LOCK_ID", sa.BigInteger))
    op.create_table(
        "COMPACTOR_ENTRIES",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("ENTRY_ID", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("KEPT", sa.Text, nullable=False),
        **_MYSQL,
    )
