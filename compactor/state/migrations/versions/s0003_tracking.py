"""The address at which Spark shows the application of a batch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("COMPACTOR_BATCHES", sa.Column("TRACKING_URL", sa.String(512)))
