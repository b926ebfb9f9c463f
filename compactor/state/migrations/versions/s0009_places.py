"""Locations that held data, with the identities of their directories."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "COMPACTOR_PLACES",
        sa.Column("METASTORE", sa.String(128), primary_key=True),
        sa.Column("LOCATION_KEY", sa.String(64), primary_key=True),
        sa.Column("LOCATION", sa.Text, nullable=False),
        sa.Column("IDENTITY", sa.Text),
        sa.Column("SEEN_AT", sa.BigInteger, nullable=False),
        **_MYSQL,
    )
