"""A fixture is registered as its dump says; what cannot be true in one metastore is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from compactor.base.errors import BadFile, NotFound, Refused
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables
from demo.fixtures import LocationForm, read_step, register_fixture
from tests.support.expected import FIXTURES, in_order, step, step_id


def select_rows(metastore: Metastore, table: str, *columns: str) -> list[tuple[object, ...]]:
    chosen = [tables.metadata.tables[table].c[column] for column in columns]
    with metastore.database.read() as connection:
        return sorted((tuple(row) for row in connection.execute(select(*chosen))), key=repr)


def states(metastore: Metastore) -> dict[object, object]:
    return {txn: state for txn, state in select_rows(metastore, "TXNS", "TXN_ID", "TXN_STATE") if txn}


def test_files_and_catalog(metastore: Metastore, warehouse: Path) -> None:
    source = step("hive-4.1/f2_part/s1_dml")
    table = register_fixture(metastore, source, warehouse, location_form=LocationForm.ONE_SLASH)
    copied = warehouse / "f2_part"
    assert table.location == f"file:{copied}"
    assert (table.database, table.name, table.owner, table.type) == ("default", "f2_part", "root", "MANAGED_TABLE")
    assert [(c.name, c.type) for c in table.columns] == [("a", "int"), ("b", "string")]
    assert [(c.name, c.type) for c in table.partition_keys] == [("p", "string"), ("q", "int")]
    assert (table.buckets, table.bucket_columns) == (2, ("a",))
    assert table.is_full_acid

    def files(root: Path) -> dict[str, bytes]:
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    assert files(copied) == files(source / "f2_part")


def test_partitions_have_plain_values_and_the_stored_name(metastore: Metastore, warehouse: Path) -> None:
    table = register_fixture(metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    found = {part.name: part for part in metastore.catalog.partitions(table)}
    assert {name: part.values for name, part in found.items()} == {
        "p=Zürich/q=6": ("Zürich", "6"),
        "p=__HIVE_DEFAULT_PARTITION__/q=4": ("__HIVE_DEFAULT_PARTITION__", "4"),
        "p=a b%3Dc%2Fd%25/q=3": ("a b=c/d%", "3"),
        "p=its %22q%22 %231%3A2/q=5": ('its "q" #1:2', "5"),
        "p=x/q=1": ("x", "1"),
        "p=y/q=2": ("y", "2"),
    }
    for name, part in found.items():
        assert part.location == f"{table.location}/{name}"


@pytest.mark.parametrize(
    ("form", "prefix"),
    [(LocationForm.PLAIN, "/"), (LocationForm.ONE_SLASH, "file:/"), (LocationForm.THREE_SLASHES, "file:///")],
)
def test_location_forms(metastore: Metastore, warehouse: Path, form: LocationForm, prefix: str) -> None:
    table = register_fixture(metastore, step("hive-4.1/u1_union/s1_dml"), warehouse, location_form=form)
    assert table.location == prefix + str(warehouse / "u1_union").lstrip("/")


def test_locations_vary_from_fixture_to_fixture(metastore: Metastore, warehouse: Path) -> None:
    names = ["hive-4.1/f4_stmtids/s1_merge", "hive-4.1/u1_union/s1_dml", "hive-4.1/f6_types/s1_dml"]
    names += ["hive-4.1/g4_stripes/s1_dml", "hive-4.1/f2_part/s1_dml", "trino-476/t1_basic/s1_insert"]
    found = [register_fixture(metastore, step(name), warehouse).location for name in names]
    schemes = {location.removesuffix(location.lstrip("file:").lstrip("/")) for location in found}
    assert schemes == {"/", "file:/", "file:///"}


def test_transactions_of_hive_4_keep_their_states(metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step("hive-4.1/f3_abort/s1_aborts"), warehouse)
    found = states(metastore)
    assert sorted(found) == list(range(1, max(found) + 1))
    assert {txn for txn, state in found.items() if state == "a"} == {79, 80, 81}
    assert select_rows(metastore, "TXN_COMPONENTS", "TC_TXNID", "TC_OPERATION_TYPE", "TC_WRITEID") == [
        (79, "i", 2),
        (80, "d", 3),
        (81, "d", 4),
    ]


def test_transactions_that_hive_3_forgot_are_committed(metastore: Metastore, warehouse: Path) -> None:
    path = step("hive-3.1/f3_abort/s1_aborts")
    register_fixture(metastore, path, warehouse)
    following = read_step(path).dump.number("NEXT_TXN_ID", "NTXN_NEXT")
    found = states(metastore)
    assert sorted(found) == list(range(1, following))
    assert {txn for txn, state in found.items() if state == "a"} == {70, 71, 72}


def test_transactions_reach_above_every_visibility_id_in_storage(metastore: Metastore, warehouse: Path) -> None:
    path = step("hive-4.1/f1_basic/s12_major_again")
    register_fixture(metastore, path, warehouse)
    assert max(read_step(path).visibility_txn_ids()) == 50
    assert states(metastore)[50] == "c"


def test_a_new_transaction_gets_an_id_that_the_dump_never_saw(metastore: Metastore, warehouse: Path) -> None:
    """PROTOCOL 9: an id is never handed out again, or a new transaction would own an old ``_v``."""
    register_fixture(metastore, step("hive-4.1/f1_basic/s12_major_again"), warehouse)
    largest = max(states(metastore))
    (opened,) = metastore.transactions.open("me", "here")
    assert opened == largest + 1


def test_write_ids_are_those_of_this_table_alone(metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step("hive-3.1/f2_part/s2_minor_x1"), warehouse, table="renamed")
    assert select_rows(metastore, "NEXT_WRITE_ID", "NWI_DATABASE", "NWI_TABLE", "NWI_NEXT") == [
        ("default", "renamed", 5)
    ]
    assert select_rows(metastore, "TXN_TO_WRITE_ID", "T2W_TXNID", "T2W_TABLE", "T2W_WRITEID") == [
        (52, "renamed", 1),
        (53, "renamed", 2),
        (54, "renamed", 3),
        (55, "renamed", 4),
    ]
    completed = select_rows(metastore, "COMPLETED_TXN_COMPONENTS", "CTC_TXNID", "CTC_PARTITION", "CTC_UPDATE_DELETE")
    assert completed[0] == (53, "p=__HIVE_DEFAULT_PARTITION__/q=4", "N")
    assert {partition for _, partition, _ in completed} >= {"p=a b%3Dc%2Fd%25/q=3", "p=y/q=2"}


def test_hive_2_counts_in_transaction_ids(metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step("hive-2.3/f1_basic/s5_minor_done_not_cleaned"), warehouse)
    (following,) = select_rows(metastore, "NEXT_WRITE_ID", "NWI_NEXT")
    assert following == (max(states(metastore)) + 1,)
    assert select_rows(metastore, "COMPACTION_QUEUE", "CQ_STATE", "CQ_HIGHEST_WRITE_ID") == [("r", 4)]
    assert all(txn == write for txn, write in select_rows(metastore, "TXN_TO_WRITE_ID", "T2W_TXNID", "T2W_WRITEID"))


def test_queue_rows_of_this_table_with_times_of_a_minute_ago(metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step("hive-4.1/f1_basic/s5_minor_done_not_cleaned"), warehouse)
    columns = ("CQ_ID", "CQ_STATE", "CQ_HIGHEST_WRITE_ID", "CQ_TXN_ID", "CQ_NEXT_TXN_ID")
    assert select_rows(metastore, "COMPACTION_QUEUE", *columns) == [(1, "r", 4, 18, 18)]
    ((enqueued, started, committed),) = select_rows(
        metastore, "COMPACTION_QUEUE", "CQ_ENQUEUE_TIME", "CQ_START", "CQ_COMMIT_TIME"
    )
    assert (started - enqueued, committed - started) == (765, 1159)
    newest = max(beat for (beat,) in select_rows(metastore, "TXNS", "TXN_LAST_HEARTBEAT"))
    assert 0 <= newest - committed < 60_000


def test_history_rows_and_the_next_id(metastore: Metastore, warehouse: Path) -> None:
    register_fixture(metastore, step("hive-4.1/q1_query/s4_major"), warehouse)
    assert select_rows(metastore, "COMPLETED_COMPACTIONS", "CC_ID", "CC_STATE", "CC_TXN_ID") == [
        (26, "s", 264),
        (27, "s", 273),
    ]
    assert select_rows(metastore, "NEXT_COMPACTION_QUEUE_ID", "NCQ_NEXT") == [(28,)]


def test_requests_with_one_id_get_another(metastore: Metastore, warehouse: Path) -> None:
    source = "f1_basic/s4_minor_requested"
    register_fixture(metastore, step(f"hive-3.1/{source}"), warehouse, table="three")
    register_fixture(metastore, step(f"hive-4.1/{source}"), warehouse, table="four")
    assert select_rows(metastore, "COMPACTION_QUEUE", "CQ_ID", "CQ_TABLE") == [(1, "three"), (2, "four")]


def test_the_fixtures_of_the_demo_agree_in_one_metastore(metastore: Metastore, warehouse: Path) -> None:
    for name in ("hive-3.1/f3_abort/s1_aborts", "hive-4.1/q1_query/s1_minor_not_cleaned"):
        register_fixture(metastore, step(name), warehouse)
    register_fixture(metastore, step("trino-476/t8_nobucket_multi/s1_trino_deletes"), warehouse)
    found = states(metastore)
    assert {txn for txn, state in found.items() if state == "a"} == {70, 71, 72}
    assert sorted(found) == list(range(1, 3587))


ABORTED_72, COMMITTED_72 = "hive-3.1/f3_abort/s1_aborts", "hive-4.1/f2_part/s3_major_x1_y2_sp3"


@pytest.mark.parametrize(("first", "second"), [(ABORTED_72, COMMITTED_72), (COMMITTED_72, ABORTED_72)])
def test_fixtures_that_disagree_about_a_transaction_are_refused(
    metastore: Metastore, warehouse: Path, first: str, second: str
) -> None:
    register_fixture(metastore, step(first), warehouse, table="one")
    before = states(metastore)
    with pytest.raises(Refused, match=r"transaction 7[02] is '[ac]' in .* and '[ac]' in a registered table"):
        register_fixture(metastore, step(second), warehouse, table="two")
    assert [path.name for path in warehouse.iterdir()] == ["one"]
    assert [table.name for table in metastore.catalog.tables()] == ["one"]
    assert states(metastore) == before


def test_a_taken_directory_is_refused_before_anything_is_written(metastore: Metastore, warehouse: Path) -> None:
    (warehouse / "u1_union").mkdir()
    with pytest.raises(Refused, match="u1_union exists already"):
        register_fixture(metastore, step("hive-4.1/u1_union/s1_dml"), warehouse)
    assert metastore.catalog.tables() == []


def test_a_directory_that_is_no_step_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no txn_tables\.txt"):
        read_step(tmp_path)


def test_an_open_transaction_in_a_dump_is_refused(metastore: Metastore, warehouse: Path, tmp_path: Path) -> None:
    path = tmp_path / "set" / "fixture" / "step"
    path.mkdir(parents=True)
    (path / "describe.txt").write_text("a\tint\n# Detailed Table Information\nLocation:\tfile:/w/t\n")
    (path / "txn_tables.txt").write_text("[TXNS] TXN_ID,TXN_STATE\n   7 | o\n")
    with pytest.raises(BadFile, match="transactions 7 are open"):
        register_fixture(metastore, path, warehouse)


def test_a_table_without_files_is_an_empty_directory(metastore: Metastore, warehouse: Path) -> None:
    table = register_fixture(metastore, step("hive-3.1/g1_nobucket/s5_truncate"), warehouse, database="other")
    assert str(table) == "other.g1_nobucket"
    assert list((warehouse / "other.db" / "g1_nobucket").iterdir()) == []


LAST_STEPS = {path.parent: path for path in sorted(FIXTURES.glob("*/*/*"), key=in_order)}


@pytest.mark.parametrize("path", LAST_STEPS.values(), ids=step_id)
def test_the_last_step_of_every_fixture_is_registered(metastore: Metastore, warehouse: Path, path: Path) -> None:
    table = register_fixture(metastore, path, warehouse)
    assert table.name == read_step(path).table
    assert metastore.catalog.table("default", table.name) == table
    assert len(metastore.catalog.partitions(table)) == len(read_step(path).partitions())
