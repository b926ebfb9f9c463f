"""The initiator: which tables and partitions are due, and their requests."""

from __future__ import annotations
