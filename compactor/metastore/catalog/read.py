"""Databases, tables and partitions, read with all their rows in a fixed number of statements."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, select, tuple_
from sqlalchemy import Table as SqlTable

from compactor.base.errors import NotFound, Refused
from compactor.compaction.queue_entry import Entity
from compactor.database.engine import Database
from compactor.database.prepared import in_parts
from compactor.metastore.catalog.locations import in_catalog, place_of, places_by_id
from compactor.metastore.catalog.values import VIEW, Column, Partition, StorageFormat, Table
from compactor.metastore.schema.tables import (
    BUCKETING_COLS,
    CATALOG,
    COLUMNS_V2,
    DATABASE_PARAMS,
    DBS,
    PARTITION_KEY_VALS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SORT_COLS,
    TABLE_PARAMS,
    TBLS,
)

_AT_ONCE = 1000  #: ids in one statement


class Catalog:
    """Reads the catalog tables of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def databases(self) -> dict[str, Mapping[str, str]]:
        """Returns every database with its parameters."""
        with self._database.read() as conn:
            parameters = _database_parameters(conn)
            rows = conn.execute(select(DBS.c.DB_ID, DBS.c.NAME).where(in_catalog()).order_by(DBS.c.NAME))
            return {row.NAME: parameters[row.DB_ID] for row in rows}

    def database_location(self, name: str) -> str:
        """Returns the directory in which Hive creates managed tables of a database.

        Raises:
            NotFound: the database does not exist.
        """
        places = select(DBS.c.DB_MANAGED_LOCATION_URI, DBS.c.DB_LOCATION_URI)
        with self._database.read() as conn:
            row = conn.execute(places.where(in_catalog(), DBS.c.NAME == name.lower())).first()
        if row is None:
            raise NotFound(f"database {name} is not in the metastore; create it first")
        return str(row.DB_MANAGED_LOCATION_URI or row.DB_LOCATION_URI)

    def tables(self) -> list[Table]:
        """Returns every table, by database and name, without views."""
        with self._database.read() as conn:
            return _tables(conn)

    def names(self) -> list[tuple[str, str]]:
        """Returns database and name of every table, in order."""
        query = select(DBS.c.NAME, TBLS.c.TBL_NAME).join(TBLS, TBLS.c.DB_ID == DBS.c.DB_ID)
        with self._database.read() as conn:
            rows = conn.execute(query.where(in_catalog(), _is_table()).order_by(DBS.c.NAME, TBLS.c.TBL_NAME))
            return [(row.NAME, row.TBL_NAME) for row in rows]

    def table(self, database: str, name: str) -> Table:
        """Returns one table.

        Raises:
            NotFound: the table does not exist, is a view, or is in another catalog.
        """
        with self._database.read() as conn:
            tables = _tables(conn, DBS.c.NAME == database.lower(), TBLS.c.TBL_NAME == name.lower())
        if not tables and self.is_known(database, name):
            raise NotFound(
                f"{database}.{name} is a view, or of another catalog than {CATALOG}; only tables of {CATALOG} are compacted"
            )
        if not tables:
            raise _no_table(database, name)
        return tables[0]

    def existing(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], Table]:
        """Returns the existing tables of these names (database and table in lower case), by name."""
        if not names:
            return {}
        with self._database.read() as conn:
            tables = _tables(conn, tuple_(DBS.c.NAME, TBLS.c.TBL_NAME).in_(names))
        return {(table.database, table.name): table for table in tables}

    def parameters(self, database: str, name: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Returns the parameters of one table and of its database, without reading the rest of the table.

        Raises:
            NotFound: the table does not exist.
        """
        query = select(TBLS.c.TBL_ID, TBLS.c.DB_ID).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        query = query.where(in_catalog(), DBS.c.NAME == database.lower(), TBLS.c.TBL_NAME == name.lower(), _is_table())
        with self._database.read() as conn:
            row = conn.execute(query).first()
            if row is None:
                raise _no_table(database, name)
            of_table = select(TABLE_PARAMS).where(TABLE_PARAMS.c.TBL_ID == row.TBL_ID)
            of_database = select(DATABASE_PARAMS).where(DATABASE_PARAMS.c.DB_ID == row.DB_ID)
            return (
                _parameters_by_owner(conn, of_table, "TBL_ID")[row.TBL_ID],
                _parameters_by_owner(conn, of_database, "DB_ID")[row.DB_ID],
            )

    def place(self, entity: Entity) -> tuple[int, int | None, str] | None:
        """Returns TBL_ID, PART_ID and stored location of a table or partition; None if it does not exist."""
        with self._database.read() as conn:
            return place_of(conn, entity)

    def places_by_id(
        self, tables: Collection[int], partitions: Collection[int]
    ) -> dict[tuple[int, int | None], tuple[Entity, str]]:
        """Returns name and stored location of the existing tables and partitions with these ids."""
        with self._database.read() as conn:
            return places_by_id(conn, tables, partitions)

    def tables_setting(self, parameters: Collection[str]) -> set[tuple[str, str]]:
        """Returns database and name of the tables that have one of these parameters, or inherit it."""
        tables = select(DBS.c.NAME, TBLS.c.TBL_NAME).join(TBLS, TBLS.c.DB_ID == DBS.c.DB_ID).where(in_catalog())
        own = tables.join(TABLE_PARAMS, TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID)
        inherited = tables.join(DATABASE_PARAMS, DATABASE_PARAMS.c.DB_ID == DBS.c.DB_ID)
        queries = (
            own.where(TABLE_PARAMS.c.PARAM_KEY.in_(parameters)),
            inherited.where(DATABASE_PARAMS.c.PARAM_KEY.in_(parameters)),
        )
        with self._database.read() as conn:
            return {(row.NAME, row.TBL_NAME) for query in queries for row in conn.execute(query)}

    def partitions(self, table: Table, names: Collection[str] | None = None) -> list[Partition]:
        """Returns the partitions of ``table`` by name.

        With ``names`` (as stored) only the existing ones of these.
        """
        chosen = () if names is None else (PARTITIONS.c.PART_NAME.in_(names),)
        with self._database.read() as conn:
            return partitions_of(conn, table, *chosen)

    def partition_names(self, tables: Collection[Table]) -> dict[int, list[str]]:
        """Returns the names of all partitions of ``tables``, in order, by TBL_ID."""
        by_table: dict[int, list[str]] = {table.id: [] for table in tables}
        query = select(PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME).order_by(
            PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_NAME
        )
        with self._database.read() as conn:
            for batch in in_parts(list(by_table), _AT_ONCE):
                for row in conn.execute(query.where(PARTITIONS.c.TBL_ID.in_(batch))):
                    by_table[row.TBL_ID].append(row.PART_NAME)
        return by_table

    def locations(self, table: Table) -> dict[str, str]:
        """Returns the location of each partition of ``table`` by name, without reading the rest."""
        query = select(PARTITIONS.c.PART_NAME, SDS.c.LOCATION).join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
        with self._database.read() as conn:
            rows = conn.execute(query.where(PARTITIONS.c.TBL_ID == table.id)).all()
        return {row.PART_NAME: row.LOCATION or "" for row in rows}

    def is_known(self, database: str, name: str) -> bool:
        """Returns true if any catalog has a table or view of this name.

        Rows of transactions name no catalog.
        """
        tables = select(TBLS.c.TBL_ID).join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        with self._database.read() as conn:
            same_name = tables.where(DBS.c.NAME == database.lower(), TBLS.c.TBL_NAME == name.lower())
            return conn.execute(same_name).first() is not None

    def partition(self, table: Table, part_name: str) -> Partition:
        """Returns one partition by its PART_NAME as stored.

        Raises:
            NotFound: the table has no such partition.
        """
        with self._database.read() as conn:
            partitions = partitions_of(conn, table, PARTITIONS.c.PART_NAME == part_name)
        if not partitions:
            raise no_partition(table, part_name)
        return partitions[0]

    def storage_format(self, table: Table, partition: Partition | None = None) -> StorageFormat:
        """Returns the format of the files; a partition keeps the format that its table had at its creation.

        Raises:
            NotFound: the table or partition is gone.
        """
        storages = SDS.join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID)
        where = TBLS.c.TBL_ID == table.id
        if partition is not None:
            storages = SDS.join(PARTITIONS, PARTITIONS.c.SD_ID == SDS.c.SD_ID)
            where = PARTITIONS.c.PART_ID == partition.id
        with self._database.read() as conn:
            row = conn.execute(select(SDS.c.INPUT_FORMAT, SDS.c.SERDE_ID).select_from(storages).where(where)).first()
            if row is None:
                raise _no_table(table.database, table.name)
            of_serde = select(SERDE_PARAMS).where(SERDE_PARAMS.c.SERDE_ID == row.SERDE_ID)
            parameters = _parameters_by_owner(conn, of_serde, "SERDE_ID")[row.SERDE_ID]
        return StorageFormat(input_format=row.INPUT_FORMAT, serde_parameters=parameters)

    def resolve_partition(self, table: Table, text: str) -> str:
        """Returns PART_NAME for user input: the stored name, or ``k=v,k=v`` with plain values.

        Raises:
            Refused: the table has no partitions, or ``text`` does not name all of its partition keys.
            NotFound: the partition does not exist.
        """
        if not table.is_partitioned:
            raise Refused(f"table {table} is not partitioned; leave out the partition {text!r}")
        partitions = self.partitions(table)
        if any(part.name == text for part in partitions):
            return text
        values = _parse_plain_values(table, text)
        if values is None:
            keys = ", ".join(key.name for key in table.partition_keys)
            raise Refused(
                f"partition {text!r} of {table}: expected PART_NAME as stored or <key>=<value>,... with the keys {keys} in "
                "this order"
            )
        by_values = {part.values: part.name for part in partitions}
        for candidate in (values, tuple(value.strip() for value in values)):
            if candidate in by_values:
                return by_values[candidate]
        raise no_partition(table, text)


def _is_table() -> Any:
    return TBLS.c.TBL_TYPE != VIEW


def _no_table(database: str, name: str) -> NotFound:
    return NotFound(f"table {database}.{name} is not in the metastore; look at `compactor show tables`")


def no_partition(table: Table, name: str) -> NotFound:
    """Returns the error for a partition that ``table`` does not have."""
    return NotFound(f"table {table} has no partition {name!r}; look at `compactor explain {table}`")


def database_id(conn: Connection, name: str) -> int | None:
    """Returns DB_ID of a database; None if it does not exist."""
    return conn.execute(select(DBS.c.DB_ID).where(DBS.c.NAME == name, in_catalog())).scalar()


def _database_parameters(conn: Connection) -> defaultdict[int, Mapping[str, str]]:
    return _parameters_by_owner(conn, select(DATABASE_PARAMS), "DB_ID")


def _parameters_by_owner(conn: Connection, query: Any, key: str) -> defaultdict[int, Mapping[str, str]]:
    collected: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for row in conn.execute(query).mappings():
        collected[row[key]][row["PARAM_KEY"]] = row["PARAM_VALUE"] or ""
    frozen: defaultdict[int, Mapping[str, str]] = defaultdict(lambda: MappingProxyType({}))
    frozen.update({owner: MappingProxyType(values) for owner, values in collected.items()})
    return frozen


def _rows_by_owner(conn: Connection, query: Any) -> defaultdict[int, list[Any]]:
    """Groups rows by their first column, in the order of the query."""
    collected: defaultdict[int, list[Any]] = defaultdict(list)
    for row in conn.execute(query):
        collected[row[0]].append(row)
    return collected


def _tables(conn: Connection, *conditions: Any) -> list[Table]:
    """Returns the tables that meet ``conditions``, in one statement for each kind of child."""
    of_table = TBLS.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID).join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
    where = (in_catalog(), _is_table(), *conditions)
    main = (
        select(TBLS, DBS.c.NAME, SDS.c.LOCATION, SDS.c.NUM_BUCKETS, SDS.c.INPUT_FORMAT, SDS.c.CD_ID)
        .select_from(of_table)
        .where(*where)
        .order_by(DBS.c.NAME, TBLS.c.TBL_NAME)
    )
    rows = conn.execute(main).all()
    ids = select(TBLS.c.TBL_ID).select_from(of_table).where(*where)
    storages = select(TBLS.c.SD_ID).select_from(of_table).where(*where)
    descriptors = select(SDS.c.CD_ID).select_from(of_table).where(*where)
    parameters = _parameters_by_owner(conn, select(TABLE_PARAMS).where(TABLE_PARAMS.c.TBL_ID.in_(ids)), "TBL_ID")
    of_database = _database_parameters(conn)
    columns = _rows_by_owner(conn, _ordered(COLUMNS_V2, "CD_ID", descriptors, "COLUMN_NAME", "TYPE_NAME"))
    keys = _rows_by_owner(conn, _ordered(PARTITION_KEYS, "TBL_ID", ids, "PKEY_NAME", "PKEY_TYPE"))
    bucketing = _rows_by_owner(conn, _ordered(BUCKETING_COLS, "SD_ID", storages, "BUCKET_COL_NAME"))
    sorting = _rows_by_owner(conn, _ordered(SORT_COLS, "SD_ID", storages, "COLUMN_NAME"))
    return [
        Table(
            id=row.TBL_ID,
            database=row.NAME,
            name=row.TBL_NAME,
            location=row.LOCATION or "",
            owner=row.OWNER,
            type=row.TBL_TYPE,
            parameters=parameters[row.TBL_ID],
            columns=tuple(Column(name=c.COLUMN_NAME, type=c.TYPE_NAME) for c in columns[row.CD_ID]),
            partition_keys=tuple(Column(name=k.PKEY_NAME, type=k.PKEY_TYPE) for k in keys[row.TBL_ID]),
            buckets=row.NUM_BUCKETS,
            bucket_columns=tuple(b.BUCKET_COL_NAME for b in bucketing[row.SD_ID]),
            sort_columns=tuple(s.COLUMN_NAME for s in sorting[row.SD_ID]),
            input_format=row.INPUT_FORMAT,
            database_parameters=of_database[row.DB_ID],
        )
        for row in rows
    ]


def partitions_of(conn: Connection, table: Table, *conditions: Any) -> list[Partition]:
    """Returns the partitions of ``table`` that meet ``conditions``, by name."""
    return list(_partitions(conn, PARTITIONS.c.TBL_ID == table.id, *conditions).values())


def _partitions(conn: Connection, *where: Any) -> dict[tuple[int, str], Partition]:
    """Returns the partitions that meet the conditions, by TBL_ID and name, in the order of their names."""
    main = (
        select(PARTITIONS.c.TBL_ID, PARTITIONS.c.PART_ID, PARTITIONS.c.PART_NAME, PARTITIONS.c.SD_ID, SDS.c.LOCATION)
        .join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
        .where(*where)
        .order_by(PARTITIONS.c.PART_NAME)
    )
    rows = conn.execute(main).all()
    ids = select(PARTITIONS.c.PART_ID).where(*where)
    storages = select(PARTITIONS.c.SD_ID).where(*where)
    values = _rows_by_owner(conn, _ordered(PARTITION_KEY_VALS, "PART_ID", ids, "PART_KEY_VAL"))
    of_part = select(PARTITION_PARAMS).where(PARTITION_PARAMS.c.PART_ID.in_(ids))
    parameters = _parameters_by_owner(conn, of_part, "PART_ID")
    sorting = _rows_by_owner(conn, _ordered(SORT_COLS, "SD_ID", storages, "COLUMN_NAME"))
    return {
        (row.TBL_ID, row.PART_NAME): Partition(
            id=row.PART_ID,
            name=row.PART_NAME,
            values=tuple(v.PART_KEY_VAL for v in values[row.PART_ID]),
            location=row.LOCATION or "",
            parameters=parameters[row.PART_ID],
            sort_columns=tuple(s.COLUMN_NAME for s in sorting[row.SD_ID]),
        )
        for row in rows
    }


def _ordered(child: SqlTable, key: str, owners: Any, *columns: str) -> Any:
    """Returns the query for the rows of ``child`` by owner, in the order of INTEGER_IDX."""
    chosen = select(child.c[key], *(child.c[name] for name in columns))
    return chosen.where(child.c[key].in_(owners)).order_by(child.c[key], child.c.INTEGER_IDX)


def _parse_plain_values(table: Table, text: str) -> tuple[str, ...] | None:
    """Parses ``k=v,k=v`` or ``k=v/k=v`` into values in the order of the keys.

    Values may hold any character.
    """
    in_parts = (f"{re.escape(key.name)}=(.*)" for key in table.partition_keys)
    match = re.fullmatch(r"\s*[,/]\s*".join(in_parts), text.strip(), re.IGNORECASE | re.DOTALL)
    if match is None:
        return None
    return tuple(_unquote(value) for value in match.groups())


def _unquote(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value
