"""Hive's locks: as rows of HIVE_LOCKS, or as nodes of ZooKeeper."""

from __future__ import annotations
