from __future__ import annotations

from dataclasses import replace

from compactor.state.read_counts import Read, ReadsOfTable
from compactor.state.state_database import OwnState

ONE = Read(database="d", table="t", engine="trino", query="q1", like="a", at=1000, seconds=2.0, files=3, bytes=4)


def test_each_read_is_stored_once(fresh: OwnState) -> None:
    reads = fresh.reads
    assert reads.add("m", [ONE, ONE, replace(ONE, query="q2")]) == 2
    assert reads.add("m", [ONE, replace(ONE, table="u"), replace(ONE, engine="hive")]) == 2
    assert reads.add("other", [ONE]) == 1
    assert reads.add("m", []) == 0
    assert reads.sums("m", 0) == [ReadsOfTable("d", "t", 3, 6.0, 1000), ReadsOfTable("d", "u", 1, 2.0, 1000)]
    assert reads.sums("m", 1001) == []


def test_the_newest_of_a_table_come_first(fresh: OwnState) -> None:
    fresh.reads.add("m", [replace(ONE, query=str(n), at=n) for n in range(1200)])
    reads = fresh.reads.of_table("m", "d", "t", 600, 5)
    assert [read.at for read in reads] == [1199, 1198, 1197, 1196, 1195]
    assert replace(reads[0], query="", at=0) == replace(ONE, query="", at=0)
    assert len(fresh.reads.of_table("m", "d", "t", 600, 5000)) == 600


def test_old_ones_go_and_what_is_too_much(fresh: OwnState) -> None:
    now = 2**42  # later than any clock says
    fresh.reads.add("m", [replace(ONE, query=str(n), at=now + n) for n in range(10)])
    fresh.reads.add("m", [replace(ONE, query="old", at=5)])
    fresh.reads.add("other", [replace(ONE, at=5)])
    assert fresh.reads.purge("m", 60_000) == 1
    assert fresh.reads.purge("m", 60_000, most=4) == 6
    assert fresh.reads.sums("m", 0) == [ReadsOfTable("d", "t", 4, 8.0, now + 9)]
    assert len(fresh.reads.sums("other", 0)) == 1
