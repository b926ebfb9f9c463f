"""CREATE, DROP and ALTER in an embedded metastore, each under the locks of its statement.

TRUNCATE runs in any metastore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.acid.partition_names import part_values
from compactor.base.errors import CompactorError, NotConforming, NotFound, NotSupported, Refused
from compactor.locking.statement_rules import Name, Spec
from compactor.metastore.catalog.values import Partition, Table
from compactor.site.mode import must_write
from compactor.site.site import claims_of, new_ground, path_of
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.tables.definitions import (
    Definition,
    check_columns,
    create_table,
    drop_locked,
    list_purged,
    must_be_a_name,
    must_be_absolute,
    must_be_embedded,
)
from compactor.tables.schema import arrow_schema, select
from compactor.tables.sql.named_partitions import find_partitions, key_values, partition_name
from compactor.tables.sql.sql_session import Answer, Session, build_result
from compactor.tables.table import Table as ProgramTable
from compactor.tables.transactions.catalog_additions import must_be_a_partition_name, must_fit_in_a_directory
from compactor.tables.transactions.transaction import Transaction

_COPIED = ("orc.", "bucketing_version", "transactional")  #: prefixes of the properties that CREATE TABLE LIKE copies
#: Properties that change the kind of a table or the layout of its rows. Statements may not set them.
_OF_ITS_KIND = frozenset(("transactional", "transactional_properties", "external", "bucketing_version"))


def create_database(session: Session, statement: Statement, action: parsed_actions.CreateDatabase) -> Answer:
    """Creates a database; without LOCATION, below the warehouse.

    Raises:
        Refused: the metastore is Hive's, the database exists, or its location is unknown.
    """
    site, name = session.site, action.database
    must_be_embedded(site, f"database {name}")
    must_be_a_name(name)
    must_write(site.settings, f"database {name}")
    if action.if_not_exists and name in site.metastore.catalog.databases():
        return build_result(statement.name, f"database {name} exists already", database=name, created=False)
    location = action.location or f"{_warehouse(session)}/{name}.db"
    must_be_absolute(f"database {name}", location)
    with session.locked(statement):
        site.metastore.embedded_catalog.create_database(name, location)
    return build_result(statement.name, f"database {name} is created at {location}", database=name, created=True)


def _warehouse(session: Session) -> str:
    """Returns the directory of the database ``default``; Hive puts the other databases below it.

    Raises:
        Refused: there is no database ``default``.
    """
    try:
        return session.site.metastore.catalog.database_location("default").rstrip("/")
    except NotFound as error:
        raise Refused(
            "CREATE DATABASE: there is no database default whose directory could hold it; give LOCATION"
        ) from error


def drop_database(session: Session, statement: Statement, action: parsed_actions.DropDatabase) -> Answer:
    """Drops a database without tables; its directory stays.

    Raises:
        Refused: the database has tables, or the metastore is Hive's.
        NotFound: the database does not exist.
    """
    site, name = session.site, action.database
    must_be_embedded(site, f"database {name}")
    must_write(site.settings, f"database {name}")
    if action.if_exists and name not in site.metastore.catalog.databases():
        return build_result(statement.name, f"there is no database {name}", database=name, dropped=False)
    with session.locked(statement):
        site.metastore.embedded_catalog.drop_database(name)
    return build_result(statement.name, f"database {name} is dropped", database=name, dropped=True)


def create(session: Session, statement: Statement, action: parsed_actions.CreateTable) -> Answer:
    """Creates a full ACID table.

    Raises:
        NotConforming: a column is defined twice, or its type is not a Hive type.
        Refused, NotFound, NotSupported: as for ``Store.create_table``.
    """
    name = session.full_name(action.table)
    database = action.table.database or session.database
    must_be_embedded(session.site, name)
    must_write(session.site.settings.of_database(database), name)
    definition = None if action.like is not None else _definition(name, action)
    with session.locked(statement):
        if session.site.metastore.catalog.is_known(database, action.table.table):
            if not action.if_not_exists:
                raise Refused(f"table {name} exists already")
            return build_result(statement.name, f"table {name} exists already", table=name, created=False)
        table = create_table(session.site, database, action.table.table, definition or _like(session, action))
    return build_result(statement.name, f"table {table} is created at {table.location}", table=str(table), created=True)


def _definition(name: str, action: parsed_actions.CreateTable) -> Definition:
    every = (*action.columns, *action.partitioned_by)
    names = [column for column, _ in every]
    if twice := next((column for column in names if names.count(column) > 1), None):
        raise NotConforming(f"{name}: column {twice!r} is defined twice, or is not a valid name of a column")
    return Definition(
        schema=dict(every),
        partitioned_by=[key for key, _ in action.partitioned_by],
        clustered_by=(action.clustered_by, action.buckets) if action.clustered_by else None,
        properties=dict(action.properties),
        location=action.location,
    )


def _like(session: Session, action: parsed_actions.CreateTable) -> Definition:
    assert action.like is not None
    like = session.load_table(action.like)
    if not like.is_full_acid or like.sort_columns:
        raise NotSupported(
            f"{session.full_name(action.table)}: {like} is not a full ACID table, or has SORTED BY; only full ACID tables "
            "without an order can be created"
        )
    copied = {key: value for key, value in like.parameters.items() if key.lower().startswith(_COPIED)}
    return Definition(
        schema={column.name: column.type for column in (*like.columns, *like.partition_keys)},
        partitioned_by=[key.name for key in like.partition_keys],
        clustered_by=(like.bucket_columns, like.buckets) if like.bucket_columns else None,
        properties={**copied, **dict(action.properties)},
        location=action.location,
    )


def drop(session: Session, statement: Statement, action: parsed_actions.DropTable) -> Answer:
    """Drops a table once nobody else uses it.

    Raises:
        NotFound: the table does not exist.
        Refused: the metastore is Hive's, or a directory to purge overlaps another table's or partition's.
    """
    name = session.full_name(action.table)
    database = action.table.database or session.database
    if action.if_exists and not session.site.metastore.catalog.is_known(database, action.table.table):
        return build_result(statement.name, f"there is no table {name}", table=name, dropped=False)
    _must_be_changeable(session, action.table)
    with session.locked(statement):
        if action.if_exists and not session.site.metastore.catalog.is_known(database, action.table.table):
            return build_result(statement.name, f"there is no table {name}", table=name, dropped=False)
        table = session.load_table(action.table)
        must_write(session.site.settings_for(table), str(table))
        drop_locked(session.site, table, purge=action.purge)
    stay = "" if action.purge else f"; its files stay at {table.location}"
    return build_result(statement.name, f"table {table} is dropped{stay}", table=str(table), dropped=True)


def truncate(session: Session, statement: Statement, action: parsed_actions.TruncateTable) -> Answer:
    """Replaces all rows of a table or of some partitions by none, in one transaction.

    Raises:
        NotFound: the partition does not exist.
        NotSupported: we do not write such a table.
    """
    table = session.load_table(action.table)
    must_write(session.site.settings_for(table), str(table))
    with session.within(table) as txn:
        partitions = _lock_partitions(session, txn, table, action.partition)
        places: list[Partition | None] = [*partitions] if table.is_partitioned else [None]
        _overwrite_with_nothing(session, txn, table, places)
    return build_result(
        statement.name, f"{table} is truncated", table=str(table), partitions=[part.name for part in partitions]
    )


def _lock_partitions(session: Session, txn: Transaction, table: Table, spec: Spec | None) -> list[Partition]:
    """Locks the partitions to truncate and returns them; an unpartitioned table has none.

    They are looked up again under the lock, since others may have added or dropped some during the wait (PROTOCOL 14.30).

    Raises:
        NotFound: no partition has the values of ``spec``.
    """
    if not table.is_partitioned and spec is None:
        return []
    partitions = _load_partitions(session, table, spec)
    is_single = spec is not None and len(spec) == len(table.partition_keys) and len(partitions) == 1
    txn.lock_for_overwriting(table, partitions[0].name if is_single else None)
    return _load_partitions(session, table, spec)


def _load_partitions(session: Session, table: Table, spec: Spec | None) -> list[Partition]:
    partitions = find_partitions(session.site.metastore.catalog, table, spec)
    if spec is not None and not partitions:
        raise NotFound(f"table {table} has no such partition; look at SHOW PARTITIONS {table}")
    return partitions


def _overwrite_with_nothing(
    session: Session, txn: Transaction, table: Table, partitions: Sequence[Partition | None]
) -> None:
    writable = ProgramTable(session.site, table, txn)
    empty = arrow_schema(table, select(table, [column.name for column in table.columns])).empty_table()
    keys = [key.name.lower() for key in table.partition_keys]
    for part in partitions:
        if part is None:
            writable.overwrite(empty)
        else:
            spec = tuple(zip(keys, part.values, strict=True))
            if (name := partition_name(table, spec)) != part.name:
                raise NotSupported(f"{table}: we would name partition {part.name} {name}, and so miss it; use Hive")
            writable.overwrite(empty, partition=key_values(table, spec))


def add_partitions(session: Session, statement: Statement, action: parsed_actions.AddPartitions) -> Answer:
    """Adds partitions with their directories, which must be empty or missing.

    Raises:
        Refused: a partition exists already, its name is too long, its location is not absolute, its directory is not empty
            or overlaps another's, or the metastore is Hive's.
    """
    _must_be_changeable(session, action.table)
    site = session.site
    with session.locked_table(statement, action.table) as table:
        existing = {part.name for part in site.metastore.catalog.partitions(table)}
        locations = {partition_name(table, spec): location for spec, location in action.partitions}
        if not action.if_not_exists and (known := sorted(existing.intersection(locations))):
            raise Refused(f"partition {known[0]!r} of {table} exists already")
        new = {name: location for name, location in locations.items() if name not in existing}
        places = {name: location or f"{table.location.rstrip('/')}/{name}" for name, location in new.items()}
        for name, place in places.items():
            must_be_a_partition_name(site, table, name)
            if new[name]:
                must_be_absolute(f"partition {name} of {table}", place)
            else:
                must_fit_in_a_directory(table, name)
            path = site.storage.resolve(place)
            claims_of(site).must_be_free_in_and_around(table, path)
            if children := site.storage.children(path):
                raise Refused(f"partition {name} of {table}: {place} holds {children[0]}; expected an empty directory")
        _add(session, table, places)
    message = f"{len(places)} partitions are added to {table}" if places else f"{table} has these partitions already"
    return build_result(statement.name, message, table=str(table), partitions=list(places))


def _add(session: Session, table: Table, places: Mapping[str, str]) -> None:
    """Adds all of these partitions, or none.

    Raises:
        Refused: a location overlaps the directory of another table or partition.
    """
    site, added = session.site, list[str]()
    try:
        for name, place in places.items():
            site.metastore.embedded_catalog.add_partition(table, part_values(name), place, name=name)
            added.append(name)
            if (why := new_ground(site).refusal(table.id, name)) is not None:
                raise Refused(f"partition {name} of {table} was not added: {why}")
            like = path_of(site.storage, table, None)
            site.storage.make_directories(site.storage.resolve(place), like=like)
    except CompactorError:
        site.metastore.embedded_catalog.drop_partitions(table, added)
        raise


def drop_partitions(session: Session, statement: Statement, action: parsed_actions.DropPartitions) -> Answer:
    """Drops partitions; their files stay unless PURGE is given.

    Raises:
        NotFound: no partition has these values, and the statement has no IF EXISTS.
        Refused: the metastore is Hive's, or a directory to purge overlaps another table's or partition's.
    """
    _must_be_changeable(session, action.table)
    site = session.site
    with session.locked_table(statement, action.table) as table:
        dropped: dict[str, Partition] = {}
        for spec in action.partitions:
            partitions = find_partitions(site.metastore.catalog, table, spec)
            if not partitions and not action.if_exists:
                values = ", ".join(f"{key}={value}" for key, value in spec)
                raise NotFound(f"table {table} has no partition with {values}; look at SHOW PARTITIONS {table}")
            dropped |= {part.name: part for part in partitions}
        places = list_purged(site, table, dropped.values()) if action.purge else []
        site.metastore.embedded_catalog.drop_partitions(table, dropped)
        for place in places:  # still under the lock, so nobody has added the partition again and written there
            site.storage.remove(place)
    return build_result(
        statement.name,
        f"{len(dropped)} partitions of {table} are dropped",
        table=str(table),
        partitions=sorted(dropped),
    )


def add_columns(session: Session, statement: Statement, action: parsed_actions.AddColumns) -> Answer:
    """Adds columns after the existing ones; existing rows have NULL in them.

    Raises:
        Refused: the table has a column of this name, or the metastore is Hive's.
        NotConforming, NotSupported: a full ACID table cannot have such a type.
    """
    _must_be_changeable(session, action.table)
    name = session.full_name(action.table)
    names = [column for column, _ in action.columns]
    if len(set(names)) < len(names):
        raise NotConforming(f"{name}: a column of {', '.join(names)} is defined twice")
    new = list(check_columns(name, dict(action.columns)))
    with session.locked_table(statement, action.table) as table:
        session.site.metastore.embedded_catalog.add_columns(table, new)
    return build_result(
        statement.name, f"{table} now has the columns {', '.join(names)}", table=str(table), columns=names
    )


def rename(session: Session, statement: Statement, action: parsed_actions.RenameTable) -> Answer:
    """Renames a table; its directory stays where it is.

    Raises:
        Refused: a table of the new name exists, or the metastore is Hive's.
        NotFound: the database of the new name does not exist.
    """
    _must_be_changeable(session, action.table)
    must_be_a_name(action.to.table)
    with session.locked_table(statement, action.table) as table:
        database = action.to.database or table.database
        renamed = session.site.metastore.embedded_catalog.rename_table(table, action.to.table, database)
    message = f"{table} is now {renamed}; its directory stays at {table.location}"
    return build_result(statement.name, message, table=str(table), renamed=str(renamed))


def set_properties(session: Session, statement: Statement, action: parsed_actions.SetProperties) -> Answer:
    """Sets or removes properties of a table.

    Raises:
        NotSupported: a property would change the kind of the table.
        Refused: the metastore is Hive's.
    """
    _must_be_changeable(session, action.table)
    for key, _ in action.properties:
        if key.lower() in _OF_ITS_KIND:
            raise NotSupported(
                f"{session.full_name(action.table)}: {key} would make it another kind of table, whose files Hive must "
                "convert; use Hive"
            )
    with session.locked_table(statement, action.table) as table:
        session.site.metastore.embedded_catalog.set_table_parameters(table, dict(action.properties))
    keys = [key for key, _ in action.properties]
    return build_result(statement.name, f"{', '.join(keys)} of {table} is changed", table=str(table), properties=keys)


def _must_be_changeable(session: Session, name: Name) -> None:
    """Checks that we may change the definition of a table, before waiting for its lock.

    Raises:
        NotFound: the table does not exist.
        Refused: the metastore is Hive's, or the table's mode is observe.
    """
    must_be_embedded(session.site, session.full_name(name))
    table = session.load_table(name)
    must_write(session.site.settings_for(table), str(table))
