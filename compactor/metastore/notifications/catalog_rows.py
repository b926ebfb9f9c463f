"""Tables and partitions with all their rows, as Hive's metastore returns them to its clients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Row, Select, select
from sqlalchemy import Table as SqlTable

from compactor.database.prepared import in_parts
from compactor.metastore.notifications.notification_tables import SD_PARAMS
from compactor.metastore.notifications.thrift_json import (
    FieldSchema,
    PartitionObject,
    SerDeInfo,
    StorageDescriptor,
    TableObject,
)
from compactor.metastore.schema.tables import (
    BUCKETING_COLS,
    CATALOG,
    COLUMNS_V2,
    DBS,
    PARTITION_KEY_VALS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)

_AT_ONCE = 1000  #: ids or names in one statement


def read_table(conn: Connection, database: str, name: str) -> TableObject | None:
    """Returns a table; None if it does not exist."""
    query = select(TBLS).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    here = (DBS.c.NAME == database, DBS.c.CTLG_NAME == CATALOG, TBLS.c.TBL_NAME == name)
    row = conn.execute(query.where(*here)).first()
    if row is None:
        return None
    keys = (PARTITION_KEYS.c.PKEY_NAME, PARTITION_KEYS.c.PKEY_TYPE, PARTITION_KEYS.c.PKEY_COMMENT)
    return TableObject(
        id=row.TBL_ID,
        database=database,
        name=name,
        owner=row.OWNER,
        owner_type=row.OWNER_TYPE,
        created=row.CREATE_TIME,
        accessed=row.LAST_ACCESS_TIME,
        retention=row.RETENTION,
        storage=_storages(conn, [row.SD_ID])[row.SD_ID],
        partition_keys=_fields(_children(conn, PARTITION_KEYS.c.TBL_ID, [row.TBL_ID], *keys)[row.TBL_ID]),
        parameters=_parameters(conn, TABLE_PARAMS.c.TBL_ID, [row.TBL_ID])[row.TBL_ID],
        view_original=row.VIEW_ORIGINAL_TEXT,
        view_expanded=row.VIEW_EXPANDED_TEXT,
        type=row.TBL_TYPE,
        is_rewritable=bool(row.IS_REWRITE_ENABLED),
        write_id=row.WRITE_ID or 0,
    )


def read_partitions(conn: Connection, table: TableObject, names: Collection[str]) -> dict[str, PartitionObject]:
    """Returns the existing partitions of ``table`` with these stored names, by name."""
    partitions: dict[str, PartitionObject] = {}
    for batch in in_parts(sorted(names), _AT_ONCE):
        query = select(PARTITIONS).where(PARTITIONS.c.TBL_ID == table.id, PARTITIONS.c.PART_NAME.in_(batch))
        partitions |= {part.name: part for part in _partitions(conn, table, conn.execute(query).all())}
    return partitions


def _partitions(conn: Connection, table: TableObject, rows: Sequence[Row[Any]]) -> Iterator[PartitionObject]:
    ids = [row.PART_ID for row in rows]
    values = _children(conn, PARTITION_KEY_VALS.c.PART_ID, ids, PARTITION_KEY_VALS.c.PART_KEY_VAL)
    parameters = _parameters(conn, PARTITION_PARAMS.c.PART_ID, ids)
    storages = _storages(conn, [row.SD_ID for row in rows])
    for row in rows:
        yield PartitionObject(
            name=row.PART_NAME,
            values=tuple(value for (value,) in values[row.PART_ID]),
            database=table.database,
            table=table.name,
            created=row.CREATE_TIME,
            accessed=row.LAST_ACCESS_TIME,
            storage=storages[row.SD_ID],
            parameters=parameters[row.PART_ID],
            write_id=row.WRITE_ID or 0,
        )


def _storages(conn: Connection, ids: Collection[int]) -> dict[int, StorageDescriptor]:
    """Returns the storage descriptors with these ids, which must fit into one statement."""
    query = select(SDS, *(column for column in SERDES.c if column.name != "SERDE_ID"))
    rows = conn.execute(query.outerjoin(SERDES, SERDES.c.SERDE_ID == SDS.c.SERDE_ID).where(SDS.c.SD_ID.in_(ids))).all()
    of_column = (COLUMNS_V2.c.COLUMN_NAME, COLUMNS_V2.c.TYPE_NAME, COLUMNS_V2.c.COMMENT)
    columns = _children(conn, COLUMNS_V2.c.CD_ID, {row.CD_ID for row in rows}, *of_column)
    buckets = _children(conn, BUCKETING_COLS.c.SD_ID, ids, BUCKETING_COLS.c.BUCKET_COL_NAME)
    sorts = _children(conn, SORT_COLS.c.SD_ID, ids, SORT_COLS.c.COLUMN_NAME, SORT_COLS.c.ORDER)
    parameters = _parameters(conn, SD_PARAMS.c.SD_ID, ids)
    of_serdes = _parameters(conn, SERDE_PARAMS.c.SERDE_ID, {row.SERDE_ID for row in rows})
    return {
        row.SD_ID: StorageDescriptor(
            columns=_fields(columns[row.CD_ID]),
            location=row.LOCATION,
            input_format=row.INPUT_FORMAT,
            output_format=row.OUTPUT_FORMAT,
            is_compressed=bool(row.IS_COMPRESSED),
            buckets=row.NUM_BUCKETS,
            serde=_serde(row, of_serdes[row.SERDE_ID]),
            bucket_columns=tuple(name for (name,) in buckets[row.SD_ID]),
            sort_columns=tuple((name, order) for name, order in sorts[row.SD_ID]),
            parameters=parameters[row.SD_ID],
            in_subdirectories=bool(row.IS_STOREDASSUBDIRECTORIES),
        )
        for row in rows
    }


def _serde(row: Row[Any], parameters: Mapping[str, str]) -> SerDeInfo:
    return SerDeInfo(
        name=row.NAME,
        library=row.SLIB,
        parameters=parameters,
        description=row.DESCRIPTION,
        serializer=row.SERIALIZER_CLASS,
        deserializer=row.DESERIALIZER_CLASS,
        type=row.SERDE_TYPE or None,
    )


def _fields(rows: Sequence[tuple[Any, ...]]) -> tuple[FieldSchema, ...]:
    return tuple(FieldSchema(name=name, type=type, comment=comment) for name, type, comment in rows)


def _children(
    conn: Connection, owner: Column[int], ids: Collection[int], *columns: Column[Any]
) -> defaultdict[int, list[tuple[Any, ...]]]:
    """Returns ``columns`` of the rows of each owner, in the order of INTEGER_IDX."""
    query = select(owner, *columns).where(owner.in_(ids)).order_by(owner, owner.table.c.INTEGER_IDX)
    return _rows_by_owner(conn, query)


def _parameters(conn: Connection, owner: Column[int], ids: Collection[int]) -> defaultdict[int, dict[str, str]]:
    table: SqlTable = owner.table
    pairs_by_owner = _rows_by_owner(conn, select(owner, table.c.PARAM_KEY, table.c.PARAM_VALUE).where(owner.in_(ids)))
    parameters: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for number, pairs in pairs_by_owner.items():
        parameters[number] = {key: value or "" for key, value in pairs}
    return parameters


def _rows_by_owner(conn: Connection, query: Select[Any]) -> defaultdict[int, list[tuple[Any, ...]]]:
    by_owner: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for owner, *values in conn.execute(query):
        by_owner[owner].append(tuple(values))
    return by_owner
