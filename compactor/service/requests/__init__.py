"""What people ask for: to compact, to abort, to pause and resume a table, to override its settings."""

from __future__ import annotations
