"""An index that holds all that the sums of a day's runs are made of."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_COLUMNS = (
    *("METASTORE", "ENDED_AT", "DIRECTORIES_BEFORE", "DIRECTORIES_AFTER", "FILES_BEFORE", "FILES_AFTER"),
    *("BYTES_BEFORE", "BYTES_AFTER", "BYTES_TAKEN_OVER", "SECONDS", "CORE_SECONDS"),
    *("OPENING_BEFORE", "OPENING_AFTER"),
)


def upgrade() -> None:
    op.create_index("COMPACTOR_RUNS_DAYS_IDX", "COMPACTOR_RUNS", list(_COLUMNS))
