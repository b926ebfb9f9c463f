"""A store of tables for programs, over any kind of metastore."""

from __future__ import annotations

from pathlib import Path

from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.settings.precedence import Settings
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from compactor.storage.local import LocalStorage
from compactor.tables.store import Store
from tests.support.tables import with_settings


def two_tables(metastore: Metastore, state: OwnState, folder: Path) -> Store:
    """Creates ``t(a int, b string)`` partitioned by ``p int``, in two buckets, and ``u`` without both; they are empty."""
    made = Site.here("default", metastore, state, LocalStorage(), Settings.of())
    site = with_settings(made, hive_txn_opentxn_timeout="1ms", compactor_mode="clean")
    for name, keys in (("t", [Column(name="p", type="int")]), ("u", [])):
        (folder / name).mkdir()
        metastore.embedded_catalog.create_table(
            NewTable(
                "default",
                name,
                str(folder / name),
                [Column(name="a", type="int"), Column(name="b", type="string")],
                partition_keys=keys,
                parameters={"transactional": "true", "bucketing_version": "2"},
                buckets=2 if keys else -1,
                bucket_columns=["a"] if keys else [],
            )
        )
    return Store(site)
