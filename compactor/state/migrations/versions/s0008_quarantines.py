"""Where obsolete directories lie in quarantine, and until when."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "COMPACTOR_QUARANTINES",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("ENTRY_ID", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("DB_NAME", sa.String(128), nullable=False),
        sa.Column("TABLE_NAME", sa.String(256), nullable=False),
        sa.Column("PART_NAME", sa.String(767)),
        sa.Column("LOCATION", sa.Text, nullable=False),
        sa.Column("SINCE", sa.BigInteger, nullable=False),
        sa.Column("UNTIL", sa.BigInteger, nullable=False),
        sa.Column("BYTES", sa.BigInteger, nullable=False),
        sa.Column("NAMES", sa.Text().with_variant(MEDIUMTEXT, "mysql", "mariadb"), nullable=False),
        **_MYSQL,
    )
