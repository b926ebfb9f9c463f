from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import LockNotGranted
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.site.exclusive import exclusively, renames, while_removing
from compactor.site.site import Site
from compactor.storage.capabilities import S3, Capabilities
from compactor.storage.local import LocalStorage
from tests.support.tables import entity_of, make_table


class NoRename(LocalStorage):
    """A directory with the guarantees of an object store."""

    def capabilities(self, path: str) -> Capabilities:
        return S3


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    return make_table(deployment, warehouse)


def locked(site: Site, table: Table) -> list[LockType]:
    return [row.type for row in site.metastore.locks.show(table.database)]


def test_a_table_is_held_exclusively_while_the_block_runs(deployment: Site, table: Table) -> None:
    target = deployment.target(entity_of(table))
    with exclusively(deployment, target):
        assert locked(deployment, table) == [LockType.EXCLUSIVE]
    assert locked(deployment, table) == []
    assert deployment.metastore.transactions.open_transactions() == []


def test_a_reader_is_never_waited_for(deployment: Site, table: Table) -> None:
    """PROTOCOL 5: the lock is only tried, so that no reader ever queues behind it."""
    target = deployment.target(entity_of(table))
    reader = deployment.metastore.transactions.open("reader", deployment.host)[0]
    shared = target.lock(LockType.SHARED_READ)
    assert deployment.metastore.locks.try_acquire(reader, [shared], "reader", deployment.host)
    with pytest.raises(LockNotGranted, match="its store has no rename"), exclusively(deployment, target):
        raise AssertionError("not alone")
    assert locked(deployment, table) == [LockType.SHARED_READ]
    assert [t.id for t in deployment.metastore.transactions.open_transactions()] == [reader]


def test_an_error_in_the_block_releases_the_table(deployment: Site, table: Table) -> None:
    with pytest.raises(KeyError), exclusively(deployment, deployment.target(entity_of(table))):
        raise KeyError
    assert locked(deployment, table) == []


def test_only_a_store_without_rename_needs_an_exclusive_lock(deployment: Site, table: Table) -> None:
    """PROTOCOL 7.3."""
    target = deployment.target(entity_of(table))
    with while_removing(deployment, target):
        assert renames(deployment, target)
        assert locked(deployment, table) == []
    site = replace(deployment, storage=NoRename())
    with while_removing(site, target):
        assert not renames(site, target)
        assert locked(site, table) == [LockType.EXCLUSIVE]
