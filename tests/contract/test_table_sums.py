"""The sums over a table's rows change with each of them, over every database."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, insert, literal, select, text, update

from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType, State
from compactor.database.text_hash import mix_bits, short_hash, text_hash
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import COMPLETED_TXN_COMPONENTS, PARTITIONS, SDS, SORT_COLS
from compactor.metastore.table_sums import TableSums, read_table_sums

pytestmark = pytest.mark.usefixtures("hive4")

NAME = ("default", "t")


@pytest.fixture
def table(metastore: Metastore) -> Table:
    """A table with two partitions, each written to, and a compaction of the first that has failed."""
    table = _create(metastore, "t")
    for value in ("1", "2"):
        metastore.embedded_catalog.add_partition(table, [value])
        write(metastore, f"p={value}")
    fail(metastore, "p=1")
    return table


def _create(metastore: Metastore, name: str) -> Table:
    columns, keys = [Column(name="a", type="int")], [Column(name="p", type="string")]
    properties = {"transactional": "true"}
    return metastore.embedded_catalog.create_table(
        NewTable("default", name, f"/w/{name}", columns, partition_keys=keys, parameters=properties)
    )


def write(metastore: Metastore, partition: str, *, commits: bool = True, table: str = "t") -> None:
    (txn,) = metastore.transactions.open("ann", "h")
    write_id = metastore.write_ids.allocate(txn, "default", table)
    entity = Entity(database="default", table=table, partition=partition)
    metastore.write_ids.add_component(txn, entity, "i", write_id)
    if commits:
        metastore.transactions.commit(txn)


def fail(metastore: Metastore, partition: str) -> None:
    entity = Entity(database="default", table="t", partition=partition)
    metastore.requests.request(Request(entity=entity, type=CompactionType.MAJOR, initiator="compactor-test"))
    entry = metastore.claims.claim("compactor-test", "test", pool_timeout_ms=0)
    assert entry is not None
    metastore.claims.finish(entry, State.FAILED, "by a test")


def run(metastore: Metastore, statement: str) -> None:
    with metastore.database.write() as conn:
        assert conn.execute(text(_quote(metastore, statement))).rowcount


def _quote(metastore: Metastore, statement: str) -> str:
    return statement.replace('"', "`") if metastore.database.kind == "mysql" else statement


def write_late(metastore: Metastore, table: Table) -> None:
    """The rows of two transactions are cleaned, and two others commit, with the same number and sum of ids."""
    ids = select(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID).order_by(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID)
    with metastore.database.write() as conn:
        first, last = conn.execute(ids).scalars().all()
        for before, now in ((first, first - 1), (last, last + 1)):
            txn = COMPLETED_TXN_COMPONENTS.c.CTC_TXNID
            conn.execute(update(COMPLETED_TXN_COMPONENTS).where(txn == before).values(CTC_TXNID=now))


def sort_files(metastore: Metastore, table: Table) -> None:
    storage = select(PARTITIONS.c.SD_ID, literal("a"), literal(1), literal(0)).where(PARTITIONS.c.PART_NAME == "p=1")
    with metastore.database.write() as conn:
        conn.execute(insert(SORT_COLS).from_select(["SD_ID", "COLUMN_NAME", "ORDER", "INTEGER_IDX"], storage))


CHANGES: dict[str, tuple[str, Callable[[Metastore, Table], object]]] = {
    "a commit": ("writes", lambda m, t: write(m, "p=1")),
    "a cleaning": (
        "writes",
        lambda m, t: run(m, 'DELETE FROM "COMPLETED_TXN_COMPONENTS" WHERE "CTC_PARTITION" = \'p=1\''),
    ),
    "late commits": ("writes", write_late),
    "another partition in a row": (
        "writes",
        lambda m, t: run(
            m,
            'UPDATE "COMPLETED_TXN_COMPONENTS" SET "CTC_PARTITION" = '
            "CASE WHEN \"CTC_PARTITION\" = 'p=1' THEN 'p=2' ELSE 'p=1' END",
        ),
    ),
    "a new partition": ("places", lambda m, t: m.embedded_catalog.add_partition(t, ["3"])),
    "a dropped partition": ("places", lambda m, t: m.embedded_catalog.drop_partition(t, "p=2")),
    "a renamed partition": ("places", lambda m, t: m.embedded_catalog.rename_partition(t, "p=2", ["4"])),
    "two partitions change places": (
        "places",
        lambda m, t: run(
            m,
            "UPDATE \"SDS\" SET \"LOCATION\" = CASE WHEN \"LOCATION\" LIKE '%p=1' THEN '/w/t/p=2' ELSE '/w/t/p=1' END "
            "WHERE \"LOCATION\" LIKE '%p=_'",
        ),
    ),
    "a failure": ("ended", lambda m, t: fail(m, "p=1")),
    "an older failure": ("ended", lambda m, t: run(m, 'UPDATE "COMPLETED_COMPACTIONS" SET "CC_ENQUEUE_TIME" = 1')),
    "a purge": ("ended", lambda m, t: run(m, 'DELETE FROM "COMPLETED_COMPACTIONS"')),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_changes_a_sum(metastore: Metastore, table: Table, change: str) -> None:
    before = read_table_sums(metastore).of_table(NAME)
    kind, act = CHANGES[change]
    act(metastore, table)
    assert getattr(read_table_sums(metastore).of_table(NAME), kind) != getattr(before, kind)


def test_what_happens_elsewhere_changes_no_sum(metastore: Metastore, table: Table) -> None:
    before = read_table_sums(metastore)
    other = _create(metastore, "other")
    metastore.embedded_catalog.add_partition(other, ["1"])
    write(metastore, "p=1", table="other")
    write(metastore, "p=1", commits=False)
    after = read_table_sums(metastore)
    assert after.of_table(NAME) == before.of_table(NAME)
    assert (before.written, after.written) == ({NAME: 2}, {NAME: 2, ("default", "other"): 1})


def test_a_table_without_rows_has_empty_sums(metastore: Metastore) -> None:
    assert read_table_sums(metastore).of_table(("default", "none")) == TableSums()


def test_tables_with_sorted_partitions_are_named(metastore: Metastore, table: Table) -> None:
    assert read_table_sums(metastore).sorted == set()
    sort_files(metastore, table)
    assert read_table_sums(metastore).sorted == {NAME}


def test_hashes_of_texts_differ_and_add_up(metastore: Metastore, table: Table) -> None:
    """Their sums fit into 64 bits for millions of rows."""
    texts = ("", "p=1", "p=2", "P=1", "p=1 ", "ü", "x" * 4000)
    with metastore.database.read() as conn:
        hashes = [conn.execute(select(text_hash(literal(item)))).scalar_one() for item in texts]
        again = [conn.execute(select(text_hash(literal(item)))).scalar_one() for item in texts]
        missing = select(SDS.c.LOCATION).where(SDS.c.SD_ID == -1).scalar_subquery()
        nothing = conn.execute(select(text_hash(missing))).scalar()
    assert len(set(hashes)) == len(texts)
    assert all(0 <= number < 2**40 for number in hashes)
    assert hashes == again
    assert nothing is None


def test_short_hashes_of_texts_differ(metastore: Metastore) -> None:
    texts = ("", "p=1", "p=2", "P=1", "p=1 ", "ü", "x" * 4000)
    with metastore.database.read() as conn:
        hashes = [conn.execute(select(short_hash(literal(item)))).scalar_one() for item in texts]
    assert len(set(hashes)) == len(texts)
    assert all(0 <= number < 2**32 for number in hashes)


def test_hashes_of_numbers_add_up_to_different_sums(metastore: Metastore) -> None:
    """The numbers have equal sums, and equal sums of squares, of cubes or of products."""
    groups = [(4, 6), (3, 7)], [(10, 14, 15), (11, 12, 16)], [(1, 5, 8, 12), (2, 3, 10, 11)]
    numbers = COMPLETED_TXN_COMPONENTS.c.CTC_TXNID
    largest = 2**53

    def add_up(conn: Connection, group: tuple[int, ...]) -> int:
        return sum(int(conn.execute(select(mix_bits(literal(number, numbers.type)))).scalar_one()) for number in group)

    with metastore.database.read() as conn:
        for one, other in groups:
            assert add_up(conn, one) != add_up(conn, other)
        assert 0 <= add_up(conn, (largest,)) < 2**31


def test_an_unused_write_id_changes_nothing(metastore: Metastore, table: Table) -> None:
    before = read_table_sums(metastore).of_table(NAME)
    (txn,) = metastore.transactions.open("ann", "h")
    assert metastore.write_ids.allocate(txn, "default", "t") > WriteId(0)
    assert read_table_sums(metastore).of_table(NAME) == before
