"""Hive's tables in each schema version that is supported, and how each database spells SQL."""

from __future__ import annotations
