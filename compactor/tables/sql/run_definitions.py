"""CREATE, DROP and ALTER in an embedded metastore, each under the locks that its statement takes, and TRUNCATE anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactor.acid.partition_names import part_values
from compactor.base.errors import CompactorError, NotConforming, NotFound, NotSupported, Refused
from compactor.locking.accesses import Name, Spec
from compactor.metastore.catalog.values import Partition, Table
from compactor.site.mode import must_write
from compactor.site.site import claims_of, new_ground, path_of
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.definitions import (
    Definition,
    checked_columns,
    create_table,
    drop_locked,
    must_be_a_name,
    must_be_absolute,
    must_be_embedded,
)
from compactor.tables.schema import arrow_schema, select
from compactor.tables.sql.answer import Answer, done
from compactor.tables.sql.named_partitions import key_values, matching, name_of
from compactor.tables.sql.sql_session import Session
from compactor.tables.table import Table as ProgramTable
from compactor.tables.transactions.added_partitions import must_be_a_partition_name, must_fit_in_a_directory
from compactor.tables.transactions.transaction import Transaction

_COPIED = ("orc.", "bucketing_version", "transactional")  #: beginnings of the properties that CREATE TABLE LIKE takes
#: Properties that make a table another kind, or its rows lie otherwise, whoever sets them.
_OF_ITS_KIND = frozenset(("transactional", "transactional_properties", "external", "bucketing_version"))


def create_database(session: Session, statement: Statement, asked: parsed_actions.CreateDatabase) -> Answer:
    """Creates a database; without a location below the warehouse.

    Raises:
        Refused: the metastore is Hive's, there is one of this name, or no location is known.
    """
    site, name = session.site, asked.database
    must_be_embedded(site, f"database {name}")
    must_be_a_name(name)
    must_write(site.settings, f"database {name}")
    if asked.if_not_exists and name in site.metastore.catalog.databases():
        return done(statement.name, f"database {name} is there already", database=name, created=False)
    location = asked.location or f"{_warehouse(session)}/{name}.db"
    must_be_absolute(f"database {name}", location)
    with session.locked(statement):
        site.metastore.embedded_catalog.create_database(name, location)
    return done(statement.name, f"database {name} is created at {location}", database=name, created=True)


def _warehouse(session: Session) -> str:
    """Returns the directory of the database ``default``, below which Hive puts the others.

    Raises:
        Refused: there is none.
    """
    try:
        return session.site.metastore.catalog.database_location("default").rstrip("/")
    except NotFound as error:
        raise Refused("CREATE DATABASE: there is no database default to put it beside; give its LOCATION") from error


def drop_database(session: Session, statement: Statement, asked: parsed_actions.DropDatabase) -> Answer:
    """Drops a database without tables; its directory stays.

    Raises:
        Refused: there are tables in it, or the metastore is Hive's.
        NotFound: there is no such database.
    """
    site, name = session.site, asked.database
    must_be_embedded(site, f"database {name}")
    must_write(site.settings, f"database {name}")
    if asked.if_exists and name not in site.metastore.catalog.databases():
        return done(statement.name, f"there is no database {name}", database=name, dropped=False)
    with session.locked(statement):
        site.metastore.embedded_catalog.drop_database(name)
    return done(statement.name, f"database {name} is dropped", database=name, dropped=True)


def create(session: Session, statement: Statement, asked: parsed_actions.CreateTable) -> Answer:
    """Creates a full ACID table.

    Raises:
        NotConforming: a column is there twice, or its type is none of Hive's.
        Refused, NotFound, NotSupported: as ``Store.create_table`` says.
    """
    name = session.full(asked.table)
    database = asked.table.database or session.database
    must_be_embedded(session.site, name)
    must_write(session.site.settings.of_database(database), name)
    definition = None if asked.like is not None else _definition(name, asked)
    with session.locked(statement):
        if session.site.metastore.catalog.is_known(database, asked.table.table):
            if not asked.if_not_exists:
                raise Refused(f"table {name} exists already")
            return done(statement.name, f"table {name} is there already", table=name, created=False)
        made = create_table(session.site, database, asked.table.table, definition or _like(session, asked))
    return done(statement.name, f"table {made} is created at {made.location}", table=str(made), created=True)


def _definition(name: str, asked: parsed_actions.CreateTable) -> Definition:
    every = (*asked.columns, *asked.partitioned_by)
    names = [column for column, _ in every]
    if twice := next((one for one in names if names.count(one) > 1), None):
        raise NotConforming(f"{name}: column {twice!r} is there twice, or is no name of a column")
    return Definition(
        schema=dict(every),
        partitioned_by=[key for key, _ in asked.partitioned_by],
        clustered_by=(asked.clustered_by, asked.buckets) if asked.clustered_by else None,
        properties=dict(asked.properties),
        location=asked.location,
    )


def _like(session: Session, asked: parsed_actions.CreateTable) -> Definition:
    assert asked.like is not None
    like = session.found(asked.like)
    if not like.is_full_acid or like.sort_columns:
        raise NotSupported(
            f"{session.full(asked.table)}: {like} is no full ACID table without an order; only such are made"
        )
    kept = {key: value for key, value in like.parameters.items() if key.lower().startswith(_COPIED)}
    return Definition(
        schema={column.name: column.type for column in (*like.columns, *like.partition_keys)},
        partitioned_by=[key.name for key in like.partition_keys],
        clustered_by=(like.bucket_columns, like.buckets) if like.bucket_columns else None,
        properties={**kept, **dict(asked.properties)},
        location=asked.location,
    )


def drop(session: Session, statement: Statement, asked: parsed_actions.DropTable) -> Answer:
    """Drops a table once nobody else uses it.

    Raises:
        NotFound: there is none.
        Refused: the metastore is Hive's, or others' directories overlap what would be purged.
    """
    name = session.full(asked.table)
    database = asked.table.database or session.database
    if asked.if_exists and not session.site.metastore.catalog.is_known(database, asked.table.table):
        return done(statement.name, f"there is no table {name}", table=name, dropped=False)
    _must_be_ours(session, asked.table)
    with session.locked(statement):
        if asked.if_exists and not session.site.metastore.catalog.is_known(database, asked.table.table):
            return done(statement.name, f"there is no table {name}", table=name, dropped=False)
        table = session.found(asked.table)
        must_write(session.site.settings_for(table), str(table))
        drop_locked(session.site, table, purge=asked.purge)
    stay = "" if asked.purge else f"; its files stay at {table.location}"
    return done(statement.name, f"table {table} is dropped{stay}", table=str(table), dropped=True)


def truncate(session: Session, statement: Statement, asked: parsed_actions.TruncateTable) -> Answer:
    """Puts no rows in place of all that the table, or those of its partitions, hold: in one transaction.

    Raises:
        NotFound: there is no such partition.
        NotSupported: the table is none that is written here.
    """
    table = session.found(asked.table)
    must_write(session.site.settings_for(table), str(table))
    with session.within(table) as txn:
        keys = _partitions_locked(session, txn, table, asked.partition)
        places: list[Partition | None] = [*keys] if table.is_partitioned else [None]
        _overwrite_with_nothing(session, txn, table, places)
    return done(statement.name, f"{table} is truncated", table=str(table), partitions=[part.name for part in keys])


def _partitions_locked(session: Session, txn: Transaction, table: Table, spec: Spec | None) -> list[Partition]:
    """Returns the partitions that are truncated, none of a table without any. They are looked up under the lock: others may
    have added or dropped some while it was waited for (PROTOCOL 14.30).

    Raises:
        NotFound: none has the values of ``spec``.
    """
    if not table.is_partitioned and spec is None:
        return []
    keys = _named(session, table, spec)
    is_single = spec is not None and len(spec) == len(table.partition_keys) and len(keys) == 1
    txn.lock_for_overwriting(table, keys[0].name if is_single else None)
    return _named(session, table, spec)


def _named(session: Session, table: Table, spec: Spec | None) -> list[Partition]:
    keys = matching(session.site.metastore.catalog, table, spec)
    if spec is not None and not keys:
        raise NotFound(f"table {table} has no such partition; look at SHOW PARTITIONS {table}")
    return keys


def _overwrite_with_nothing(
    session: Session, txn: Transaction, table: Table, partitions: Sequence[Partition | None]
) -> None:
    opened = ProgramTable(session.site, table, txn)
    empty = arrow_schema(table, select(table, [column.name for column in table.columns])).empty_table()
    keys = [key.name.lower() for key in table.partition_keys]
    for part in partitions:
        if part is None:
            opened.overwrite(empty)
        else:
            spec = tuple(zip(keys, part.values, strict=True))
            if (name := name_of(table, spec)) != part.name:
                raise NotSupported(f"{table}: partition {part.name} would be {name} by what is written here; use Hive")
            opened.overwrite(empty, partition=key_values(table, spec))


def add_partitions(session: Session, statement: Statement, asked: parsed_actions.AddPartitions) -> Answer:
    """Adds partitions with their directories, which have to be empty or not there.

    Raises:
        Refused: one is there already, its name is too long, its location is no whole path, its directory holds something
            or overlaps another's, or the metastore is Hive's.
    """
    _must_be_ours(session, asked.table)
    site = session.site
    with session.locked_table(statement, asked.table) as table:
        there = {part.name for part in site.metastore.catalog.partitions(table)}
        wanted = {name_of(table, spec): location for spec, location in asked.partitions}
        if not asked.if_not_exists and (known := sorted(there.intersection(wanted))):
            raise Refused(f"partition {known[0]!r} of {table} exists already")
        new = {name: location for name, location in wanted.items() if name not in there}
        places = {name: location or f"{table.location.rstrip('/')}/{name}" for name, location in new.items()}
        for name, place in places.items():
            must_be_a_partition_name(site, table, name)
            if new[name]:
                must_be_absolute(f"partition {name} of {table}", place)
            else:
                must_fit_in_a_directory(table, name)
            if found := site.storage.children(site.storage.resolve(place)):
                raise Refused(
                    f"partition {name} of {table}: {place} holds {found[0]}; wanted a directory that is empty"
                )
        _add(session, table, places)
    said = f"{len(places)} partitions are added to {table}" if places else f"{table} has them already"
    return done(statement.name, said, table=str(table), partitions=list(places))


def _add(session: Session, table: Table, places: Mapping[str, str]) -> None:
    """Adds partitions at their places, all or none.

    Raises:
        Refused: a place overlaps the directory of another table or partition.
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


def drop_partitions(session: Session, statement: Statement, asked: parsed_actions.DropPartitions) -> Answer:
    """Drops partitions; their files stay unless they are purged.

    Raises:
        NotFound: none has such values, and IF EXISTS is not said.
        Refused: the metastore is Hive's, or others' directories overlap what would be purged.
    """
    _must_be_ours(session, asked.table)
    site = session.site
    with session.locked_table(statement, asked.table) as table:
        found: dict[str, Partition] = {}
        for spec in asked.partitions:
            fitting = matching(site.metastore.catalog, table, spec)
            if not fitting and not asked.if_exists:
                values = ", ".join(f"{key}={value}" for key, value in spec)
                raise NotFound(f"table {table} has no partition with {values}; look at SHOW PARTITIONS {table}")
            found |= {part.name: part for part in fitting}
        places: list[str] = []
        if asked.purge:
            ground = new_ground(site)
            for name in found:
                if (why := ground.refusal(table.id, name)) is not None:
                    raise Refused(f"partition {name} of {table} was not dropped: {why}")
            places = [path_of(site.storage, table, part) for part in found.values()]
            claims = claims_of(site)
            for place in places:
                claims.must_be_free_above(table, place)
                claims.must_be_free_by_names(table, place, site.storage.children(place))
        site.metastore.embedded_catalog.drop_partitions(table, found)
        for place in places:  # under the lock: who adds it anew does not write there yet
            site.storage.remove(place)
    return done(
        statement.name, f"{len(found)} partitions of {table} are dropped", table=str(table), partitions=sorted(found)
    )


def add_columns(session: Session, statement: Statement, asked: parsed_actions.AddColumns) -> Answer:
    """Adds columns behind the others; rows that are there have NULL in them.

    Raises:
        Refused: the table has one of such a name, or the metastore is Hive's.
        NotConforming, NotSupported: a type is none that a full ACID table can have.
    """
    _must_be_ours(session, asked.table)
    name = session.full(asked.table)
    names = [column for column, _ in asked.columns]
    if len(set(names)) < len(names):
        raise NotConforming(f"{name}: a column of {', '.join(names)} is there twice")
    new = list(checked_columns(name, dict(asked.columns)))
    with session.locked_table(statement, asked.table) as table:
        session.site.metastore.embedded_catalog.add_columns(table, new)
    return done(statement.name, f"{table} has the columns {', '.join(names)}, too", table=str(table), columns=names)


def rename(session: Session, statement: Statement, asked: parsed_actions.RenameTable) -> Answer:
    """Gives a table another name; its directory stays where it is.

    Raises:
        Refused: there is a table of this name, or the metastore is Hive's.
        NotFound: there is no such database.
    """
    _must_be_ours(session, asked.table)
    must_be_a_name(asked.to.table)
    with session.locked_table(statement, asked.table) as table:
        database = asked.to.database or table.database
        renamed = session.site.metastore.embedded_catalog.rename_table(table, asked.to.table, database)
    said = f"{table} is {renamed}; its directory stays at {table.location}"
    return done(statement.name, said, table=str(table), renamed=str(renamed))


def set_properties(session: Session, statement: Statement, asked: parsed_actions.SetProperties) -> Answer:
    """Sets properties of a table, or removes them.

    Raises:
        NotSupported: one makes the table another kind.
        Refused: the metastore is Hive's.
    """
    _must_be_ours(session, asked.table)
    for key, _ in asked.properties:
        if key.lower() in _OF_ITS_KIND:
            raise NotSupported(
                f"{session.full(asked.table)}: {key} makes it another kind of table, whose files Hive has to convert; "
                "use Hive"
            )
    with session.locked_table(statement, asked.table) as table:
        session.site.metastore.embedded_catalog.set_table_parameters(table, dict(asked.properties))
    keys = [key for key, _ in asked.properties]
    return done(statement.name, f"{', '.join(keys)} of {table} is changed", table=str(table), properties=keys)


def _must_be_ours(session: Session, name: Name) -> None:
    """Checks that the definition of a table may be changed here, before its lock is waited for.

    Raises:
        NotFound: there is none.
        Refused: the metastore is Hive's, or the table's mode is observe.
    """
    must_be_embedded(session.site, session.full(name))
    table = session.found(name)
    must_write(session.site.settings_for(table), str(table))
