"""Hive ACID tables for Python programs, which read and change them as Arrow data, in transactions.

``with open_metastore() as store: store.load_table("db.t").scan().to_arrow()``; see docs/tables.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compactor.tables.store import Store, open_metastore
    from compactor.tables.table import Table

__all__ = ["Store", "Table", "open_metastore"]

_HOMES = {
    "Store": "compactor.tables.store",
    "Table": "compactor.tables.table",
    "open_metastore": "compactor.tables.store",
}


def __getattr__(name: str) -> Any:
    """Imports names when they are first used.

    So Spark executors can import parts of this package without the rest.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
