"""Writers that may change rows, or their statistics, beside a compaction that commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from compactor.acid import txn_states
from compactor.base.ids import TxnId, WriteId
from compactor.database.parts import parts
from compactor.database.prepared import send
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import COMPLETED_TXN_COMPONENTS, TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from compactor.metastore.statistics.commit_statistics import Subject
from compactor.metastore.statistics.subjects import AT_ONCE, among, given

_NAMES = 3 * AT_ONCE  #: as many forms of partitions' names, see ``Dialect.recorded_names``
_CTC, _TC, _T2W = COMPLETED_TXN_COMPONENTS.c, TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c


class _Write(NamedTuple):
    database: str
    table: str
    partition: str | None
    txn: TxnId
    write_id: WriteId | None


def undisturbed(conn: Connection, dialect: Dialect, subjects: Sequence[Subject]) -> list[Subject]:
    """Returns those of ``subjects`` in which every committed write is one that their view sees, and into which nobody
    writes: he may have read the statistics already, to write them with his own rows added.

    The caller holds TXN_LOCK_TBL exclusively, so none of this changes before it commits. A writer who opens his
    transaction later finds the new write ID; one who has opened his already but holds no lock yet does not see it, and
    takes the marks away (Hive's rule for statistics).
    """
    own = {subject.txn for subject in subjects}
    found: list[Subject] = []
    for some in parts(subjects, AT_ONCE):
        committed = _Writes.of(dialect, _committed(conn, dialect, some))
        writing = _Writes.of(dialect, [write for write in _open(conn, some) if write.txn not in own])
        found += [
            one
            for one in some
            if not writing.meant(one, anywhere=True) and all(_is_seen(one, write) for write in committed.meant(one))
        ]
    return found


def _is_seen(subject: Subject, write: _Write) -> bool:
    """Returns true if the view sees the write. Trino's have no write ID there, and their mapping may be purged."""
    known = subject.known
    return known.txns.is_valid(write.txn) if write.write_id is None else known.write_ids.is_valid(write.write_id)


class _Writes:
    """Writes by the table or partition that they name."""

    def __init__(self, dialect: Dialect, writes: Iterable[_Write]) -> None:
        self._dialect = dialect
        self._found: dict[tuple[str, str, str | None], list[_Write]] = {}
        for write in writes:
            place = (write.database.lower(), write.table.lower(), write.partition)
            self._found.setdefault(place, []).append(write)

    @classmethod
    def of(cls, dialect: Dialect, writes: Iterable[_Write]) -> _Writes:
        return cls(dialect, writes)

    def meant(self, subject: Subject, *, anywhere: bool = False) -> list[_Write]:
        """Returns the writes into ``subject``; with ``anywhere`` also those that do not say yet into which partition."""
        entity = subject.entity
        names: set[str | None] = set(self._dialect.recorded_names(entity.partition))
        if anywhere:
            names.add(None)
        return [write for name in names for write in self._found.get((entity.database, entity.table, name), ())]


def _committed(conn: Connection, dialect: Dialect, subjects: Sequence[Subject]) -> list[_Write]:
    """Returns the committed writes above what the view of any of ``subjects`` sees, and those without a write ID."""
    lowest = min(subject.known.write_ids.high_watermark for subject in subjects)
    found: list[_Write] = []
    names = {name for one in subjects if one.partition_id is not None for name in _names(dialect, one)}
    for some in parts(sorted(names), _NAMES):
        values = {**_tables(subjects, _CTC), **given(_CTC.CTC_PARTITION, some, _NAMES), "lowest": lowest}
        found += [_Write(*row) for row in send(conn, _COMMITTED_IN_PARTITIONS, values).rows]
    if any(subject.partition_id is None for subject in subjects):
        rows = send(conn, _COMMITTED_IN_TABLES, {**_tables(subjects, _CTC), "lowest": lowest}).rows
        found += [_Write(*row) for row in rows]
    return found


def _open(conn: Connection, subjects: Sequence[Subject]) -> list[_Write]:
    """Returns the open writes into the tables of ``subjects``."""
    return [_Write(*row) for row in send(conn, _OPEN_WRITES, _tables(subjects, _TC)).rows]


def _names(dialect: Dialect, subject: Subject) -> list[str]:
    return [name for name in dialect.recorded_names(subject.entity.partition) if name is not None]


def _tables(subjects: Collection[Subject], columns: Any) -> dict[str, Any]:
    database, table = _name_columns(columns)
    databases = sorted({subject.entity.database for subject in subjects})
    tables = sorted({subject.entity.table for subject in subjects})
    return {**given(database, databases), **given(table, tables)}


def _name_columns(columns: Any) -> tuple[Any, Any]:
    return (columns.CTC_DATABASE, columns.CTC_TABLE) if columns is _CTC else (columns.TC_DATABASE, columns.TC_TABLE)


def _of_tables(columns: Any) -> tuple[Any, Any]:
    database, table = _name_columns(columns)
    return among(database), among(table)


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


# Built once, since every compaction uses them.
_COMMITTED_IN_TABLES = _committed_writes().where(_CTC.CTC_PARTITION.is_(None))
_COMMITTED_IN_PARTITIONS = _committed_writes().where(among(_CTC.CTC_PARTITION, _NAMES))
_OPEN_WRITES = (
    select(_TC.TC_DATABASE, _TC.TC_TABLE, _TC.TC_PARTITION, _TC.TC_TXNID, _TC.TC_WRITEID)
    .join(TXNS, TXNS.c.TXN_ID == _TC.TC_TXNID)
    .where(*_of_tables(_TC), _TC.TC_OPERATION_TYPE != "c", TXNS.c.TXN_STATE == txn_states.OPEN)
)
