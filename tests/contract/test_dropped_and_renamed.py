"""The rows that a dropped or renamed database, table or partition leaves behind in the transaction tables."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import insert, select

from compactor.base.errors import NotFound, Refused
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t

INT = [Column(name="a", type="int")]
ODD = "p=a%20b"  #: its form of a static INSERT is p=a%2520b
TABLES = {
    "TC": t.TXN_COMPONENTS,
    "CTC": t.COMPLETED_TXN_COMPONENTS,
    "CQ": t.COMPACTION_QUEUE,
    "CC": t.COMPLETED_COMPACTIONS,
    "WS": t.WRITE_SET,
    "T2W": t.TXN_TO_WRITE_ID,
    "NWI": t.NEXT_WRITE_ID,
    "HL": t.HIVE_LOCKS,
}
OF_PARTITIONS = ("TC", "CTC", "CQ", "CC")


def names(metastore: Metastore) -> dict[str, list[str]]:
    """Returns by prefix the names in each row, sorted."""
    found = {}
    with metastore.database.read() as conn:
        for prefix, table in TABLES.items():
            columns = [table.c["HL_DB" if prefix == "HL" else f"{prefix}_DATABASE"], table.c[f"{prefix}_TABLE"]]
            if f"{prefix}_PARTITION" in table.c:
                columns.append(table.c[f"{prefix}_PARTITION"])
            rows = conn.execute(select(*columns)).all()
            found[prefix] = sorted(".".join(value for value in row if value is not None) for row in rows)
    return found


@pytest.fixture
def table(metastore: Metastore) -> Table:
    """``default.t`` with two partitions, and rows of every kind that name them; ``default.u`` and ``other.t`` too."""
    metastore.embedded_catalog.create_database("other", "/other")
    made = metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "t",
            "/t",
            INT,
            partition_keys=[Column(name="p", type="string")],
            parameters={"transactional": "true"},
        )
    )
    metastore.embedded_catalog.add_partition(made, ["a b"], name=ODD)
    metastore.embedded_catalog.add_partition(made, ["x"])
    for database, name in (("default", "u"), ("other", "t")):
        metastore.embedded_catalog.create_table(NewTable(database, name, f"/{database}/{name}", INT))
    for number, (database, name, part) in enumerate(
        (
            ("default", "t", ODD),
            ("default", "t", ODD.replace("%", "%25")),
            ("default", "t", "p=x"),
            ("default", "u", None),
            ("other", "t", None),
        )
    ):
        _rows_of(metastore, Entity(database=database, table=name, partition=part), number)
    return made


def _rows_of(metastore: Metastore, entity: Entity, number: int) -> None:
    done, left = metastore.transactions.open("u", "h", count=2)
    for txn, operation in ((done, "u"), (left, "i")):
        write_id = metastore.write_ids.allocate(txn, entity.database, entity.table)
        metastore.write_ids.add_component(txn, entity, operation, write_id)
    metastore.transactions.commit(done)
    request = LockRequest(database=entity.database, table=entity.table, partition="p=x", type=LockType.SHARED_READ)
    metastore.locks.acquire(left, [request], "u", "h")
    where = {"DATABASE": entity.database, "TABLE": entity.table, "PARTITION": entity.partition, "TYPE": "i"}
    with metastore.database.write() as conn:
        for table, prefix, state in ((t.COMPACTION_QUEUE, "CQ", "i"), (t.COMPLETED_COMPACTIONS, "CC", "s")):
            row = {"ID": number + 1, "STATE": state} | where
            conn.execute(insert(table).values(**{f"{prefix}_{name}": value for name, value in row.items()}))


def changed(before: dict[str, list[str]], after: dict[str, list[str]]) -> dict[str, tuple[list[str], list[str]]]:
    """Returns by prefix the names that disappeared and those that appeared."""
    apart = {}
    for prefix, old in before.items():
        gone, come = Counter(old) - Counter(after[prefix]), Counter(after[prefix]) - Counter(old)
        if gone or come:
            apart[prefix] = (sorted(gone.elements()), sorted(come.elements()))
    return apart


def test_a_dropped_partition_takes_its_rows_in_either_form_of_its_name(metastore: Metastore, table: Table) -> None:
    before = names(metastore)
    metastore.embedded_catalog.drop_partition(table, ODD)
    gone = sorted([f"default.t.{ODD}", "default.t.p=a%2520b"])
    assert changed(before, names(metastore)) == {prefix: (gone, []) for prefix in OF_PARTITIONS}
    assert [part.name for part in metastore.catalog.partitions(table)] == ["p=x"]


def test_a_dropped_table_takes_its_write_ids_along(metastore: Metastore, table: Table) -> None:
    before = names(metastore)
    metastore.embedded_catalog.drop_table(table)
    after = names(metastore)
    apart = changed(before, after)
    assert set(apart) == {*OF_PARTITIONS, "T2W", "NWI"}
    assert all(name.startswith("default.t") for gone, _ in apart.values() for name in gone)
    assert not any(name.startswith("default.t") for prefix in apart for name in after[prefix])
    assert metastore.write_ids.next("default", "t") == 1


def test_a_renamed_table_keeps_every_row(metastore: Metastore, table: Table) -> None:
    before, write_id = names(metastore), metastore.write_ids.next("default", "t")
    renamed = metastore.embedded_catalog.rename_table(table, "Moved", "other")
    assert (renamed.database, renamed.name, renamed.id, renamed.location) == ("other", "moved", table.id, "/t")
    wanted = {
        prefix: sorted(f"other.moved{name.removeprefix('default.t')}" if _of_t(name) else name for name in found)
        for prefix, found in before.items()
    }
    assert names(metastore) == wanted
    assert metastore.write_ids.next("other", "moved") == write_id
    with pytest.raises(NotFound):
        metastore.catalog.table("default", "t")


def _of_t(name: str) -> bool:
    return name == "default.t" or name.startswith("default.t.")


def test_a_renamed_partition_keeps_every_row_in_its_form(metastore: Metastore, table: Table) -> None:
    before = names(metastore)
    renamed = metastore.embedded_catalog.rename_partition(table, ODD, ["c/d"])
    assert (renamed.name, renamed.values) == ("p=c%2Fd", ("c/d",))
    old, new = [f"default.t.{ODD}", "default.t.p=a%2520b"], ["default.t.p=c%2Fd", "default.t.p=c%252Fd"]
    assert changed(before, names(metastore)) == {
        prefix: (sorted(old), sorted(new)) for prefix in (*OF_PARTITIONS, "WS")
    }


def test_a_dropped_database_takes_its_rows(metastore: Metastore, table: Table) -> None:
    with pytest.raises(Refused, match="has tables, such as t; drop them first"):
        metastore.embedded_catalog.drop_database("other")
    metastore.embedded_catalog.drop_table(metastore.catalog.table("other", "t"))
    metastore.embedded_catalog.drop_database("Other")
    assert list(metastore.catalog.databases()) == ["default"]
    left = names(metastore)
    assert not [name for prefix in (*OF_PARTITIONS, "T2W", "NWI") for name in left[prefix] if name.startswith("other")]


def test_a_name_that_is_taken_or_not_there_is_refused(metastore: Metastore, table: Table) -> None:
    before = names(metastore)
    with pytest.raises(Refused, match=r"default\.u exists already"):
        metastore.embedded_catalog.rename_table(table, "u")
    with pytest.raises(NotFound, match="database nowhere"):
        metastore.embedded_catalog.rename_table(table, "v", "nowhere")
    with pytest.raises(Refused, match=r"'p=x' of default\.t exists already"):
        metastore.embedded_catalog.rename_partition(table, ODD, ["x"])
    with pytest.raises(Refused, match="1 partition keys, found 2 values"):
        metastore.embedded_catalog.rename_partition(table, ODD, ["x", "y"])
    with pytest.raises(NotFound, match="database nowhere"):
        metastore.embedded_catalog.drop_database("nowhere")
    assert names(metastore) == before
