"""Writers that may change rows or statistics while a compaction commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from compactor.acid import txn_states
from compactor.base.ids import TxnId, WriteId
from compactor.database.prepared import in_parts, send
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import COMPLETED_TXN_COMPONENTS, TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from compactor.metastore.statistics.commit_statistics import Subject
from compactor.metastore.statistics.subjects import AT_ONCE, is_among, values_among

_NAMES = 3 * AT_ONCE  #: up to three forms of each partition's name, see ``Dialect.recorded_names``
_CTC, _TC, _T2W = COMPLETED_TXN_COMPONENTS.c, TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c


class _Write(NamedTuple):
    database: str
    table: str
    partition: str | None
    txn: TxnId
    write_id: WriteId | None


def without_other_writers(conn: Connection, dialect: Dialect, subjects: Sequence[Subject]) -> list[Subject]:
    """Returns the ``subjects`` without open writers whose view sees every committed write.

    An open writer may have read the statistics already, to add its own rows to them. The caller holds TXN_LOCK_TBL
    exclusively, so nothing changes before it commits. A transaction that opens later reads the new write ID. An open
    one that has no lock yet does not see that write ID, and removes the marks (Hive's rule for statistics).
    """
    own = {subject.txn for subject in subjects}
    quiet: list[Subject] = []
    for batch in in_parts(subjects, AT_ONCE):
        committed = _Writes(dialect, _committed(conn, dialect, batch))
        writing = _Writes(dialect, [write for write in _open(conn, batch) if write.txn not in own])
        quiet += [
            subject
            for subject in batch
            if not writing.into(subject, anywhere=True)
            and all(_is_seen(subject, write) for write in committed.into(subject))
        ]
    return quiet


def _is_seen(subject: Subject, write: _Write) -> bool:
    """Returns true if the view sees the write.

    Trino's have no write ID here, and maybe no mapping any more.
    """
    known = subject.known
    return known.txns.is_valid(write.txn) if write.write_id is None else known.write_ids.is_valid(write.write_id)


class _Writes:
    """Writes by table or partition."""

    def __init__(self, dialect: Dialect, writes: Iterable[_Write]) -> None:
        self._dialect = dialect
        self._by_object: dict[tuple[str, str, str | None], list[_Write]] = {}
        for write in writes:
            place = (write.database.lower(), write.table.lower(), write.partition)
            self._by_object.setdefault(place, []).append(write)

    def into(self, subject: Subject, *, anywhere: bool = False) -> list[_Write]:
        """Returns the writes into ``subject``; with ``anywhere`` also writes that name no partition yet."""
        entity = subject.entity
        names: set[str | None] = set(self._dialect.recorded_names(entity.partition))
        if anywhere:
            names.add(None)
        return [write for name in names for write in self._by_object.get((entity.database, entity.table, name), ())]


def _committed(conn: Connection, dialect: Dialect, subjects: Sequence[Subject]) -> list[_Write]:
    """Returns committed writes above the lowest watermark of ``subjects``, and those without a write ID."""
    lowest = min(subject.known.write_ids.high_watermark for subject in subjects)
    writes: list[_Write] = []
    names = {
        name for subject in subjects if subject.partition_id is not None for name in _partition_names(dialect, subject)
    }
    for batch in in_parts(sorted(names), _NAMES):
        values = {**_table_values(subjects, _CTC), **values_among(_CTC.CTC_PARTITION, batch, _NAMES), "lowest": lowest}
        writes += [_Write(*row) for row in send(conn, _COMMITTED_IN_PARTITIONS, values).rows]
    if any(subject.partition_id is None for subject in subjects):
        rows = send(conn, _COMMITTED_IN_TABLES, {**_table_values(subjects, _CTC), "lowest": lowest}).rows
        writes += [_Write(*row) for row in rows]
    return writes


def _open(conn: Connection, subjects: Sequence[Subject]) -> list[_Write]:
    """Returns the open writes into the tables of ``subjects``."""
    return [_Write(*row) for row in send(conn, _OPEN_WRITES, _table_values(subjects, _TC)).rows]


def _partition_names(dialect: Dialect, subject: Subject) -> list[str]:
    return [name for name in dialect.recorded_names(subject.entity.partition) if name is not None]


def _table_values(subjects: Collection[Subject], columns: Any) -> dict[str, Any]:
    database, table = _name_columns(columns)
    databases = sorted({subject.entity.database for subject in subjects})
    tables = sorted({subject.entity.table for subject in subjects})
    return {**values_among(database, databases), **values_among(table, tables)}


def _name_columns(columns: Any) -> tuple[Any, Any]:
    return (columns.CTC_DATABASE, columns.CTC_TABLE) if columns is _CTC else (columns.TC_DATABASE, columns.TC_TABLE)


def _of_tables(columns: Any) -> tuple[Any, Any]:
    database, table = _name_columns(columns)
    return is_among(database), is_among(table)


def _committed_writes() -> Select[Any]:
    same = (
        (_T2W.T2W_TXNID == _CTC.CTC_TXNID)
        & (_T2W.T2W_DATABASE == _CTC.CTC_DATABASE)
        & (_T2W.T2W_TABLE == _CTC.CTC_TABLE)
        & _CTC.CTC_WRITEID.is_(None)
    )
    write_id = func.coalesce(_CTC.CTC_WRITEID, _T2W.T2W_WRITEID)
    return (
        select(_CTC.CTC_DATABASE, _CTC.CTC_TABLE, _CTC.CTC_PARTITION, _CTC.CTC_TXNID, write_id)
        .select_from(COMPLETED_TXN_COMPONENTS.outerjoin(TXN_TO_WRITE_ID, same))
        .where(*_of_tables(_CTC), (_CTC.CTC_WRITEID > bindparam("lowest")) | _CTC.CTC_WRITEID.is_(None))
    )


# Built once, because every compaction uses them.
_COMMITTED_IN_TABLES = _committed_writes().where(_CTC.CTC_PARTITION.is_(None))
_COMMITTED_IN_PARTITIONS = _committed_writes().where(is_among(_CTC.CTC_PARTITION, _NAMES))
_OPEN_WRITES = (
    select(_TC.TC_DATABASE, _TC.TC_TABLE, _TC.TC_PARTITION, _TC.TC_TXNID, _TC.TC_WRITEID)
    .join(TXNS, TXNS.c.TXN_ID == _TC.TC_TXNID)
    .where(*_of_tables(_TC), _TC.TC_OPERATION_TYPE != "c", TXNS.c.TXN_STATE == txn_states.OPEN)
)
