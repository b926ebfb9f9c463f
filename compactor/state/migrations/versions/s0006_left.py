"""The deltas and bytes that a bounded request left."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("DELTAS_LEFT", "BYTES_LEFT"):
        op.add_column("COMPACTOR_RUNS", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
