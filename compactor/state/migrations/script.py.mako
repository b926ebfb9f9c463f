"""${message}"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """TODO: what changes. MySQL commits each statement, and a killed step runs again: look before each statement."""
    ${upgrades if upgrades else "pass"}
