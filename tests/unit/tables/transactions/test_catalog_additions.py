from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import select

from compactor.acid.names import Base
from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused, StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.schema import tables as t
from compactor.metastore.schema.tables import TXN_COMPONENTS
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.tables.definitions import Definition, create_with_commit
from compactor.tables.store import Store
from compactor.tables.transactions.pending import Pending
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.append import WriteOptions, append
from compactor.worker.ending import Result
from compactor.worker.under_way import Options
from tests.support.tables import with_settings

DAY = date(2026, 11, 1)
ROWS = pa.table({"a": pa.array([1, 2], pa.int32())})
WANTED = Definition(schema={"a": "int"})


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_abortedtxn_threshold="0")
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    (warehouse / "p").mkdir()
    site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "p",
            str(warehouse / "p"),
            [Column(name="v", type="int")],
            partition_keys=[Column(name="day", type="date"), Column(name="s", type="string")],
            parameters={"transactional": "true", "bucketing_version": "2"},
            buckets=2,
            bucket_columns=["v"],
        )
    )
    return Store(site)


def make_rows(v: int, s: str | None = "x") -> pa.Table:
    return pa.table({"v": pa.array([v], pa.int32()), "day": pa.array([DAY]), "s": pa.array([s], pa.string())})


def values(store: Store) -> list[int]:
    return sorted(row["v"] for row in store.load_table("default.p").scan().to_arrow().to_pylist())


def added_partitions_select(store: Store, table: Any) -> list[dict[str, Any]]:
    with store.site.metastore.database.read() as conn:
        return [dict(row) for row in conn.execute(table.select()).mappings()]


def test_rows_make_their_partitions_with_the_commit(store: Store, warehouse: Path) -> None:
    table = store.load_table("default.p")
    with store.transaction() as txn:
        own = txn.load_table("default.p")
        own.append(make_rows(1, "a b=c/d%"))
        own.append(make_rows(2, None))
        assert own.scan().count() == 2, "a transaction reads what it has staged"
        assert own.delete("v = 2") == 1
        own.append(make_rows(3, "a b=c/d%"))
        assert table.partitions == ()
        assert values(store) == []
    assert table.partitions == ("day=2026-11-01/s=__HIVE_DEFAULT_PARTITION__", "day=2026-11-01/s=a b%3Dc%2Fd%25")
    assert values(store) == [1, 3]
    assert (warehouse / "p/day=2026-11-01/s=a b%3Dc%2Fd%25/delta_0000001_0000001_0000").is_dir()
    found = store.site.metastore.catalog.partitions(store.site.metastore.catalog.table("default", "p"))
    assert [part.values for part in found] == [
        ("2026-11-01", "__HIVE_DEFAULT_PARTITION__"),
        ("2026-11-01", "a b=c/d%"),
    ]


def test_a_component_for_each_partition_takes_the_place_of_the_tables_in_the_commit(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.p").append(make_rows(1))
        assert [row["TC_PARTITION"] for row in added_partitions_select(store, t.TXN_COMPONENTS)] == [None]
        assert [row["HL_PARTITION"] for row in added_partitions_select(store, t.HIVE_LOCKS)] == [None]
    store.load_table("default.p").append(pa.concat_tables([make_rows(2), make_rows(3, "y")]))
    completed = [
        (row["CTC_WRITEID"], row["CTC_PARTITION"]) for row in added_partitions_select(store, t.COMPLETED_TXN_COMPONENTS)
    ]
    assert sorted(completed) == [(1, "day=2026-11-01/s=x"), (2, "day=2026-11-01/s=x"), (2, "day=2026-11-01/s=y")]
    assert {row["PART_NAME"]: row["WRITE_ID"] for row in added_partitions_select(store, t.PARTITIONS)} == {
        "day=2026-11-01/s=x": 2,
        "day=2026-11-01/s=y": 2,
    }


def test_a_partition_that_is_given_is_locked_alone(store: Store) -> None:
    part = {"DAY": DAY, "s": "x"}
    only_v = pa.table({"v": pa.array([1], pa.int32())})
    with store.transaction() as txn:
        txn.load_table("default.p").append(only_v, partition=part)
        assert [row["HL_PARTITION"] for row in added_partitions_select(store, t.HIVE_LOCKS)] == ["day=2026-11-01/s=x"]
    table = store.load_table("default.p")
    assert table.append(only_v, partition=part) == 1
    assert values(store) == [1, 1]
    assert table.overwrite(pa.table({"v": [7]}), partition={"day": DAY, "s": "y"}) == 1
    assert table.overwrite(only_v.slice(1), partition=part) == 0, "nothing in place of what was there"
    assert values(store) == [7]
    assert table.append(pa.table({"v": [8], "s": ["z"]}), partition={"day": DAY}) == 1
    assert len(table.partitions) == 3
    with pytest.raises(NotConforming, match="twice"):
        table.append(pa.table({"v": [8], "s": ["z"]}), partition=part)
    with pytest.raises(NotFound, match="no partition column 'v'"):
        table.append(pa.table({"v": [8]}), partition={"v": 1})
    with pytest.raises(NotConforming, match=r"partition=\{'s': <object"):
        table.append(pa.table({"v": [8], "day": [DAY]}), partition={"s": object()})


def test_what_a_transaction_that_aborts_would_have_added_is_not_there(store: Store, warehouse: Path) -> None:
    with pytest.raises(RuntimeError):
        _fail(store)
    assert added_partitions_select(store, t.PARTITIONS) == []
    assert list((warehouse / "p").glob("**/*.compactor*")) == []


def _fail(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.p").append(make_rows(1))
        raise RuntimeError


def test_what_the_dead_staged_for_a_partition_that_was_never_added_is_swept(store: Store, warehouse: Path) -> None:
    """Its component is the table's, so that it is looked for in every directory (PROTOCOL 11.11)."""
    site = store.site
    (txn,) = site.metastore.transactions.open("somebody", "somewhere")
    write_id = site.metastore.write_ids.allocate(txn, "default", "p")
    site.metastore.write_ids.add_component(txn, Entity(database="default", table="p"), "i", write_id)
    place = warehouse / "p/day=2026-11-01/s=x"
    place.mkdir(parents=True)
    Pending(site.storage, txn).attempt(str(place), Base(write_id=write_id))
    assert list(place.iterdir())
    site.metastore.transactions.abort(txn, "it died")
    clean(site)
    assert list(place.iterdir()) == []


def test_a_partition_that_another_writer_adds_meanwhile_is_written_into(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.p").append(make_rows(1))
        store.load_table("default.p").append(make_rows(2))
    assert values(store) == [1, 2]
    assert len(added_partitions_select(store, t.PARTITIONS)) == 1


def test_one_that_is_added_elsewhere_meanwhile_is_refused_and_nothing_is_written(store: Store, warehouse: Path) -> None:
    with pytest.raises(Refused, match=r"was added at .*elsewhere meanwhile"):
        _meet(store, warehouse / "elsewhere")
    assert values(store) == []
    assert store.site.metastore.transactions.aborted()


def _meet(store: Store, elsewhere: Path) -> None:
    with store.transaction() as txn:
        txn.load_table("default.p").append(make_rows(1))
        elsewhere.mkdir()
        table = store.site.metastore.catalog.table("default", "p")
        store.site.metastore.embedded_catalog.add_partition(table, ["2026-11-01", "x"], str(elsewhere))


def test_a_directory_that_holds_rows_of_nobody_is_no_new_partition(store: Store, warehouse: Path) -> None:
    """They would be the partition's as soon as it is added."""
    lost = warehouse / "p/day=2026-11-01/s=x"
    lost.mkdir(parents=True)
    (lost / "000000_0").write_bytes(b"rows")
    with pytest.raises(StorageError, match="holds rows, but is not a partition"):
        store.load_table("default.p").append(make_rows(1))
    assert added_partitions_select(store, t.PARTITIONS) == []


def test_a_transaction_goes_on_after_a_statement_that_failed(store: Store) -> None:
    """PROTOCOL 14.12: neither the partition that it would have added nor a write into it is left for the commit."""
    with store.transaction() as txn:
        table = txn.load_table("default.p")
        table.overwrite(make_rows(1))
        with pytest.raises(NotSupported, match="has overwritten it"):
            table.append(pa.concat_tables([make_rows(2), make_rows(3, "new")]))
        table.append(make_rows(4, "other"))
    assert values(store) == [1, 4]
    assert sorted(part["PART_NAME"] for part in added_partitions_select(store, t.PARTITIONS)) == [
        f"day={DAY}/s=other",
        f"day={DAY}/s=x",
    ]


def test_names_that_a_metastore_of_hive_would_not_take_are_refused(store: Store) -> None:
    table = store.load_table("default.p")
    with pytest.raises(Refused, match="has a NUL character"):
        table.append(make_rows(1, "a\0b"))
    with pytest.raises(Refused, match="its longest value 257"):
        table.append(make_rows(1, "x" * 257))
    with pytest.raises(Refused, match="needs a directory with a name of 256 bytes; file systems have 255 at most"):
        table.append(make_rows(1, "ä" * 127))
    several = pa.concat_tables([make_rows(1), make_rows(2, "y")])
    few = Store(with_settings(store.site, hive_exec_max_dynamic_partitions="1")).load_table("default.p")
    with pytest.raises(Refused, match=r"2 partitions, but hive\.exec\.max\.dynamic\.partitions is 1"):
        few.append(several)
    strict = with_settings(store.site, hive_metastore_partition_name_whitelist_pattern="[-0-9x]*")
    assert Store(strict).load_table("default.p").append(make_rows(1)) == 1
    with pytest.raises(Refused, match=r"whitelist\.pattern"):
        Store(strict).load_table("default.p").append(make_rows(1, "y"))
    assert values(store) == [1]


def test_where_the_mode_is_observe_nothing_is_written(store: Store) -> None:
    watched = Store(with_settings(store.site, compactor_mode="observe"))
    with pytest.raises(Refused, match=r"default\.p: compactor\.mode is observe"):
        watched.load_table("default.p").append(make_rows(1))


@pytest.mark.parametrize(
    ("kind", "spelled", "value", "name"),
    [("int", "007", 7, "7"), ("boolean", "TRUE", True, "true"), ("char(3)", "a", "a", "a  "), ("bigint", "-0", 0, "0")],
)
def test_rows_of_one_value_are_not_divided_between_two_spellings_of_it(
    store: Store, kind: str, spelled: str, value: object, name: str
) -> None:
    """PROTOCOL 14.31: Hive keeps the text of ADD PARTITION; an overwrite of one would leave the rows of the other."""
    table = store.create_table("default.k", {"v": "int", "k": kind}, partitioned_by=["k"])
    catalog, added = store.site.metastore.embedded_catalog, store.site.metastore.catalog.table("default", "k")
    for text in (spelled, name):
        (Path(added.location) / f"k={text}").mkdir()
    catalog.add_partition(added, [spelled])
    new = pa.table({"v": pa.array([1], pa.int32()), "k": [value]})
    for write in (table.append, table.overwrite):
        with pytest.raises(Refused, match=f"partition 'k={name}', but partition 'k={spelled}' has the same values"):
            write(new)
    with pytest.raises(Refused, match="spelled otherwise"):
        table.overwrite(new.select(["v"]), partition={"k": value})
    assert table.partitions == (f"k={spelled}",)
    catalog.add_partition(added, [name])
    assert table.append(new) == 1
    for overwrite in (
        lambda: table.overwrite(new),
        lambda: table.overwrite(new.select(["v"]).slice(1), partition={"k": value}),
    ):
        with pytest.raises(Refused, match="spelled otherwise"):
            overwrite()
    assert table.scan().count() == 1
    catalog.drop_partitions(added, [f"k={spelled}"])
    assert table.overwrite(new) == 1
    assert table.scan().count() == 1


def test_new_partitions_are_compacted(store: Store) -> None:
    for v in range(3):
        store.load_table("default.p").append(make_rows(v))
    store.load_table("default.p").delete("v = 1")
    request_compaction(store.site, table="default.p", partition="day=2026-11-01/s=x", type="major")
    (outcome,) = run_entries(store.site, list_claimable_ids(store.site), InProcessRunner(), Options()).outcomes
    assert outcome.result is Result.COMPACTED
    assert values(store) == [0, 2]


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


def created_tables_values(site: Site) -> list[int]:
    return sorted(row["a"] for row in Store(site).load_table("default.t").scan().to_arrow().to_pylist())


def test_the_table_is_what_the_catalog_says_of_it_afterwards(site: Site) -> None:
    with transaction(site) as txn:
        made = create_with_commit(txn, "Default", "T", WANTED)
        assert append(txn, made, ROWS, WriteOptions()) == 2
        assert not site.metastore.catalog.is_known("default", "t")
    assert site.metastore.catalog.table("default", "t") == made
    assert created_tables_values(site) == [1, 2]


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
    assert created_tables_values(site) == [1, 2]
    assert list((warehouse / "late").iterdir()) == []


def test_nobody_creates_a_table_where_somebody_writes(site: Site) -> None:
    def second() -> None:
        with pytest.raises(Refused, match="somebody writes in"):
            created(site)

    created(site, after=second)
    assert created_tables_values(site) == [1, 2]


def test_a_table_that_came_to_its_directory_meanwhile_keeps_it(site: Site, warehouse: Path) -> None:
    """With both in one directory, each would have the other's rows."""
    store = Store(site)
    with pytest.raises(Refused, match=r"default\.t was not created.*default\.u"):
        created(site, f"{warehouse}/u/in", before=lambda: store.create_table("default.u", {"a": "int"}))
    assert not site.metastore.catalog.is_known("default", "t")
    assert store.load_table("default.u").append(ROWS) == 2
    assert list((warehouse / "u/in").iterdir()) == []
