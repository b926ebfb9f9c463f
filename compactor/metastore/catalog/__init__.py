"""Databases, tables and partitions."""

from __future__ import annotations
