"""Conversion between rows of COMPACTION_QUEUE and COMPLETED_COMPACTIONS and ``Entry`` values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any, Protocol

from sqlalchemy import RowMapping, Table, and_, case, func, literal, not_, select

from compactor.base.errors import BadName, NotSupported, failure_of
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import LOCATION, WAITS, Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.locations import in_catalog
from compactor.metastore.catalog.values import ICEBERG, TABLE_TYPE
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS, DBS, TABLE_PARAMS, TBLS

log = logging.getLogger(__name__)
#: Columns that move from the queue to the history as they are.
MOVED = (
    "ID",
    "DATABASE",
    "TABLE",
    "PARTITION",
    "TYPE",
    "TBLPROPERTIES",
    "WORKER_ID",
    "ENQUEUE_TIME",
    "START",
    "RUN_AS",
    "HIGHEST_WRITE_ID",
    "META_INFO",
    "HADOOP_JOB_ID",
    "NEXT_TXN_ID",
    "TXN_ID",
    "COMMIT_TIME",
    "INITIATOR_ID",
    "INITIATOR_VERSION",
    "WORKER_VERSION",
    "POOL_NAME",
    "NUMBER_OF_BUCKETS",
    "ORDER_BY",
)

_READ = (*(name for name in MOVED if name != "META_INFO"), "STATE", "ERROR_MESSAGE")  #: the columns of an ``Entry``
#: Takes from a row the values of the columns ``_READ``, by the prefix of the table's columns.
_COLUMNS = {prefix: itemgetter(*(f"{prefix}_{name}" for name in _READ)) for prefix in ("CQ", "CC")}
_Row = RowMapping | Mapping[str, Any]
_IS_ICEBERG = "IS_ICEBERG"  #: column of ``QUEUE``
_ENDED_AS = "ENDED_AS"  #: key in ``ExtraColumns`` of a state for which the history has no code


class ExtraColumns(Protocol):
    """A store for values without a column in the schema: by row id, named without ``CQ_`` or ``CC_``.

    It does not commit together with the row. Values that are needed later are stored first, and decide nothing that the
    row does not show.
    """

    def get(self, ids: Collection[int]) -> Mapping[int, Mapping[str, Any]]:
        """Returns the values of these rows."""

    def put(self, rows: Mapping[int, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Adds these values; ``replace`` drops the earlier values of these rows first."""

    def forget(self, ids: Collection[int]) -> None:
        """Drops the values of rows that have left the history."""


class QueueRows:
    """The queue and its history in one schema: reads rows into entries, and splits values for writing."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._lacking = dialect.lacks(COMPACTION_QUEUE) | dialect.lacks(COMPLETED_COMPACTIONS)
        self.extra_columns: ExtraColumns | None = None

    @property
    def is_whole(self) -> bool:
        """True if the schema has every column."""
        return not self._lacking

    def queued(self, rows: Iterable[_Row]) -> list[Entry]:
        """Returns rows of COMPACTION_QUEUE as entries.

        Raises:
            CompactorError: a row cannot be understood.
        """
        return [queued(row) for row in self._complete(rows, "CQ")]

    def ended(self, rows: Iterable[_Row]) -> list[Entry]:
        """Returns rows of COMPLETED_COMPACTIONS as entries; raises as ``queued`` does."""
        return [ended(row) for row in self._complete(rows, "CC")]

    def readable_queued(self, rows: Iterable[_Row]) -> list[Entry]:
        """Returns rows of COMPACTION_QUEUE as entries; logs and skips rows that it cannot understand."""
        return _readable(self._complete(rows, "CQ"), "CQ_ID", queued)

    def readable_ended(self, rows: Iterable[_Row]) -> list[Entry]:
        """Returns rows of COMPLETED_COMPACTIONS as entries; logs and skips rows that it cannot understand."""
        return _readable(self._complete(rows, "CC"), "CC_ID", ended)

    def stored(self, table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those ``values`` of a row for which the schema has columns, with states it has codes for."""
        row = self._dialect.row(table, values)
        if "CC_STATE" in row:
            row["CC_STATE"] = self._dialect.substitutes.get(row["CC_STATE"], row["CC_STATE"])
        return row

    def commit_times_outside(self, ids: Collection[int]) -> dict[int, int]:
        """Returns the commit times that ``extra_columns`` keeps for rows of the history, by id."""
        if self.extra_columns is None or self.is_whole or not ids:
            return {}
        kept = self.extra_columns.get(ids)
        return {entry_id: at for entry_id, values in kept.items() if (at := values.get("COMMIT_TIME")) is not None}

    def keep(self, rows: Mapping[int, Mapping[str, Any]], *, replace: bool = False) -> None:
        """Stores in ``extra_columns`` what ``stored`` leaves out; call it before the metastore's commit."""
        if self.extra_columns is None or self.is_whole:
            return
        left_out = {entry_id: self._left_out(values) for entry_id, values in rows.items()}
        self.extra_columns.put({i: values for i, values in left_out.items() if values or replace}, replace=replace)

    def forget(self, ids: Collection[int]) -> None:
        """Drops the extra values of these rows, which have left the history."""
        if self.extra_columns is not None and not self.is_whole:
            self.extra_columns.forget(ids)

    def _left_out(self, values: Mapping[str, Any]) -> dict[str, Any]:
        left_out = {name[3:]: value for name, value in values.items() if name in self._lacking}
        if self._dialect.substitutes.keys() & {state := values.get("CC_STATE")}:
            left_out[_ENDED_AS] = state
        return left_out

    def _complete(self, rows: Iterable[_Row], prefix: str) -> list[_Row]:
        row_list: list[_Row] = list(rows)
        if self.extra_columns is None or self.is_whole or not row_list:
            return row_list
        kept = self.extra_columns.get([row[f"{prefix}_ID"] for row in row_list])
        return [self._with(row, kept.get(row[f"{prefix}_ID"], {}), prefix) for row in row_list]

    def _with(self, row: _Row, kept: Mapping[str, Any], prefix: str) -> _Row:
        whole: dict[str, Any] = dict(row)
        whole |= {f"{prefix}_{name}": value for name, value in kept.items() if f"{prefix}_{name}" in self._lacking}
        really = kept.get(_ENDED_AS)
        if prefix == "CC" and really is not None and self._dialect.substitutes.get(really) == whole["CC_STATE"]:
            whole["CC_STATE"] = really
        return whole


def _readable(rows: Iterable[_Row], number: str, read: Callable[[_Row], Entry]) -> list[Entry]:
    entries: list[Entry] = []
    for row in rows:
        try:
            entries.append(read(row))
        except Exception as error:  # noqa: BLE001 - failure_of below makes it one of our errors
            what = f"compaction {row[number]} of {row[number[:3] + 'DATABASE']}.{row[number[:3] + 'TABLE']}"
            log.error("%s: its row cannot be understood and is skipped: %s", what, failure_of(what, error))
    return entries


def queued(row: _Row) -> Entry:
    """Returns a row of COMPACTION_QUEUE as an entry."""
    retention, cleaner = row["CQ_RETRY_RETENTION"], row["CQ_CLEANER_START"]
    return _entry(row, "CQ", end=None, cleaner_start=_set(cleaner), retry_retention=retention or 0)


def ended(row: _Row) -> Entry:
    """Returns a row of COMPLETED_COMPACTIONS as an entry.

    A 0, which Hive writes for no value, reads as None.
    """
    return _entry(row, "CC", end=_set(row["CC_END"]), cleaner_start=None, retry_retention=0)


def history_row(row: _Row, state: State, now: int, error: str | None) -> dict[str, Any]:
    """Returns the row of COMPLETED_COMPACTIONS that a queue row becomes."""
    values = {f"CC_{name}": row[f"CQ_{name}"] for name in MOVED}
    before = row["CQ_ERROR_MESSAGE"]
    kept = None if before is not None and before.startswith(WAITS) else before  # the wait is over
    values |= {"CC_STATE": state.value, "CC_END": now, "CC_ERROR_MESSAGE": error or kept}
    if values["CC_START"] is None:
        values["CC_START"] = 0  # as in Hive, whose SHOW COMPACTIONS and history purge read it
    return values


def _set(value: int | None) -> int | None:
    """Returns None for the numbers that Hive writes for no value: 0, or -1 in CQ_CLEANER_START."""
    return value if value is not None and value > 0 else None


def _entry(row: _Row, prefix: str, *, end: int | None, cleaner_start: int | None, retry_retention: int) -> Entry:
    get = dict(zip(_READ, _COLUMNS[prefix](row), strict=True))
    entity = Entity(database=get["DATABASE"], table=get["TABLE"], partition=get["PARTITION"])
    txn, following, highest = _set(get["TXN_ID"]), _set(get["NEXT_TXN_ID"]), get["HIGHEST_WRITE_ID"]
    return Entry(
        id=get["ID"],
        entity=entity,
        state=State(get["STATE"]),
        type=_type(get["ID"], get["TYPE"]),
        properties=decode_properties(get["TBLPROPERTIES"]),
        pool=get["POOL_NAME"],
        worker_id=get["WORKER_ID"],
        run_as=get["RUN_AS"],
        enqueue_time=_set(get["ENQUEUE_TIME"]),
        start=_set(get["START"]),
        end=end,
        highest_write_id=None if highest is None else WriteId(highest),
        txn_id=None if txn is None else TxnId(txn),
        next_txn_id=None if following is None else TxnId(following),
        commit_time=_set(get["COMMIT_TIME"]),
        cleaner_start=cleaner_start,
        retry_retention=retry_retention,
        job_id=get["HADOOP_JOB_ID"],
        error=get["ERROR_MESSAGE"],
        initiator_id=get["INITIATOR_ID"],
        initiator_version=get["INITIATOR_VERSION"],
        worker_version=get["WORKER_VERSION"],
        buckets=_set(get["NUMBER_OF_BUCKETS"]),
        order_by=get["ORDER_BY"],
        is_iceberg=bool(row.get(_IS_ICEBERG)),
    )


def _type(entry_id: int, code: str) -> CompactionType:
    try:
        return CompactionType(code)
    except ValueError:
        known = ", ".join(f"{kind.value} {kind.label}" for kind in CompactionType)
        raise NotSupported(
            f"compaction {entry_id} has type {code!r}; known are {known}. Leave it to the engine that requested it"
        ) from None


CQ = COMPACTION_QUEUE.c
CC = COMPLETED_COMPACTIONS.c
_TYPES = tuple(kind.value for kind in CompactionType)
#: Rows of unknown types, of a newer Hive, are left alone.
KNOWN_QUEUED = CQ.CQ_TYPE.in_([literal(kind) for kind in _TYPES])  # a plain list would be compiled at each call
KNOWN_ENDED = CC.CC_TYPE.in_(_TYPES)
#: The rows that Hive's ``CompactionExecutorFactory`` gives to its executor for Iceberg.
_OF_ICEBERG = (
    select(TABLE_PARAMS.c.TBL_ID)
    .join(TBLS, TBLS.c.TBL_ID == TABLE_PARAMS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(
        in_catalog(),
        DBS.c.NAME == CQ.CQ_DATABASE,
        TBLS.c.TBL_NAME == CQ.CQ_TABLE,
        TABLE_PARAMS.c.PARAM_KEY == literal(TABLE_TYPE),
        func.lower(TABLE_PARAMS.c.PARAM_VALUE) == literal(ICEBERG),
    )
    .correlate(COMPACTION_QUEUE)
    .exists()
)
#: A row of Hive's soft delete, as ``encode_properties`` writes the name of its property.
OF_SOFT_DELETE = and_(
    CQ.CQ_STATE == literal(State.READY_FOR_CLEANING.value),
    func.coalesce(CQ.CQ_TBLPROPERTIES, literal("")).contains(literal(f"{len(LOCATION)}:{LOCATION}")),
)
#: Rows of COMPACTION_QUEUE as ``Rows`` reads them.
QUEUE = select(COMPACTION_QUEUE, case((_OF_ICEBERG, literal(1)), else_=literal(0)).label(_IS_ICEBERG))
#: Rows that our roles take: the condition for ``Entry.left_to`` in SQL.
TAKEN_HERE = and_(
    KNOWN_QUEUED,
    CQ.CQ_TYPE != literal(CompactionType.SMART_OPTIMIZE.value),
    not_(_OF_ICEBERG),
    not_(OF_SOFT_DELETE),
)


def encode_properties(properties: Mapping[str, str]) -> str:
    """The text for ``properties``, in their order."""
    entries = (f"{_length(key)}:{key}{_length(value)}:{value}" for key, value in properties.items())
    return f"{len(properties)}:" + "".join(entries)


def decode_properties(text: str | None) -> dict[str, str]:
    """Returns the map that ``text`` encodes; an empty one for None or an empty text.

    Raises:
        BadName: the text ends early or a length is no number.
    """
    if not text:
        return {}
    reader = _TextReader(text)
    try:
        count = reader.number()
        pairs = [(reader.item(), reader.item()) for _ in range(count)]
    except ValueError as error:
        raise BadName(
            f"properties {text!r} of a compaction: expected <n>: and then <length>:<key><length>:<value> n times "
            f"({error}); repair the row's CQ_TBLPROPERTIES"
        ) from error
    return dict(pairs)


class _TextReader:
    def __init__(self, text: str) -> None:
        self._units = text.encode("utf-16-le", "surrogatepass")
        self._at = 0

    def number(self) -> int:
        end = self._units.find(b":\0", self._at)
        while end != -1 and end % 2:
            end = self._units.find(b":\0", end + 1)
        if end == -1:
            raise ValueError("a length without ':'")
        digits = self._units[self._at : end].decode("utf-16-le")
        self._at = end + 2
        return int(digits)

    def item(self) -> str:
        length = self.number()
        if length < 0:
            return ""
        end = self._at + 2 * length
        if end > len(self._units):
            raise ValueError(f"{length} characters announced, fewer are left")
        part = self._units[self._at : end].decode("utf-16-le", "surrogatepass")
        self._at = end
        return part


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
