"""A metastore of Hive 2.3 on every database: what is read from it, and the rows that its own worker would write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from compactor.acid.write_ids import ValidTxnList
from compactor.base.errors import LostClaim, NotSupported, Refused
from compactor.base.ids import TxnId, WriteId
from compactor.cli.program import program
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import Database, open_database
from compactor.metastore.metastore import open_metastore
from compactor.metastore.queue.hive2_queue import Hive2
from compactor.metastore.schema.detect import is_hive_2
from compactor.metastore.schema.hive2 import Hive2Schema, hive_2_dialect
from tests.support import hive2, servers
from tests.support.expected import step

T = Entity(database="default", table="f7_v1")
PART = Entity(database="default", table="f7_v1", partition="p=A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """A metastore with nothing in it."""

    url: str
    database: Database
    metastore: Hive2 = field(repr=False)

    def rows(self, table: str = "COMPACTION_QUEUE") -> list[dict[str, Any]]:
        with self.database.read() as conn:
            found = conn.execute(text(f"SELECT * FROM {table}")).mappings().all()
        return sorted(
            ({k.upper(): v for k, v in row.items()} for row in found), key=lambda row: str(list(row.values()))
        )

    def do(self, statement: str) -> None:
        with self.database.write() as conn:
            conn.execute(text(statement))


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def old(request: pytest.FixtureRequest, server: Callable[[str], servers.Server], tmp_path: Path) -> Iterator[Old]:
    kind, name = request.param, "hive2"
    url = f"sqlite:///{tmp_path / 'hive2.db'}" if kind == "sqlite" else server(kind).make(name)
    database = open_database(url)
    with database.write() as conn:
        for statement in hive2.schema_sql(kind):
            conn.exec_driver_sql(statement)
    dialect = Hive2Schema() if kind == "sqlite" else hive_2_dialect(kind, "2.3.0", url)
    yield Old(url=url, database=database, metastore=Hive2(database, dialect))
    database.close()
    if kind != "sqlite":
        server(kind).drop(name)


def test_transactions_without_a_row_have_committed(old: Old) -> None:
    old.do("UPDATE NEXT_TXN_ID SET NTXN_NEXT = 10")
    for txn, state in ((3, "a"), (7, "o"), (10, "o")):  # the last one began after the counter was read
        old.do(f"INSERT INTO TXNS VALUES ({txn}, '{state}', 0, 0, 'u', 'h', NULL, NULL, NULL)")
    assert old.metastore.snapshot() == ValidTxnList(
        high_watermark=TxnId(9), open=frozenset({TxnId(7)}), aborted=frozenset({TxnId(3)})
    )


def test_a_claim_is_the_row_of_one_worker(old: Old) -> None:
    claim = old.metastore.claim(T, "compactor-a")
    assert (claim.id, claim.number, claim.is_new) == (1, 1, True)
    with pytest.raises(Refused, match=r"compactor-a compacts it \(compaction 1\)"):
        old.metastore.claim(T, "compactor-b")
    assert [(w.id, w.entity, w.worker_id) for w in old.metastore.working()] == [(1, T, "compactor-a")]
    assert old.rows("NEXT_COMPACTION_QUEUE_ID") == [{"NCQ_NEXT": 2}]
    assert old.rows("AUX_TABLE") == [{"MT_KEY1": "CompactionScheduler", "MT_KEY2": 0, "MT_COMMENT": None}]
    other = old.metastore.claim(PART, "compactor-b")
    old.metastore.let_go(claim)
    old.metastore.let_go(claim)
    assert [(row["CQ_ID"], row["CQ_PARTITION"]) for row in old.rows()] == [(other.id, "p=A")]


def test_partitions_that_differ_in_case_only_are_two(old: Old) -> None:
    old.metastore.claim(PART, "compactor-a")
    small = Entity(database="default", table="f7_v1", partition="p=a")
    assert old.metastore.claim(small, "compactor-b").is_new


def test_a_row_that_waits_is_taken_and_given_back_as_it_was(old: Old) -> None:
    request = "INSERT INTO COMPACTION_QUEUE (CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_STATE, CQ_TYPE)"
    old.do(f"{request} VALUES (40, 'default', 'f7_v1', 'i', 'a')")
    before = old.rows()
    claim = old.metastore.claim(T, "compactor-a")
    assert (claim.id, claim.number, claim.is_new) == (40, 1, False)
    assert [(row["CQ_STATE"], row["CQ_WORKER_ID"]) for row in old.rows()] == [("w", "compactor-a")]
    old.metastore.let_go(claim)
    assert old.rows() == before
    again = old.metastore.claim(T, "compactor-a")
    assert again.number == 2  # no two attempts stage in one place
    old.metastore.revoke(old.metastore.working()[0])
    assert old.rows() == before
    with pytest.raises(LostClaim, match="no longer worked on by compactor-a"):
        old.metastore.record(again, WriteId(5), "alice")


def test_what_is_named_is_ready_for_hive_2_s_cleaner(old: Old, warehouse: Path) -> None:
    hive2.register(old.database, step("hive-2.3/f7_v1/s1_dml"), warehouse)
    (table,) = old.metastore.catalog.tables()
    assert (table.owner, table.is_full_acid, [c.type for c in table.columns]) == ("alice", True, ["int", "string"])
    claim = old.metastore.claim(T, "compactor-a")
    old.metastore.record(claim, WriteId(34), "alice")
    with (
        pytest.raises(LostClaim, match="re-created or moved"),
        old.metastore.committing(claim, table_id=table.id, partition_id=None, location="/elsewhere"),
    ):
        raise AssertionError("never comes here")
    with old.metastore.committing(claim, table_id=table.id, partition_id=None, location=table.location):
        pass
    (row,) = [row for row in old.rows() if row["CQ_ID"] == claim.id]
    state = (row["CQ_STATE"], row["CQ_WORKER_ID"], row["CQ_RUN_AS"], row["CQ_HIGHEST_TXN_ID"])
    assert state == ("r", None, "alice", 34)
    with (
        pytest.raises(LostClaim, match="no longer worked on"),
        old.metastore.committing(claim, table_id=table.id, partition_id=None, location=table.location),
    ):
        raise AssertionError("never comes here")


def test_partitions_are_read(old: Old, warehouse: Path) -> None:
    hive2.register(old.database, step("hive-2.3/f7_v1/s1_dml"), warehouse)
    quote = "`" if old.url.startswith("mysql") else '"'
    for statement in (
        "INSERT INTO #SDS# SELECT 2, #INPUT_FORMAT#, #IS_COMPRESSED#, '/p', 2, NULL, 1, 1, #IS_STOREDASSUBDIRECTORIES# "
        "FROM #SDS#",
        "INSERT INTO #PARTITION_KEYS# VALUES (1, NULL, 'p', 'string', 0)",
        "INSERT INTO #PARTITIONS# VALUES (5, 0, 0, 'p=A', 2, 1)",
        "INSERT INTO #PARTITION_KEY_VALS# VALUES (5, 'A', 0)",
    ):
        old.do(statement.replace("#", quote))
    (table,) = old.metastore.catalog.tables()
    (partition,) = old.metastore.catalog.partitions(table)
    assert (partition.name, partition.values, partition.location) == ("p=A", ("A",), "/p")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)

    def call(url: str, *arguments: str) -> Result:
        monkeypatch.setenv("COMPACTOR_METASTORE_URL", url)
        return CliRunner().invoke(program, arguments)

    return call


def test_the_command_lists_compacts_and_lists_nothing_more(
    old: Old, warehouse: Path, run: Callable[..., Result]
) -> None:
    if old.database.kind == "sqlite":
        assert "wanted is schema 2.3.0 on PostgreSQL or MySQL" in run(old.url, "doctor", "--before-hive-3").stdout
        return
    hive2.register(old.database, step("hive-2.3/f7_v1/s2_minor"), warehouse)
    listed = run(old.url, "doctor", "--before-hive-3")
    assert (listed.exit_code, "FAIL  default.f7_v1: delta_0000032_0000034/" in listed.stdout) == (1, True)
    refused = run(old.url, "doctor", "--before-hive-3", "--compact")
    assert (refused.exit_code, "compactor.mode is observe" in refused.stdout) == (1, True)
    done = run(
        old.url,
        "--set",
        "compactor.mode=compact",
        "doctor",
        "--before-hive-3",
        "--compact",
        "--verify",
        "full",
        "--json",
    )
    assert done.exit_code == 0, done.output
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["found"] == "compacted to base_0000034: 6 events, 3 rows"
    again = run(old.url, "doctor", "--before-hive-3")
    assert (again.exit_code, again.stdout) == (
        0,
        "ok    before Hive 3: none of 1 directories of full ACID tables needs a major compaction\n",
    )


def test_every_other_command_refuses_hive_2_by_name(old: Old) -> None:
    with pytest.raises(NotSupported, match=r"schema 2\.3\.0 is Hive 2's.*doctor --before-hive-3"):
        open_metastore("default", old.url)


@pytest.mark.parametrize(("version", "old_one"), [("1.2.0", True), ("2.3.0", True), ("3.1.0", False), ("4.0.0", False)])
def test_which_schemas_are_hive_2_s(version: str, old_one: bool) -> None:
    assert is_hive_2(version) is old_one


def test_an_older_schema_is_refused_by_name() -> None:
    with pytest.raises(
        NotSupported, match=r"postgresql with schema 2\.1\.0 is not looked at; wanted is schema 2\.3\.0"
    ):
        hive_2_dialect("postgresql", "2.1.0", "postgresql://host/name")
