"""The place at which the output of a batch's driver can be read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("COMPACTOR_BATCHES", sa.Column("LOG_URL", sa.String(512)))
