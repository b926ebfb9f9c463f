"""A table that comes with a commit is known to nobody before it, and to nobody without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import select

from compactor.base.errors import Refused
from compactor.metastore.schema.tables import TXN_COMPONENTS
from compactor.site.site import Site
from compactor.tables.definitions import Definition, create_with_commit
from compactor.tables.store import Store
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.append import WriteOptions, append
from tests.support.tables import with_settings

ROWS = pa.table({"a": pa.array([1, 2], pa.int32())})
WANTED = Definition(schema={"a": "int"})


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse), {"owner": "me"})
    return with_settings(
        deployment,
        hive_txn_xlock_ctas="false",  # so that two may create one table at once
    )


def created(
    site: Site,
    location: str | None = None,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Creates ``t`` with two rows; calls ``before`` they are written, and ``after`` that, before it is committed."""
    with transaction(site) as txn:
        made = create_with_commit(txn, "default", "t", Definition(schema={"a": "int"}, location=location))
        before()
        append(txn, made, ROWS, WriteOptions())
        after()


def fail() -> None:
    raise ZeroDivisionError


def values(site: Site) -> list[int]:
    return sorted(row["a"] for row in Store(site).load_table("default.t").scan().to_arrow().to_pylist())


def test_the_table_is_what_the_catalog_says_of_it_afterwards(site: Site) -> None:
    with transaction(site) as txn:
        made = create_with_commit(txn, "Default", "T", WANTED)
        assert append(txn, made, ROWS, WriteOptions()) == 2
        assert not site.metastore.catalog.is_known("default", "t")
    assert site.metastore.catalog.table("default", "t") == made
    assert values(site) == [1, 2]


def test_an_abort_leaves_nothing_to_be_cleaned(site: Site, warehouse: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        created(site, after=fail)
    assert not site.metastore.catalog.is_known("default", "t")
    assert list((warehouse / "t").iterdir()) == []
    with site.metastore.database.read() as conn:
        assert conn.execute(select(TXN_COMPONENTS)).all() == []


def test_of_two_who_create_one_table_the_second_names_nothing(site: Site, warehouse: Path) -> None:
    with pytest.raises(Refused, match=r"default\.t exists already"):
        created(site, f"{warehouse}/late", after=lambda: created(site))
    assert site.metastore.catalog.table("default", "t").location == f"{warehouse}/t"
    assert values(site) == [1, 2]
    assert list((warehouse / "late").iterdir()) == []


def test_nobody_creates_a_table_where_somebody_writes(site: Site) -> None:
    def second() -> None:
        with pytest.raises(Refused, match="somebody writes in"):
            created(site)

    created(site, after=second)
    assert values(site) == [1, 2]


def test_a_table_that_came_to_its_directory_meanwhile_keeps_it(site: Site, warehouse: Path) -> None:
    """With both in one directory, each would have the other's rows."""
    store = Store(site)
    with pytest.raises(Refused, match=r"default\.t was not created.*default\.u"):
        created(site, f"{warehouse}/u/in", before=lambda: store.create_table("default.u", {"a": "int"}))
    assert not site.metastore.catalog.is_known("default", "t")
    assert store.load_table("default.u").append(ROWS) == 2
    assert list((warehouse / "u/in").iterdir()) == []
