"""Settings of single tables kept here, and the time that readers take to open the input and output of a run."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    for name in ("OPENING_BEFORE", "OPENING_AFTER"):
        op.add_column("COMPACTOR_RUNS", sa.Column(name, sa.Double))
    op.create_table(
        "COMPACTOR_OVERRIDES",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("DB_NAME", sa.String(128), primary_key=True),
        sa.Column("TABLE_NAME", sa.String(256), primary_key=True),
        sa.Column("NAME", sa.String(128), primary_key=True),
        sa.Column("VALUE", sa.Text, nullable=False),
        sa.Column("SAID_BY", sa.String(256), nullable=False),
        sa.Column("SAID_AT", sa.BigInteger, nullable=False),
        **_MYSQL,
    )
