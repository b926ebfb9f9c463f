"""Statements that change tables: rows are fitted, divided into partitions and buckets, written."""

from __future__ import annotations
