"""Copies tables that a real Hive or Trino wrote into a warehouse, and registers them from their metastore's dump.

One metastore takes several of them. Transaction ids are part of directory names (``_v<txn>``), so they do not change, and
two fixtures that disagree about a transaction are refused. Times are shifted as if the dump had been taken a minute ago,
because thresholds and time-outs depend on ages.
"""

from __future__ import annotations

import enum
import shutil
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy import Connection, Table, func, insert, select, update

from compactor.acid import txn_states
from compactor.acid.names import parse_directory
from compactor.base.errors import BadFile, NotFound, Refused
from compactor.database.clock import now_ms
from compactor.metastore.catalog import values
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables
from demo.metastore_dumps import Description, Dump, Row, parse_description, parse_dump

_AGE_MS = 60_000  #: how old the dump's newest row becomes
_SIDE_FILES = frozenset(
    {"describe.txt", "txn_tables.txt", "show_compactions.txt", "show_transactions.txt"}
    | {"expected.tsv", "expected_rowid.tsv"}
)
#: CTC_TIMESTAMP is set again; CQ_HIGHEST_TXN_ID was Hive 2's name, when write IDs were transaction ids.
_RENAMED = {"CQ_HIGHEST_TXN_ID": "CQ_HIGHEST_WRITE_ID", "CC_HIGHEST_TXN_ID": "CC_HIGHEST_WRITE_ID"}
_TIMES = frozenset(
    {"TXN_STARTED", "TXN_LAST_HEARTBEAT", "CQ_ENQUEUE_TIME", "CQ_START", "CQ_COMMIT_TIME", "CQ_CLEANER_START"}
    | {"CC_ENQUEUE_TIME", "CC_START", "CC_END", "CC_COMMIT_TIME"}
)


class LocationForm(enum.Enum):
    """The spellings of a local directory by Hive's clients; all three occur in one metastore."""

    PLAIN = ""
    ONE_SLASH = "file:"
    THREE_SLASHES = "file://"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureStep:
    """One ``<set>/<fixture>/<step>``; ``directory`` is None if the table had no files at all."""

    path: Path
    table: str
    directory: Path | None
    description: Description
    dump: Dump

    def partitions(self) -> dict[str, tuple[str, ...]]:
        """Returns the unescaped values of each partition in storage by PART_NAME, such as ``day=2026-11-01``."""
        depth = len(self.description.partition_keys)
        if self.directory is None or depth == 0:
            return {}
        names = sorted(p.relative_to(self.directory).parts for p in self.directory.glob("/".join(["*=*"] * depth)))
        return {"/".join(parts): tuple(unquote(part.partition("=")[2]) for part in parts) for parts in names}

    def visibility_txn_ids(self) -> set[int]:
        """Returns the transaction of every ``_v<txn>`` in storage."""
        if self.directory is None:
            return set()
        parsed = (parse_directory(path.name) for path in self.directory.rglob("*") if path.is_dir())
        return {int(name.visibility_txn_id) for name in parsed if name is not None and name.visibility_txn_id}


def read_step(path: Path) -> FixtureStep:
    """Reads the dumps of ``path`` and locates its table directory.

    Raises:
        NotFound: ``path`` is not a step of a fixture.
        BadFile: a dump cannot be parsed, or does not give the table's name.
    """
    if not (path / "txn_tables.txt").is_file():
        raise NotFound(f"{path}: no txn_tables.txt in it; expected a directory <set>/<fixture>/<step>")
    description = parse_description((path / "describe.txt").read_text("utf-8"), str(path / "describe.txt"))
    dump = parse_dump((path / "txn_tables.txt").read_text("utf-8"), str(path / "txn_tables.txt"))
    directories = [child for child in sorted(path.iterdir()) if child.name not in _SIDE_FILES]
    if directories:
        return FixtureStep(
            path=path, table=directories[0].name, directory=directories[0], description=description, dump=dump
        )
    if description.location is None:
        raise BadFile(f"{path}: no table directory and no Location in describe.txt; the table's name is not known")
    name = description.location.rstrip("/").rpartition("/")[2]
    return FixtureStep(path=path, table=name, directory=None, description=description, dump=dump)


def register_fixture(
    metastore: Metastore,
    step_directory: Path,
    warehouse: Path,
    *,
    database: str = "default",
    table: str | None = None,
    location_form: LocationForm | None = None,
) -> values.Table:
    """Copies a step's table into ``warehouse`` and writes its catalog and transaction rows.

    ``table`` renames it; without ``location_form`` the form varies from fixture to fixture. TXNS is filled up to the
    dump's largest id and above every ``_v`` in storage; an id that the dump does not have, or that was aborted while
    writing to another table, is committed.

    Raises:
        Refused: the directory exists, or a transaction has another state in a table registered before.
        NotFound, BadFile: as ``read_step``.
    """
    step = read_step(step_directory)
    name = table or step.table
    target = (warehouse if database == "default" else warehouse / f"{database}.db") / name
    if target.exists():
        raise Refused(f"{target} exists already; register {step.path} under another table name")
    states = _find_states(step)
    with metastore.database.read() as connection:
        _check_states(connection, step, states)
    if step.directory is None:
        target.mkdir(parents=True)
    else:
        shutil.copytree(step.directory, target)
    forms = list(LocationForm)
    form = location_form or forms[zlib.crc32("/".join(step.path.parts[-3:]).encode()) % len(forms)]
    registered = _create(metastore, step, database, name, form.value + str(target.resolve()))
    with metastore.database.write() as connection:
        _Loader(connection, step, database, name).load(states)
    return registered


def _create(metastore: Metastore, step: FixtureStep, database: str, name: str, location: str) -> values.Table:
    if database not in metastore.catalog.databases():
        metastore.embedded_catalog.create_database(database, location.rpartition("/")[0])
    description = step.description
    created = metastore.embedded_catalog.create_table(
        NewTable(
            database,
            name,
            location,
            [values.Column(name=column, type=kind) for column, kind in description.columns],
            partition_keys=[values.Column(name=column, type=kind) for column, kind in description.partition_keys],
            parameters=description.parameters,
            owner=description.owner or None,
            type=description.type,
            buckets=description.buckets,
            bucket_columns=description.bucket_columns,
            sort_columns=description.sort_columns,
            input_format=description.input_format,
        )
    )
    for part_name, texts in step.partitions().items():
        metastore.embedded_catalog.add_partition(created, texts, name=part_name)
    return created


def _list_own_rows(step: FixtureStep, table: str, prefix: str) -> Iterable[Row]:
    """Returns the dump's rows of this table; every column ``…_TABLE`` has the name of its directory."""
    return (row for row in step.dump.rows(table) if row[f"{prefix}_TABLE"] == step.table)


def _find_states(step: FixtureStep) -> dict[int, str]:
    """Returns the state of every transaction of this table: of its writes, compactions and names in storage."""
    aborted = {int(row["TXN_ID"] or 0) for row in step.dump.rows("TXNS") if row["TXN_STATE"] == txn_states.ABORTED}
    opened = [row["TXN_ID"] for row in step.dump.rows("TXNS") if row["TXN_STATE"] == txn_states.OPEN]
    if opened:
        raise BadFile(f"{step.path}: transactions {', '.join(map(str, opened))} are open in the dump; expected: none")
    known = step.visibility_txn_ids()
    sources = (
        ("TXN_TO_WRITE_ID", "T2W", "TXNID"),
        ("TXN_COMPONENTS", "TC", "TXNID"),
        ("COMPLETED_TXN_COMPONENTS", "CTC", "TXNID"),
        ("COMPACTION_QUEUE", "CQ", "TXN_ID"),
        ("COMPLETED_COMPACTIONS", "CC", "TXN_ID"),
    )
    for table, prefix, column in sources:
        known |= {int(row.get(f"{prefix}_{column}") or 0) for row in _list_own_rows(step, table, prefix)}
    return {txn: txn_states.ABORTED if txn in aborted else txn_states.COMMITTED for txn in sorted(known - {0})}


def _find_largest(step: FixtureStep, states: Mapping[int, str]) -> int:
    ids = [int(row["TXN_ID"] or 0) for row in step.dump.rows("TXNS")]
    return max([*ids, *states, (step.dump.number("NEXT_TXN_ID", "NTXN_NEXT") or 1) - 1, 0])


def _check_states(connection: Connection, step: FixtureStep, states: Mapping[int, str]) -> None:
    present = _read_states(connection)
    used = _list_used(connection)
    for txn, state in states.items():
        registered = present.get(txn)
        # An id that was filled in as committed and that no table uses may still become aborted.
        if registered is not None and registered != state and (registered != txn_states.COMMITTED or txn in used):
            raise Refused(
                f"transaction {txn} is {state!r} in {step.path} and {registered!r} in a registered table; "
                "choose fixtures or steps that agree, or register them into two metastores"
            )


def _read_states(connection: Connection) -> dict[int, str]:
    """Returns the state of every transaction."""
    rows = connection.execute(select(tables.TXNS.c.TXN_ID, tables.TXNS.c.TXN_STATE))
    return {row.TXN_ID: row.TXN_STATE for row in rows}


def _list_used(connection: Connection) -> set[int]:
    """Returns the transactions used by any registered table."""
    columns = (
        tables.TXN_TO_WRITE_ID.c.T2W_TXNID,
        tables.TXN_COMPONENTS.c.TC_TXNID,
        tables.COMPLETED_TXN_COMPONENTS.c.CTC_TXNID,
        tables.COMPACTION_QUEUE.c.CQ_TXN_ID,
        tables.COMPLETED_COMPACTIONS.c.CC_TXN_ID,
    )
    return {int(txn) for column in columns for txn in connection.scalars(select(column).distinct()) if txn}


class _Loader:
    """Writes the rows of one step in one open write transaction."""

    def __init__(self, connection: Connection, step: FixtureStep, database: str, table: str) -> None:
        self._connection = connection
        self._step = step
        self._names = {"DATABASE": database, "TABLE": table}
        self._now = now_ms(connection)
        times = [int(value) for rows in step.dump.tables.values() for row in rows for value in _times(row)]
        self._shift = self._now - _AGE_MS - max(times, default=self._now - _AGE_MS)

    def load(self, states: Mapping[int, str]) -> None:
        self._transactions(states)
        self._write_ids()
        for table, prefix in ((tables.TXN_COMPONENTS, "TC"), (tables.COMPLETED_TXN_COMPONENTS, "CTC")):
            rows = _list_own_rows(self._step, table.name, prefix)
            self._insert(table, prefix, (_add_write_id(row, prefix) for row in rows))
        self._queue()

    def _transactions(self, states: Mapping[int, str]) -> None:
        txns = tables.TXNS
        present = _read_states(self._connection)
        # The earlier check allows one kind of change: filled in as committed, and now known as aborted.
        changed = [txn for txn, state in states.items() if present.get(txn, state) != state]
        if changed:
            self._connection.execute(
                update(txns).where(txns.c.TXN_ID.in_(changed)).values(TXN_STATE=txn_states.ABORTED)
            )
        dumped = {int(row["TXN_ID"] or 0): row for row in self._step.dump.rows("TXNS")}
        rows = [
            self._transaction(txn, states.get(txn, txn_states.COMMITTED), dumped.get(txn, {}))
            for txn in range(1, _find_largest(self._step, states) + 1)
            if txn not in present
        ]
        if rows:
            self._connection.execute(insert(txns), rows)

    def _transaction(self, txn: int, state: str, row: Row) -> dict[str, object]:
        started, beat = (row.get(column) for column in ("TXN_STARTED", "TXN_LAST_HEARTBEAT"))
        return {
            "TXN_ID": txn,
            "TXN_STATE": state,
            "TXN_STARTED": self._now - _AGE_MS if started is None else int(started) + self._shift,
            "TXN_LAST_HEARTBEAT": self._now - _AGE_MS if beat is None else int(beat) + self._shift,
            "TXN_USER": row.get("TXN_USER") or "fixture",
            "TXN_HOST": row.get("TXN_HOST") or "fixture",
            "TXN_TYPE": int(row.get("TXN_TYPE") or 0),
        }

    def _write_ids(self) -> None:
        if "NEXT_WRITE_ID" in self._step.dump.tables:
            self._insert(tables.NEXT_WRITE_ID, "NWI", _list_own_rows(self._step, "NEXT_WRITE_ID", "NWI"))
            self._insert(tables.TXN_TO_WRITE_ID, "T2W", _list_own_rows(self._step, "TXN_TO_WRITE_ID", "T2W"))
            return
        # Hive 2 had no write IDs; Hive's own upgrade to 3 uses the transaction id
        following = self._step.dump.number("NEXT_TXN_ID", "NTXN_NEXT")
        self._insert(tables.NEXT_WRITE_ID, "NWI", [{"NWI_NEXT": str(following or 1)}])
        own = [row["CTC_TXNID"] for row in _list_own_rows(self._step, "COMPLETED_TXN_COMPONENTS", "CTC")]
        own += [row["TC_TXNID"] for row in _list_own_rows(self._step, "TXN_COMPONENTS", "TC")]
        rows = [{"T2W_TXNID": txn, "T2W_WRITEID": txn} for txn in sorted(set(own), key=lambda txn: int(txn or 0))]
        self._insert(tables.TXN_TO_WRITE_ID, "T2W", rows)

    def _queue(self) -> None:
        """Loads requests and their history; an id taken by another fixture's request is replaced."""
        queue, history = tables.COMPACTION_QUEUE, tables.COMPLETED_COMPACTIONS
        taken = set(self._connection.scalars(select(queue.c.CQ_ID).union(select(history.c.CC_ID))))
        for table, prefix in ((history, "CC"), (queue, "CQ")):
            for row in _list_own_rows(self._step, table.name, prefix):
                number = int(row[f"{prefix}_ID"] or 0)
                while number in taken:
                    number += 1
                taken.add(number)
                self._insert(table, prefix, [{**row, f"{prefix}_ID": str(number)}])
        counter = tables.NEXT_COMPACTION_QUEUE_ID
        following = max([*taken, (self._step.dump.number(counter.name, "NCQ_NEXT") or 1) - 1, 0]) + 1
        current = self._connection.scalar(select(func.max(counter.c.NCQ_NEXT)))
        if current is None:
            self._connection.execute(insert(counter).values(NCQ_NEXT=following))
        elif current < following:
            self._connection.execute(update(counter).values(NCQ_NEXT=following))

    def _insert(self, table: Table, prefix: str, rows: Iterable[Row]) -> None:
        names = {f"{prefix}_{part}": value for part, value in self._names.items()}
        values = [self._values(table, {**row, **names}) for row in rows]
        if values:
            self._connection.execute(insert(table), values)

    def _values(self, table: Table, row: Row) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, text in row.items():
            column = table.c.get(_RENAMED.get(name, name))
            if column is None or column.name == "CTC_TIMESTAMP":
                continue
            if text is None or column.type.python_type is not int:
                values[column.name] = text
            else:
                shift = self._shift if column.name in _TIMES and int(text) else 0
                values[column.name] = int(text) + shift
        return values


def _add_write_id(row: Row, prefix: str) -> Row:
    """Adds the columns Hive 2 did not have to a component's row, as Hive's own upgrade to 3 does."""
    if f"{prefix}_WRITEID" in row:
        return row
    added = {f"{prefix}_WRITEID": row[f"{prefix}_TXNID"]}
    return {**row, **added, "CTC_UPDATE_DELETE": "N"} if prefix == "CTC" else {**row, **added}


def _times(row: Row) -> Iterable[str]:
    return (value for column, value in row.items() if value and column in _TIMES)
