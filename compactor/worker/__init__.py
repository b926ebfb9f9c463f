"""The worker: a claimed entry becomes a committed compaction."""

from __future__ import annotations
