"""Output directories: staged, named, hidden and removed. Beside ``run``; above ``plan``."""

from __future__ import annotations
