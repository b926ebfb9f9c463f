"""Statement by statement, SQL on an embedded metastore leaves the rows that a real Hive 4.1 was recorded to leave.

``DIFFERENCES`` is the whole list of what is otherwise, each with its reason: rows that are gone when the statement ends
(``~``). Those that stay are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from tests.contract.test_hive_trace import ODD, ODD_TWICE, RECORD, _rewrite, component, line
from tests.support.row_changes import Recorded, State, changes, recording

#: The statements of the record, as SQL.
STATEMENTS = (
    (
        "CREATE TABLE (partitioned)",
        "create table tr (a int, b string) partitioned by (p string) stored as orc tblproperties ('transactional'='true')",
    ),
    (
        "INSERT static partition with an odd value",
        "insert into tr partition (p='a b=c/d%') values (1, 'one'), (3, 'three')",
    ),
    ("INSERT dynamic partition", "insert into tr partition (p) values (4, 'four', 'q'), (2, 'two', 'a b=c/d%')"),
    ("SELECT", "select a from tr where p = 'q'"),
    ("UPDATE", "update tr set b = 'U' where a = 1"),
    ("DELETE", "delete from tr where a = 3"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Lines that only Hive has, and lines that only we have, in one statement."""

    because: str
    hive: Sequence[str] = ()
    ours: Sequence[str] = ()


def _lock(txn: int, kind: str, partition: str | None = None) -> str:
    """A lock that the statement held."""
    columns = {
        "HL_ACQUIRED_AT": "T",
        "HL_DB": "default",
        "HL_HOST": "HOST",
        "HL_LAST_HEARTBEAT": 0,
        "HL_LOCK_EXT_ID": txn,
    }
    columns |= {"HL_LOCK_STATE": "a", "HL_LOCK_TYPE": kind, "HL_TABLE": "tr", "HL_TXNID": txn, "HL_USER": "root"}
    return line("~", "HIVE_LOCKS", **columns, **({} if partition is None else {"HL_PARTITION": partition}))


def _changed(txn: int, write_id: int, *operations: str) -> tuple[Difference, Difference]:
    """An UPDATE or DELETE of two partitions."""
    return (
        Difference(
            because="a filter is not taken apart for its locks: ours takes the table's write lock, which covers its "
            "partitions, and a read lock on each partition that it looks at, in every form of its name",
            hive=[_lock(txn, "w", ODD_TWICE), _lock(txn, "w", "p=q")],
            ours=[_lock(txn, "r", ODD_TWICE), _lock(txn, "r", ODD), _lock(txn, "r", "p=q")],
        ),
        Difference(
            because="Hive's provisional component says update whatever the statement does, ours says what it does; the "
            "components that take its place are the same",
            hive=[component("~", "TC", "tr", txn, write_id, OPERATION_TYPE="u")],
            ours=[component("~", "TC", "tr", txn, write_id, OPERATION_TYPE=one) for one in operations],
        ),
    )


_ADDED = (
    "a partition that is added comes with the commit, and its component with it: until then the provisional one stands"
)
DIFFERENCES: dict[str, tuple[Difference, ...]] = {
    "INSERT static partition with an odd value": (
        Difference(
            because=f"{_ADDED}; the lock is taken in every form of the partition's name",
            hive=[component("~", "TC", "tr", 2, 1, PARTITION=ODD, OPERATION_TYPE="i")],
            ours=[_lock(2, "w", ODD), component("~", "TC", "tr", 2, 1, OPERATION_TYPE="i")],
        ),
    ),
    "INSERT dynamic partition": (
        Difference(because=_ADDED, hive=[component("~", "TC", "tr", 3, 2, PARTITION="p=q", OPERATION_TYPE="i")]),
    ),
    "UPDATE": _changed(5, 3, "d", "i"),
    "DELETE": (
        *_changed(6, 4, "d"),
        Difference(
            because="for an UPDATE Hive takes the table's lock, too, for a DELETE it does not", ours=[_lock(6, "w")]
        ),
    ),
}


def _ours(table: str, values: dict[str, str]) -> dict[str, str]:
    """Our transactions have the name of the program that opened them, Hive's have none."""
    values.pop("TXN_AGENT_INFO", None)
    return _rewrite(table, values)


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    return replace(deployment, host="HOST", user="root")


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[State]]:
    return Recorded(RECORD, _rewrite).statements


def test_statements_leave_hives_rows(site: Site, recorded: dict[str, list[State]]) -> None:
    """TABLES 15, PROTOCOL 14."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name, text in STATEMENTS:
        with recording(site.metastore, _ours) as states:
            for answer in run(site, check_text(text)):
                list(answer.rows)
        ours, hives = changes(states).lines, changes(recorded[name]).lines
        found[name] = ([one for one in hives if one not in ours], [one for one in ours if one not in hives])
    wanted = {
        name: (
            sorted(line for one in DIFFERENCES.get(name, ()) for line in one.hive),
            sorted(line for one in DIFFERENCES.get(name, ()) for line in one.ours),
        )
        for name, _ in STATEMENTS
    }
    assert found == wanted


def test_no_row_that_stays_differs() -> None:
    lines = [text for every in DIFFERENCES.values() for one in every for text in (*one.hive, *one.ours)]
    assert [text for text in lines if not text.startswith("~ ")] == []
