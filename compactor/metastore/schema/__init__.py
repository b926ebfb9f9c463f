"""Hive's tables in each supported schema version, and the SQL of each database."""

from __future__ import annotations
