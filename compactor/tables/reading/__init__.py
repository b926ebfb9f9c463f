"""Scans: planned once, under locks and a snapshot, then read without the metastore."""

from __future__ import annotations
