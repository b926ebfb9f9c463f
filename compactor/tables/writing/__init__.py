"""Statements that change tables: rows conformed, put into buckets and partitions, and written as Hive writes them."""

from __future__ import annotations
