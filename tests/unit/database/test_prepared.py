"""Statements that are compiled once and sent as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table, bindparam, event, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from compactor.base.errors import DatabaseUnavailable
from compactor.database.engine import Database, open_database
from compactor.database.prepared import send

T = Table("t", MetaData(), Column("a", Integer, primary_key=True), Column("b", String(9)), Column("c", Boolean))
OF_A = select(T.c.a, T.c.b).where(T.c.a == bindparam("of_a"), T.c.b != "never")
SET_B = update(T).where(T.c.a == bindparam("of_a"))
NEW = insert(T)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path / 'd.db'}")
    with opened.write() as conn:
        conn.execute(text("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c INTEGER)"))
        conn.execute(text("INSERT INTO t VALUES (1, 'one', 0), (2, 'two', 0)"))
    yield opened
    opened.close()


def test_rows_counts_and_names(database: Database) -> None:
    with database.write() as conn:
        answer = send(conn, OF_A, {"of_a": 2})
        assert (answer.scalar(), [tuple(row) for row in answer.rows]) == (2, [(2, "two")])
        assert answer.mappings() == [{"a": 2, "b": "two"}]
        assert send(conn, OF_A, {"of_a": 9}).scalar() is None
        assert send(conn, SET_B, {"of_a": 2, "b": "II"}).count == 1
        assert send(conn, SET_B, {"of_a": 9, "b": "IX"}).count == 0
        send(conn, NEW, {"a": 3, "b": "three"})
    with database.read() as conn:
        assert [row.b for row in conn.execute(select(T.c.b).order_by(T.c.a))] == ["one", "II", "three"]


def test_it_belongs_to_the_transaction(database: Database) -> None:
    def fails() -> None:
        with database.write() as conn:
            send(conn, NEW, {"a": 3, "b": "three"})
            raise KeyError("of the body")

    with pytest.raises(KeyError, match="of the body"):
        fails()
    with database.read() as conn:
        assert send(conn, OF_A, {"of_a": 3}).scalar() is None


def test_a_listener_gets_the_statement_and_the_answer_is_the_same(database: Database) -> None:
    with database.write() as conn:
        unheard = send(conn, OF_A, {"of_a": 1})
    heard = []
    event.listen(database.engine, "before_cursor_execute", lambda *answer: heard.append(answer[2]))
    with database.write() as conn:
        assert send(conn, OF_A, {"of_a": 1}).mappings() == unheard.mappings()
        assert send(conn, SET_B, {"of_a": 1, "b": "I"}).count == 1
    assert [statement.split()[0] for statement in heard] == ["BEGIN", "SELECT", "UPDATE"]


def test_errors_are_those_of_sqlalchemy(database: Database) -> None:
    with pytest.raises(IntegrityError, match="UNIQUE"), database.write() as conn:
        send(conn, NEW, {"a": 1, "b": "again"})
    with pytest.raises(DatabaseUnavailable, match="no such table"), database.read() as conn:
        send(conn, _LOST, {})


_LOST = text("SELECT a FROM lost")


def test_what_would_have_to_be_changed_on_its_way_is_not_sent(database: Database) -> None:
    with database.write() as conn:
        for statement, values in ((select(T.c.c), {}), (OF_A, {"of_a": 1, "other": 2})):
            with pytest.raises(AssertionError, match="only SQLAlchemy can send"):
                send(conn, statement, values)
