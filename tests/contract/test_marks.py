"""The numbers that only ever grow, and the tokens, over every kind of database (PROTOCOL 11.2)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.mark_comparison import KEPT_TOKENS
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.high_water_marks import AFTER_AGREEMENT
from compactor.metastore.metastore import Metastore


def make(metastore: Metastore, name: str) -> Table:
    return metastore.embedded_catalog.create_table(
        NewTable(
            "default", name, f"/warehouse/{name}", [Column(name="a", type="int")], parameters={"transactional": "true"}
        )
    )


def write(metastore: Metastore, *tables: Table, ends: str = "c") -> TxnId:
    (txn,) = metastore.transactions.open("ann", "h")
    for table in tables:
        metastore.write_ids.allocate(txn, table.database, table.name)
    if ends == "c":
        metastore.transactions.commit(txn)
    elif ends == "a":
        metastore.transactions.abort(txn, "by the test")
    return txn


def test_each_number_as_the_database_has_it(metastore: Metastore) -> None:
    """PROTOCOL 11.2: next write IDs by table id and name, locks, compactions, transactions with start times."""
    empty = metastore.marks.present("m").marks
    assert (empty.tables, empty.unfinished) == ({}, 0)
    t, u = make(metastore, "t"), make(metastore, "u")
    make(metastore, "never_written")
    write(metastore, t, u)
    aborted = write(metastore, t, ends="a")
    opened = write(metastore, t, ends="")
    now = metastore.marks.present("m", [aborted, opened, TxnId(10**6)])
    assert {number: (mark.name, mark.next_write_id) for number, mark in now.marks.tables.items()} == {
        t.id: ("default.t", 4),
        u.id: ("default.u", 2),
    }
    assert now.newest == metastore.transactions.newest() == opened
    remembers = metastore.dialect.remembers_commits
    assert (now.marks.newest, now.marks.unfinished) == (aborted if remembers else opened, 1)
    (row,) = metastore.transactions.open_transactions()
    assert set(now.marks.starts) == {aborted, opened}
    assert now.marks.starts[opened] == row.started
    assert 0 <= now.now_ms - row.started < 600_000
    wanted = LockRequest(database="default", table="t", partition=None, type=LockType.SHARED_READ)
    metastore.locks.acquire(opened, [wanted], "ann", "h")
    later = metastore.marks.present("m").marks
    assert later.next_lock > now.marks.next_lock >= 1
    assert later.next_compaction == now.marks.next_compaction >= 1


def test_a_renamed_table_keeps_its_id_and_one_created_again_has_another(metastore: Metastore) -> None:
    """PROTOCOL 11.2: rows of a table that was dropped are gone, or belong to no table."""
    t = make(metastore, "t")
    for _ in range(3):
        write(metastore, t)
    metastore.embedded_catalog.rename_table(t, "u")
    assert metastore.marks.present("m").marks.tables[t.id].name == "default.u"
    again = make(metastore, "t")
    write(metastore, again)
    tables = metastore.marks.present("m").marks.tables
    assert {number: mark.next_write_id for number, mark in tables.items()} == {t.id: 4, again.id: 2}
    metastore.embedded_catalog.drop_table(again)
    assert set(metastore.marks.present("m").marks.tables) == {t.id}


def test_a_token_gets_the_next_number_and_few_are_kept(metastore: Metastore) -> None:
    """PROTOCOL 11.2."""
    for number in range(1, KEPT_TOKENS + 4):
        token, now = metastore.marks.mark("m", f"text{number}", seen=number - 1)
        assert (token.number, token.text, token.seen) == (number, f"text{number}", number - 1)
        assert token not in now.tokens
    tokens = metastore.marks.tokens("m")
    assert tokens[0] == token
    assert [one.number for one in tokens] == list(range(number, number - KEPT_TOKENS, -1))
    assert metastore.marks.present("m").tokens == tokens
    assert metastore.marks.tokens("another") == ()


def test_marks_and_token_are_of_one_transaction(metastore: Metastore) -> None:
    """PROTOCOL 11.2: whatever copy has the token has what the marks say."""
    t = make(metastore, "t")
    txn = write(metastore, t)
    token, now = metastore.marks.mark("m", "abc", seen=0, txns=[txn])
    assert now.marks.newest == txn
    assert now.marks.tables[t.id].next_write_id == WriteId(2)
    assert token.at == now.now_ms
    assert metastore.marks.present("m").newest_token == token


def test_numbers_are_drawn_once_by_many_processes(metastore: Metastore) -> None:
    """PROTOCOL 11.2."""

    def draw(process: int) -> list[int]:
        return [metastore.marks.mark("m", f"p{process}", seen=0)[0].number for _ in range(6)]

    with ThreadPoolExecutor(4) as pool:
        drawn = [number for numbers in pool.map(draw, range(4)) for number in numbers]
    assert sorted(drawn) == list(range(1, 25))


def test_an_agreement_leaves_one_token_above_all_numbers(metastore: Metastore) -> None:
    """PROTOCOL 11.2."""
    metastore.marks.mark("m", "a", seen=0)
    metastore.marks.mark("other", "b", seen=0)
    assert metastore.marks.replace_tokens("m", "c", above=7)[0].number == 7 + AFTER_AGREEMENT
    token, _ = metastore.marks.replace_tokens("m", "d", above=0)
    assert token.number == 7 + 2 * AFTER_AGREEMENT
    assert metastore.marks.tokens("m") == (token,)
    assert [one.text for one in metastore.marks.tokens("other")] == ["b"]
    assert metastore.marks.mark("m", "e", seen=0)[0].number == token.number + 1


@pytest.mark.parametrize("name", ["x" * 300, "a'b\"c%_ä", ""])
def test_any_name_of_a_metastore_has_its_own_tokens(metastore: Metastore, name: str, tmp_path: Path) -> None:
    metastore.marks.mark(name, "abc", seen=0)
    assert [token.text for token in metastore.marks.tokens(name)] == ["abc"]
    assert metastore.marks.tokens("default") == ()


def test_hives_own_mutexes_are_told_from_tokens(metastore: Metastore) -> None:
    metastore.marks.mark("m", "abc", seen=0)
    assert metastore.mutexes.hive_passes() == {}
