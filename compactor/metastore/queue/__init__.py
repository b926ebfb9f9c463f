"""The compaction queue: requests, claims, commits and history."""

from __future__ import annotations
