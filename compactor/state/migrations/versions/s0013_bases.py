"""The digests of what each decision was based on, and an index to find those of a table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("DIGEST", "OPEN_DIGEST"):
        op.add_column("COMPACTOR_CONDITIONS", sa.Column(name, sa.String(64)))
    op.add_column("COMPACTOR_CONDITIONS", sa.Column("NEWEST_TXN_ID", sa.BigInteger))
    op.create_index("COMPACTOR_CONDITIONS_TABLE_IDX", "COMPACTOR_CONDITIONS", ["METASTORE", "DB_NAME", "TABLE_NAME"])
