"""Creates, renames and drops databases, tables and partitions in a metastore without Hive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy import Table as SqlTable

from compactor.acid import partition_names
from compactor.base.errors import NotFound, Refused
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.metastore.catalog.dependents import DependentRows
from compactor.metastore.catalog.new_partitions import NewPartition, draw_ids, insert_partition
from compactor.metastore.catalog.read import Catalog, database_id, partitions_of
from compactor.metastore.catalog.values import DDL_TIME, Column, Partition, Table
from compactor.metastore.schema.counter_rows import draw_catalog_ids
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    BUCKETING_COLS,
    CATALOG,
    CDS,
    COLUMNS_V2,
    DATABASE_PARAMS,
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
from compactor.metastore.transactions.commit_rows import InTransaction

ORC_INPUT = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
ORC_OUTPUT = "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat"
ORC_SERDE = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table in ORC to create, with its parameters (``transactional=true`` and so on)."""

    database: str
    name: str
    location: str
    columns: Sequence[Column]
    _: KW_ONLY
    partition_keys: Sequence[Column] = ()
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    owner: str | None = None
    type: str = "MANAGED_TABLE"
    buckets: int = -1  #: NUM_BUCKETS; 0 or less is unbucketed
    bucket_columns: Sequence[str] = ()
    sort_columns: Sequence[str] = ()
    input_format: str = ORC_INPUT


class EmbeddedCatalog:
    """Writes the catalog tables of one embedded metastore."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect
        self._catalog = Catalog(database)
        self._dependents = DependentRows(dialect)

    @retried
    def create_database(self, name: str, location: str, parameters: Mapping[str, str] | None = None) -> None:
        """Creates a database.

        Raises:
            Refused: the database exists already.
        """
        name = name.lower()
        with self._database.write() as conn:
            if database_id(conn, name) is not None:
                raise Refused(f"database {name} exists already")
            row = {
                "DB_ID": draw_catalog_ids(conn, self._dialect, "MDatabase"),
                "NAME": name,
                "DB_LOCATION_URI": location,
                "OWNER_TYPE": "USER",
                "CTLG_NAME": CATALOG,
                "CREATE_TIME": now_ms(conn) // 1000,
            }
            conn.execute(insert(DBS).values(**self._dialect.row(DBS, row)))
            _write_parameters(conn, DATABASE_PARAMS, "DB_ID", row["DB_ID"], parameters or {})

    @retried
    def create_table(self, new: NewTable) -> Table:
        """Creates a table and returns it.

        Raises:
            NotFound: the database does not exist.
            Refused: the table exists already.
        """
        with self._database.write() as conn:
            self._insert_table(conn, new, draw_catalog_ids(conn, self._dialect, "MTable"))
        return self._catalog.table(new.database, new.name)

    @retried
    def prepare_table(self, new: NewTable) -> tuple[Table, InTransaction]:
        """Draws the id of a new table.

        Returns the future table, and a function that creates it in a transaction.

        The function raises as ``create_table`` does.

        Raises:
            NotFound: the database does not exist.
        """
        with self._database.write() as conn:
            db_id = database_id(conn, new.database.lower())
            if db_id is None:
                raise _no_database(new.database)
            table_id = draw_catalog_ids(conn, self._dialect, "MTable")
            rows = conn.execute(select(DATABASE_PARAMS).where(DATABASE_PARAMS.c.DB_ID == db_id)).all()
        of_database = {row.PARAM_KEY: row.PARAM_VALUE for row in rows}
        return _as_table(new, table_id, of_database), lambda conn: self._insert_table(conn, new, table_id)

    @retried
    def add_partition(
        self, table: Table, values: Sequence[str], location: str | None = None, *, name: str | None = None
    ) -> Partition:
        """Creates a partition with these plain values, by default below the table's location, and returns it.

        ``name`` sets PART_NAME of a partition that must keep the name it has elsewhere.

        Raises:
            Refused: the numbers of values and keys differ, or the partition exists.
        """
        new_name = self._name_partition(table, values)
        stored = name or new_name
        with self._database.write() as conn:
            if partitions_of(conn, table, PARTITIONS.c.PART_NAME == stored):
                raise Refused(f"partition {stored!r} of {table} exists already")
            place = location or f"{table.location.rstrip('/')}/{stored}"
            [ids] = draw_ids(conn, self._dialect, 1)
            insert_partition(conn, self._dialect, NewPartition(table=table, name=stored, location=place), ids)
        return self._catalog.partition(table, stored)

    @retried
    def drop_partitions(self, table: Table, names: Collection[str]) -> None:
        """Drops partitions and their dependent rows in one transaction; their files stay.

        Raises:
            NotFound: the table lacks one of these partitions.
        """
        partitions = [self._catalog.partition(table, name) for name in names]
        with self._database.write() as conn:
            _delete_partitions(conn, [part.id for part in partitions])
            for part in partitions:
                self._dependents.forget(conn, table.database, table.name, part.name)

    def drop_partition(self, table: Table, part_name: str) -> None:
        """Drops one partition; see ``drop_partitions``."""
        self.drop_partitions(table, [part_name])

    @retried
    def rename_partition(self, table: Table, part_name: str, values: Sequence[str]) -> Partition:
        """Gives a partition and its dependent rows other values (Hive's ``OnRenameFunction``).

        Its location stays.

        Raises:
            NotFound: the table has no such partition.
            Refused: the numbers of values and keys differ, or such a partition exists.
        """
        part, stored = self._catalog.partition(table, part_name), self._name_partition(table, values)
        with self._database.write() as conn:
            if partitions_of(conn, table, PARTITIONS.c.PART_NAME == stored):
                raise Refused(f"partition {stored!r} of {table} exists already")
            conn.execute(update(PARTITIONS).where(PARTITIONS.c.PART_ID == part.id).values(PART_NAME=stored))
            for index, value in enumerate(values):
                key = (PARTITION_KEY_VALS.c.PART_ID == part.id) & (PARTITION_KEY_VALS.c.INTEGER_IDX == index)
                conn.execute(update(PARTITION_KEY_VALS).where(key).values(PART_KEY_VAL=value))
            entity = Entity(database=table.database, table=table.name, partition=part.name)
            self._dependents.rename_partition(conn, entity, stored)
        return self._catalog.partition(table, stored)

    @retried
    def set_table_parameters(self, table: Table, properties: Mapping[str, str | None]) -> Table:
        """Sets properties of a table, or removes those that are None, all at once; returns the changed table.

        Raises:
            NotFound: the table is gone.
        """
        with self._database.write() as conn:
            if conn.execute(select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == table.id)).first() is None:
                raise NotFound(f"table {table} was dropped meanwhile; no property was set")
            altered = {DDL_TIME: str(now_ms(conn) // 1000)}  # as Hive's metastore does
            for key, value in (altered | dict(properties)).items():
                _set_parameter(conn, TABLE_PARAMS, "TBL_ID", table.id, key, value)
        return self._catalog.table(table.database, table.name)

    def set_table_parameter(self, table: Table, key: str, value: str | None) -> Table:
        """Sets or removes one property of a table; see ``set_table_parameters``."""
        return self.set_table_parameters(table, {key: value})

    @retried
    def set_database_parameter(self, database: str, key: str, value: str | None) -> None:
        """Sets a database property, or removes it with None.

        Raises:
            NotFound: the database does not exist.
        """
        with self._database.write() as conn:
            db_id = database_id(conn, database.lower())
            if db_id is None:
                raise NotFound(f"database {database} is not in the metastore")
            _set_parameter(conn, DATABASE_PARAMS, "DB_ID", db_id, key, value)

    @retried
    def add_columns(self, table: Table, columns: Sequence[Column]) -> Table:
        """Adds columns behind those that ``table`` has; returns the changed table. Its partitions share them.

        Raises:
            NotFound: the table is gone.
            Refused: it has another column or partition key of such a name.
        """
        with self._database.write() as conn:
            of_table = select(SDS.c.CD_ID).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID).where(TBLS.c.TBL_ID == table.id)
            cd_id = conn.execute(of_table).scalar()
            if cd_id is None:
                raise NotFound(f"table {table} was dropped meanwhile; no column was added")
            known = conn.execute(select(COLUMNS_V2.c.COLUMN_NAME).where(COLUMNS_V2.c.CD_ID == cd_id)).scalars().all()
            taken = {name.lower() for name in (*known, *(key.name for key in table.partition_keys))}
            for column in columns:
                if column.name.lower() in taken:
                    raise Refused(f"table {table} has a column {column.name.lower()} already")
                taken.add(column.name.lower())
            rows = [
                {"CD_ID": cd_id, "COLUMN_NAME": column.name.lower(), "TYPE_NAME": column.type, "INTEGER_IDX": index}
                for index, column in enumerate(columns, start=len(known))
            ]
            _insert_all(conn, COLUMNS_V2, rows)
        return self._catalog.table(table.database, table.name)

    @retried
    def drop_table(self, table: Table) -> None:
        """Drops a table, its partitions and its dependent rows (Hive's ``AcidEventListener``); files stay."""
        with self._database.write() as conn:
            # The lock keeps others from adding a property or a partition.
            conn.execute(self._dialect.for_update(select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == table.id))).all()
            ids = conn.execute(select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == table.id)).scalars().all()
            _delete_partitions(conn, ids)
            storage = select(TBLS.c.SD_ID, SDS.c.CD_ID, SDS.c.SERDE_ID).join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
            storage_row = conn.execute(storage.where(TBLS.c.TBL_ID == table.id)).first()
            for child in (TABLE_PARAMS, PARTITION_KEYS, TBLS):
                conn.execute(delete(child).where(child.c.TBL_ID == table.id))
            if storage_row is not None:
                _delete_storage(conn, [storage_row.SD_ID], [storage_row.SERDE_ID])
                conn.execute(delete(COLUMNS_V2).where(COLUMNS_V2.c.CD_ID == storage_row.CD_ID))
                conn.execute(delete(CDS).where(CDS.c.CD_ID == storage_row.CD_ID))
            self._dependents.forget(conn, table.database, table.name)

    @retried
    def rename_table(
        self, table: Table, name: str, database: str | None = None, *, location: str | None = None
    ) -> Table:
        """Gives a table and its dependent rows another name, and maybe another database.

        Returns the renamed table.

        The location stays, unless its directory was moved to ``location``, as Hive does for a managed table. Partitions
        below the old location move with it.

        Raises:
            NotFound: the database does not exist.
            Refused: the table exists already.
        """
        to_database, to_name = (database or table.database).lower(), name.lower()
        with self._database.write() as conn:
            db_id = database_id(conn, to_database)
            if db_id is None:
                raise NotFound(f"database {to_database} is not in the metastore")
            taken = select(TBLS.c.TBL_ID).where(TBLS.c.DB_ID == db_id, TBLS.c.TBL_NAME == to_name)
            if conn.execute(taken).first() is not None:
                raise Refused(f"table {to_database}.{to_name} exists already")
            conn.execute(update(TBLS).where(TBLS.c.TBL_ID == table.id).values(DB_ID=db_id, TBL_NAME=to_name))
            if location is not None:
                _move(conn, table, location)
            self._dependents.rename_table(conn, table.database, table.name, to_database, to_name)
        return self._catalog.table(to_database, to_name)

    @retried
    def drop_database(self, name: str) -> None:
        """Drops a database without tables and its dependent rows; its directory stays.

        Raises:
            NotFound: the database does not exist.
            Refused: the database has tables.
        """
        database = name.lower()
        with self._database.write() as conn:
            db_id = database_id(conn, database)
            if db_id is None:
                raise NotFound(f"database {database} is not in the metastore")
            table = conn.execute(select(TBLS.c.TBL_NAME).where(TBLS.c.DB_ID == db_id).order_by(TBLS.c.TBL_NAME)).first()
            if table is not None:
                raise Refused(f"database {database} has tables, such as {table.TBL_NAME}; drop them first")
            for child in (DATABASE_PARAMS, DBS):
                conn.execute(delete(child).where(child.c.DB_ID == db_id))
            self._dependents.forget_database(conn, database)

    def _insert_table(self, conn: Connection, new: NewTable, table_id: int) -> None:
        database, name = new.database.lower(), new.name.lower()
        db_id = database_id(conn, database)
        if db_id is None:
            raise _no_database(database)
        if conn.execute(select(TBLS.c.TBL_ID).where(TBLS.c.DB_ID == db_id, TBLS.c.TBL_NAME == name)).first():
            raise Refused(f"table {database}.{name} exists already")
        cd_id = self._insert_columns(conn, new.columns)
        sd_id = self._insert_storage(conn, cd_id, new.location, new)
        row = {
            "TBL_ID": table_id,
            "CREATE_TIME": now_ms(conn) // 1000,
            "DB_ID": db_id,
            "LAST_ACCESS_TIME": 0,
            "OWNER": new.owner,
            "OWNER_TYPE": "USER",
            "RETENTION": 0,
            "SD_ID": sd_id,
            "TBL_NAME": name,
            "TBL_TYPE": new.type,
            "IS_REWRITE_ENABLED": False,
        }
        conn.execute(insert(TBLS).values(**row))
        _write_parameters(conn, TABLE_PARAMS, "TBL_ID", table_id, new.parameters)
        keys = [
            {"TBL_ID": table_id, "PKEY_NAME": key.name.lower(), "PKEY_TYPE": key.type, "INTEGER_IDX": index}
            for index, key in enumerate(new.partition_keys)
        ]
        _insert_all(conn, PARTITION_KEYS, keys)

    @staticmethod
    def _name_partition(table: Table, values: Sequence[str]) -> str:
        if len(values) != len(table.partition_keys):
            raise Refused(f"table {table} has {len(table.partition_keys)} partition keys, found {len(values)} values")
        return partition_names.part_name([key.name for key in table.partition_keys], values)

    def _insert_columns(self, conn: Connection, columns: Sequence[Column]) -> int:
        cd_id = draw_catalog_ids(conn, self._dialect, "MColumnDescriptor")
        conn.execute(insert(CDS).values(CD_ID=cd_id))
        rows = [
            {"CD_ID": cd_id, "COLUMN_NAME": column.name.lower(), "TYPE_NAME": column.type, "INTEGER_IDX": index}
            for index, column in enumerate(columns)
        ]
        _insert_all(conn, COLUMNS_V2, rows)
        return cd_id

    def _insert_storage(self, conn: Connection, cd_id: int, location: str, like: NewTable) -> int:
        serde_id = draw_catalog_ids(conn, self._dialect, "MSerDeInfo")
        conn.execute(insert(SERDES).values(SERDE_ID=serde_id, SLIB=ORC_SERDE))
        conn.execute(insert(SERDE_PARAMS).values(SERDE_ID=serde_id, PARAM_KEY="serialization.format", PARAM_VALUE="1"))
        sd_id = draw_catalog_ids(conn, self._dialect, "MStorageDescriptor")
        row = {
            "SD_ID": sd_id,
            "INPUT_FORMAT": like.input_format,
            "IS_COMPRESSED": False,
            "LOCATION": location,
            "NUM_BUCKETS": like.buckets,
            "OUTPUT_FORMAT": ORC_OUTPUT,
            "SERDE_ID": serde_id,
            "CD_ID": cd_id,
            "IS_STOREDASSUBDIRECTORIES": False,
        }
        conn.execute(insert(SDS).values(**row))
        bucketing = [
            {"SD_ID": sd_id, "BUCKET_COL_NAME": name, "INTEGER_IDX": index}
            for index, name in enumerate(like.bucket_columns)
        ]
        _insert_all(conn, BUCKETING_COLS, bucketing)
        sorting = [
            {"SD_ID": sd_id, "COLUMN_NAME": name, "ORDER": 1, "INTEGER_IDX": index}
            for index, name in enumerate(like.sort_columns)
        ]
        _insert_all(conn, SORT_COLS, sorting)
        return sd_id


def _no_database(name: str) -> NotFound:
    return NotFound(f"database {name.lower()} is not in the metastore; create it first")


def _as_table(new: NewTable, table_id: int, of_database: Mapping[str, str]) -> Table:
    """Returns a new table in the form of ``Catalog.table``."""
    return Table(
        id=table_id,
        database=new.database.lower(),
        name=new.name.lower(),
        location=new.location,
        owner=new.owner,
        type=new.type,
        parameters=dict(new.parameters),
        columns=_lower(new.columns),
        partition_keys=_lower(new.partition_keys),
        buckets=new.buckets,
        bucket_columns=tuple(new.bucket_columns),
        sort_columns=tuple(new.sort_columns),
        input_format=new.input_format,
        database_parameters=of_database,
    )


def _lower(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(Column(name=column.name.lower(), type=column.type) for column in columns)


def _insert_all(conn: Connection, table: SqlTable, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        conn.execute(insert(table), [dict(row) for row in rows])


def _write_parameters(conn: Connection, table: SqlTable, key: str, owner: Any, parameters: Mapping[str, str]) -> None:
    rows = [{key: owner, "PARAM_KEY": name, "PARAM_VALUE": value} for name, value in parameters.items()]
    _insert_all(conn, table, rows)


def _set_parameter(conn: Connection, table: SqlTable, key: str, owner: int, name: str, value: str | None) -> None:
    conn.execute(delete(table).where(table.c[key] == owner, table.c.PARAM_KEY == name))
    if value is not None:
        _write_parameters(conn, table, key, owner, {name: value})


def _move(conn: Connection, table: Table, location: str) -> None:
    """Moves the location of the table, and of its partitions below that location."""
    of_table = select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == table.id).scalar_subquery()
    conn.execute(update(SDS).where(SDS.c.SD_ID == of_table).values(LOCATION=location))
    old, new = table.location.rstrip("/") + "/", location.rstrip("/") + "/"
    for part in partitions_of(conn, table):
        if part.location.startswith(old):
            of_part = select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.PART_ID == part.id).scalar_subquery()
            moved = new + part.location.removeprefix(old)
            conn.execute(update(SDS).where(SDS.c.SD_ID == of_part).values(LOCATION=moved))


def _delete_partitions(conn: Connection, ids: Sequence[int]) -> None:
    for part_id in ids:
        storage = select(PARTITIONS.c.SD_ID, SDS.c.SERDE_ID).join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
        storage_row = conn.execute(storage.where(PARTITIONS.c.PART_ID == part_id)).first()
        for child in (PARTITION_PARAMS, PARTITION_KEY_VALS, PARTITIONS):
            conn.execute(delete(child).where(child.c.PART_ID == part_id))
        if storage_row is not None:
            _delete_storage(conn, [storage_row.SD_ID], [storage_row.SERDE_ID])


def _delete_storage(conn: Connection, storages: Sequence[int], serdes: Sequence[int]) -> None:
    for child in (BUCKETING_COLS, SORT_COLS, SDS):
        conn.execute(delete(child).where(child.c.SD_ID.in_(storages)))
    for child in (SERDE_PARAMS, SERDES):
        conn.execute(delete(child).where(child.c.SERDE_ID.in_(serdes)))
