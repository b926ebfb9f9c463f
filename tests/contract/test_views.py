"""The reporting views of ``sql/`` over the schemas of Hive's own scripts, with rows in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, text

from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.metastore import open_metastore
from compactor.metastore.schema import tables as t
from tests.support import servers

SQL = Path(__file__).parents[2] / "sql"
PLACES = [(name, version) for name in servers.NAMES for version in ("4.0.0", "3.1.0")]
ENTITY = Entity(database="default", table="t", partition="p=1")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
MILLISECONDS = 1_700_000_000_123


@pytest.fixture(params=PLACES, ids=lambda place: "-".join(place))
def url(request: pytest.FixtureRequest, server: Callable[[str], servers.Server]) -> Iterator[tuple[str, str]]:
    """A metastore of Hive's, with our views from their file; and its version."""
    name, version = request.param
    running = server(name)
    running.drop("views")
    made = running.make("views", servers.hive_schema(running.kind, version))
    file = f"views.{running.kind}.sql" if version == "4.0.0" else f"views-3.1.{running.kind}.sql"
    running.sql((SQL / file).read_text(encoding="utf-8"), "views")
    yield made, version
    running.drop("views")


def test_people_read_words_and_utc(url: tuple[str, str]) -> None:
    metastore = open_metastore("default", url[0])
    gone, reader = metastore.transactions.open("ann", "laptop", count=2)
    metastore.write_ids.add_component(gone, ENTITY, "i", metastore.write_ids.allocate(gone, "default", "t"))
    metastore.transactions.abort(gone, "by hand")
    request = LockRequest(database="default", table="t", partition="p=1", type=LockType.SHARED_READ)
    metastore.locks.acquire(reader, [request], "ann", "laptop")
    with metastore.database.write() as conn:
        names = {"DATABASE": "default", "TABLE": "t", "PARTITION": "p=1"}
        for table, prefix, row in (
            (t.COMPACTION_QUEUE, "CQ", {"ID": 7, "STATE": "r", "TYPE": "a", "START": MILLISECONDS}),
            (t.COMPLETED_COMPACTIONS, "CC", {"ID": 6, "STATE": "f", "TYPE": "i", "END": MILLISECONDS}),
        ):
            conn.execute(insert(table).values({f"{prefix}_{key}": value for key, value in (row | names).items()}))
    metastore.close()
    engine = create_engine(url[0])
    with engine.connect() as conn:

        def view(name: str, order: str) -> list[dict[str, object]]:
            rows = conn.execute(text(f"SELECT * FROM COMPACTOR_V_{name} ORDER BY {order}")).mappings()
            return [dict(row) for row in rows]

        failed, ready = view("COMPACTIONS", "id")
        assert (ready["state"], ready["type"], ready["table_name"]) == ("ready for cleaning", "MAJOR", "t")
        assert (ready["started_at"], ready["ended_at"]) == ("2023-11-14T22:13:20.123Z", None)
        assert (failed["state"], failed["type"], failed["ended_at"]) == ("failed", "MINOR", "2023-11-14T22:13:20.123Z")
        assert ready["pool_name"] is ready["error_message"] is None  # Hive 3.1 has no such columns
        aborted, opened = view("TRANSACTIONS", "txn_id")
        assert (aborted["state"], opened["state"]) == ("aborted", "open")
        assert (aborted["reason"], opened["user_name"], opened["host_name"]) == ("by hand", "ann", "laptop")
        assert TIME.fullmatch(str(opened["started_at"]))
        locks = view("LOCKS", "lock_int_id")
        assert {(lock["lock_state"], lock["lock_type"], lock["txn_id"]) for lock in locks} == {
            ("acquired", "shared_read", reader)
        }
        (left,) = view("ABORTED", "db_name")
        assert (left["table_name"], left["partition_name"], left["aborted_transactions"]) == ("t", "p=1", 1)
        assert TIME.fullmatch(str(left["oldest_started_at"]))
    engine.dispose()
