"""The bytes of stripes that the store or file system copied by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("COMPACTOR_RUNS", sa.Column("BYTES_TAKEN_OVER", sa.BigInteger, nullable=True))
