"""Applications that wait for further batches, and the route of a batch, which decides whether one may take it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.add_column("COMPACTOR_BATCHES", sa.Column("ROUTE", sa.String(64)))
    op.add_column("COMPACTOR_BATCHES", sa.Column("RESIDENT_ID", sa.BigInteger))
    op.create_table(
        "COMPACTOR_RESIDENTS",
        sa.Column(
            "RESIDENT_ID",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("METASTORE", sa.String(128), nullable=False),
        sa.Column("ROUTE", sa.String(64), nullable=False),
        sa.Column("APPLICATION_ID", sa.String(256), nullable=False),
        sa.Column("STARTED_AT", sa.BigInteger, nullable=False),
        sa.Column("ALIVE_UNTIL", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
        **_MYSQL,
    )
