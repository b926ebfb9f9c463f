"""Hive ACID tables for Python programs: read, write and change them in Arrow, in transactions of Hive.

``with open_metastore() as store: store.load_table("db.t").scan().to_arrow()``; see docs/tables.md.
"""

from __future__ import annotations

from compactor.tables.store import Store, open_metastore
from compactor.tables.table import Table

__all__ = ["Store", "Table", "open_metastore"]
