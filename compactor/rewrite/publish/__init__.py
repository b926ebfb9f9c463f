"""Output directories: staged, named, hidden and removed."""

from __future__ import annotations
