"""The tables of the first release, which ``state_upgrade.upgrade`` creates."""

from __future__ import annotations

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Does nothing: there is no earlier release."""
