"""Texts with characters that a column may not have: free text is escaped, and names are refused in words.

Hive's script for MySQL makes columns in latin1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import select

from compactor.base.errors import NotFound, Refused
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import mark_aborted
from tests.support import servers

#: French, which latin1 has; Polish and Japanese, which it has not; beyond the three bytes of utf8mb3.
TEXT = "été, łódź 日本 🙂"
IN_LATIN1 = r"été, \u0142ód\u017a \u65e5\u672c \U0001f642"
NAME = "łódź日本🙂"


def stored(store: str) -> str:
    return TEXT if store == "sqlite" or store.startswith("postgres") else IN_LATIN1


@pytest.mark.usefixtures("state")
def test_free_text_is_recorded(store: str, metastore: Metastore) -> None:
    expected = stored(store)
    aborted, writer = metastore.transactions.open(TEXT, TEXT, count=2)
    with metastore.database.write() as conn:
        assert mark_aborted(conn, metastore.dialect, aborted, TEXT)
    metastore.locks.acquire(writer, [LockRequest(database="default", table="t", type=LockType.SHARED_READ)], TEXT, TEXT)
    with metastore.database.read() as conn:
        row = conn.execute(select(t.TXNS).where(aborted == t.TXNS.c.TXN_ID)).mappings().one()
        assert [row[name] for name in ("TXN_USER", "TXN_HOST", "TXN_META_INFO")] == [expected] * 3
        lock = conn.execute(select(t.HIVE_LOCKS)).mappings().one()
        assert (lock["HL_USER"], lock["HL_HOST"]) == (expected, expected)
    entity = Entity(database="default", table="t")
    metastore.requests.did_not_initiate(entity, TEXT, initiator=f"compactor-{TEXT}")
    kept = TEXT if store.endswith("31") else expected  # Hive 3.1 has no such column, and our own state holds every text
    [entry] = metastore.entries.history()
    assert entry.error == kept
    worker = "compactor-worker-h-1-a"
    metastore.requests.request(Request(entity=entity, type=CompactionType.MINOR, initiator=f"compactor-{TEXT}"))
    claimed = metastore.claims.claim(worker, "1", pool_timeout_ms=0)
    assert claimed is not None
    assert metastore.claims.fail_lost(claimed.id, worker, TEXT)
    assert [entry.error for entry in metastore.entries.history()] == [kept] * 2


def test_a_long_text_fits_once_it_is_escaped(metastore: Metastore) -> None:
    length = 128  #: of TXN_USER
    [txn] = metastore.transactions.open("ł" * length, "h")
    with metastore.database.read() as conn:
        user = conn.execute(select(t.TXNS.c.TXN_USER).where(txn == t.TXNS.c.TXN_ID)).scalar_one()
    assert len(user) == length


def outcome(call: Callable[[], object]) -> type[Exception] | None:
    """Returns the kind of the call's refusal."""
    try:
        call()
    except NotFound:
        return NotFound
    except Refused as error:
        if "has characters that the column's character set does not have" not in str(error):
            raise
        return Refused
    return None


@pytest.mark.usefixtures("state")
def test_names_are_refused_in_words(store: str, metastore: Metastore) -> None:
    """A name that is looked up or written is never a bug, nor a database that is away."""
    can_hold = stored(store) == TEXT
    named = Entity(database="default", table="t", partition=f"p={NAME}")
    for entity in (named, replace(named, table=NAME, partition=None)):
        request = Request(entity=entity, type=CompactionType.MINOR, initiator="compactor-x")
        assert outcome(lambda request=request: metastore.requests.request(request)) is (None if can_hold else Refused)
        [txn] = metastore.transactions.open("u", "h")
        lock = LockRequest(
            database="default", table=entity.table, partition=entity.partition, type=LockType.SHARED_READ
        )
        acquire = lambda lock=lock, txn=txn: metastore.locks.acquire(txn, [lock], "u", "h")  # noqa: E731
        assert outcome(acquire) is (None if can_hold else Refused)
        write_id = lambda entity=entity, txn=txn: metastore.write_ids.allocate(txn, "default", entity.table)  # noqa: E731
        assert outcome(write_id) is (Refused if entity.table == NAME and not can_hold else None)
    assert outcome(lambda: metastore.catalog.table("default", NAME)) in (NotFound, Refused)
    assert outcome(lambda: metastore.catalog.table(NAME, "t")) in (NotFound, Refused)


@pytest.mark.usefixtures("state")
def test_one_name_refuses_no_other_request(store: str, metastore: Metastore) -> None:
    named, plain = (Entity(database="default", table="t", partition=f"p={value}") for value in (NAME, "x"))
    requests = [Request(entity=entity, type=CompactionType.MINOR, initiator="compactor-x") for entity in (named, plain)]
    first, second = metastore.requests.request_all(requests)
    assert second == (2 if stored(store) == TEXT else 1)
    assert isinstance(first, int) or "p=łódź" in str(first)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("SQL_ASCII", TEXT), ("LATIN1", IN_LATIN1), ("EUC_JP", r"été, łódź 日本 \U0001f642")],
)
def test_a_database_of_postgresql_with_another_encoding(
    server: Callable[[str], servers.Server], encoding: str, expected: str
) -> None:
    """SQL_ASCII is what ``initdb`` chooses where no locale is set. Hive writes UTF-8 into it, whatever the encoding."""
    postgres, name = server("postgresql"), f"in_{encoding.lower()}"
    settings = f"ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    postgres.sql(f"CREATE DATABASE {name} {settings};", "postgres")
    postgres.sql(servers.hive_schema("postgresql", "4.0.0"), name)
    with closing(open_metastore("default", postgres.url.format(name=name))) as metastore:
        [txn] = metastore.transactions.open(TEXT, "h")
        with metastore.database.read() as conn:
            assert conn.execute(select(t.TXNS.c.TXN_USER).where(txn == t.TXNS.c.TXN_ID)).scalar_one() == expected
    assert postgres.sql(f'SET client_encoding = UTF8; SELECT "TXN_USER" FROM "TXNS" WHERE "TXN_ID" = {txn};', name) == (
        expected + "\n"
    )
    postgres.drop(name)
