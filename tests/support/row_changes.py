"""Changes of a statement in the transaction tables: as recorded from a real Hive 4.1, and as our own store makes them.

A change is a row that was added (``+``), that was removed (``-``) or that was added and removed within the statement
(``~``). Times read ``T``, so that two runs compare; columns without a value are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, select

from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t

Row = tuple[str, tuple[tuple[str, str], ...]]  #: name of the table, columns with their values
State = Counter[Row]

TABLES = (
    t.TXNS,
    t.TXN_COMPONENTS,
    t.COMPLETED_TXN_COMPONENTS,
    t.TXN_TO_WRITE_ID,
    t.NEXT_WRITE_ID,
    t.WRITE_SET,
    t.MIN_HISTORY_LEVEL,
    t.MIN_HISTORY_WRITE_ID,
    t.HIVE_LOCKS,
    t.COMPACTION_QUEUE,
    t.COMPLETED_COMPACTIONS,
    t.AUX_TABLE,
)
_KEYS = {
    "TXNS": ("TXN_ID",),
    "HIVE_LOCKS": ("HL_LOCK_EXT_ID", "HL_LOCK_INT_ID"),
    "NEXT_WRITE_ID": ("NWI_TABLE",),
    "WRITE_SET": ("WS_TXNID",),
    "COMPACTION_QUEUE": ("CQ_ID",),
    "AUX_TABLE": ("MT_KEY1",),
}
_TIMES = ("STARTED", "HEARTBEAT", "TIMESTAMP", "_TIME", "_START", "_END", "ACQUIRED_AT")
_ASSIGNMENT = re.compile(r"(?:^| )((?:TXN|MHL|HL|NWI|T2W|TC|CTC|WS|CQ|CC|MT)_[A-Z_0-9]+)=")
_CHANGE = re.compile(r"([A-Z_0-9]+): (.*?) -> (.*?)(?=, [A-Z_0-9]+: |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of one statement; ``lines`` is the form in which two of them are compared and shown."""

    appeared: State
    gone: State
    passing: State

    @property
    def lines(self) -> list[str]:
        """One line for each row, sorted."""
        signed = (("+", self.appeared), ("-", self.gone), ("~", self.passing))
        return sorted(
            f"{sign} {table} {' '.join(f'{name}={value}' for name, value in columns)}"
            for sign, rows in signed
            for table, columns in rows.elements()
        )


def changes(states: list[State]) -> Changes:
    """Returns the changes from the first state to the last, including rows that only states in between have."""
    first, last = states[0], states[-1]
    passing: State = Counter()
    for state in states[1:-1]:
        passing |= state - (first | last)
    return Changes(appeared=last - first, gone=first - last, passing=passing)


def row(table: str, values: dict[str, Any], rewrite: Callable[[str, dict[str, str]], dict[str, str]]) -> Row:
    """Returns a row in the form in which it is compared."""
    texts = {
        name: "T" if name.endswith(_TIMES) and str(value) != "0" else str(value)
        for name, value in values.items()
        if value is not None and value != ""
    }
    return table, tuple(sorted(rewrite(table, texts).items()))


class Recorded:
    """The row changes recorded from a real Hive, statement by statement."""

    def __init__(self, path: Path, rewrite: Callable[[str, dict[str, str]], dict[str, str]]) -> None:
        self._rewrite = rewrite
        self._rows: dict[str, list[dict[str, str]]] = {}
        self.statements: dict[str, list[State]] = {}
        state, transaction = self._state(), ""
        for line in path.read_text().splitlines():
            text, _, number = line.rpartition("   #tx")
            if text.startswith("-- "):
                current = self.statements.setdefault(text.removeprefix("-- "), [state])
                transaction = ""
                continue
            self._apply(text)
            state = self._state()
            if number == transaction:
                current.pop()
            current.append(state)
            transaction = number

    def _apply(self, text: str) -> None:
        operation, table, rest = text.split(" ", 2)
        rows = self._rows.setdefault(table, [])
        if operation == "UPDATE":
            changed, _, keys = rest.partition("   [key ")
            old_new = [found.groups() for found in _CHANGE.finditer(changed)]
            wanted = {name: old for name, old, _new in old_new if old}
            wanted |= dict(zip(_KEYS.get(table, ()), keys.removesuffix("]").split(), strict=False))
            found = self._find(rows, wanted)
            for name, _old, new in old_new:
                found[name] = new
            return
        parts = _ASSIGNMENT.split(rest)
        values = dict(zip(parts[1::2], parts[2::2], strict=True))
        if operation == "INSERT":
            rows.append(values)
        else:
            rows.remove(self._find(rows, values))

    def _find(self, rows: list[dict[str, str]], wanted: dict[str, str]) -> dict[str, str]:
        return next(row for row in rows if wanted.items() <= row.items())

    def _state(self) -> State:
        return Counter(row(table, values, self._rewrite) for table, rows in self._rows.items() for values in rows)


@contextmanager
def recording(metastore: Metastore, rewrite: Callable[[str, dict[str, str]], dict[str, str]]) -> Iterator[list[State]]:
    """Yields the states of the transaction tables, one after each transaction that commits within the block."""
    with metastore.database.read() as conn:
        states = [_dumped(conn, rewrite)]

    def committed(conn: Connection) -> None:
        states.append(_dumped(conn, rewrite))

    event.listen(metastore.database.engine, "commit", committed)
    try:
        yield states
    finally:
        event.remove(metastore.database.engine, "commit", committed)


def _dumped(conn: Connection, rewrite: Callable[[str, dict[str, str]], dict[str, str]]) -> State:
    found: State = Counter()
    for table in TABLES:
        for values in conn.execute(select(table)).mappings():
            if values.get("TXN_ID") != 0:  # the initial row of every schema
                found[row(table.name, dict(values), rewrite)] += 1
    return found
