"""Statements that change tables: rows are fitted, divided into partitions and buckets, and written like Hive's."""

from __future__ import annotations
