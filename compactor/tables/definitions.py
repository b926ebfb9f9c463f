"""Databases and tables created and dropped by a program, in an embedded metastore: elsewhere that is Hive's.

Hive's metastore checks names, types, quotas and rights, and tells others; a program that wrote these rows by itself would go
around all of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from compactor.acid import txn_states
from compactor.acid.bucket import MAX_BUCKET
from compactor.acid.names import WRITING_PREFIX, parse_staging
from compactor.answers.explain_locks import planned_locks
from compactor.base.errors import (
    CompactorError,
    Disagreement,
    NotConforming,
    NotFound,
    NotLossless,
    NotSupported,
    Refused,
)
from compactor.locking.accesses import Access, Accessing, Name
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import AccessKind
from compactor.metastore.catalog import values
from compactor.metastore.catalog.embedded import NewTable
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind, Types
from compactor.site.restored_database import doubt_of_programs
from compactor.site.site import Site, claims_of, new_ground, path_of
from compactor.tables.hive_columns import hive_columns
from compactor.tables.schema import ROW_ID
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction

_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")
_LONGEST = {TypeKind.CHAR: 255, TypeKind.VARCHAR: 65535}  #: in characters
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")
_PROPERTIES = {"transactional": "true", "transactional_properties": "default", "bucketing_version": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A table to be created; see ``Store.create_table``."""

    schema: pa.Schema | Mapping[str, str]
    partitioned_by: Sequence[str] = ()
    clustered_by: tuple[Sequence[str], int] | None = None
    properties: Mapping[str, str] | None = None
    location: str | None = None


def create_database(site: Site, name: str, location: str) -> None:
    """Creates a database; see ``Store.create_database``."""
    must_be_embedded(site, f"database {name}")
    must_be_a_name(name)
    must_be_absolute(f"database {name}", location)
    site.metastore.embedded_catalog.create_database(name, location)


def create_table(site: Site, database: str, name: str, wanted: Definition) -> values.Table:
    """Creates an empty full ACID table and its directory, and returns it; see ``Store.create_table``."""
    new = new_table(site, database, name, wanted)
    must_be_free(site, f"{database}.{name}", new.location)
    created = site.metastore.embedded_catalog.create_table(new)
    try:
        if (why := new_ground(site).refusal(created.id, None)) is not None:
            raise Refused(f"{database}.{name} was not created: {why}")
        make_directory(site, new.location)
    except CompactorError:
        site.metastore.embedded_catalog.drop_table(created)
        raise
    return created


def new_table(site: Site, database: str, name: str, wanted: Definition) -> NewTable:
    """Returns a full ACID table to be created, after looking at all of it but its directory.

    Raises:
        Refused: the metastore is Hive's, or the definition is none of a table.
        NotFound: there is no such database or column.
        NotConforming, NotSupported: a column's name or type is none that a full ACID table can have.
    """
    what = f"{database}.{name}"
    must_be_embedded(site, what)
    must_be_a_name(name)
    columns = {column.name.lower(): column for column in checked_columns(what, wanted.schema)}
    keys = _named(what, columns, wanted.partitioned_by)
    plain = [column for column in columns.values() if column not in keys]
    if not plain:
        raise Refused(f"{what}: all columns are partition columns; a table has one other at least")
    of_bucket, buckets = wanted.clustered_by or ((), -1)
    if wanted.clustered_by is not None and not (of_bucket and 1 <= buckets <= MAX_BUCKET + 1):
        raise Refused(
            f"{what}: clustered_by = {wanted.clustered_by!r}; wanted: columns, and 1 to {MAX_BUCKET + 1} buckets"
        )
    location = wanted.location or f"{site.metastore.catalog.database_location(database).rstrip('/')}/{name.lower()}"
    must_be_absolute(what, location)
    return NewTable(
        database,
        name,
        location,
        plain,
        partition_keys=keys,
        parameters=_properties(what, wanted.properties or {}),
        owner=site.user,
        buckets=buckets,
        bucket_columns=[one.name for one in _named(what, {c.name.lower(): c for c in plain}, of_bucket)],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Creating:
    """The accesses of CREATE TABLE … AS to what it creates, for its locks."""

    database: str
    table: str

    @property
    def accesses(self) -> Sequence[Access]:
        made = Access(kind=AccessKind.CTAS, name=Name(database=self.database, table=self.table), makes=True)
        return (made, Access(kind=AccessKind.DDL_SHARED, name=Name(database=self.database, table="")))


def create_with_commit(
    txn: Transaction, database: str, name: str, wanted: Definition, locks: Accessing | None = None
) -> values.Table:
    """Returns a table that is created when ``txn`` commits, with the rows that are written into it until then; before that
    nobody else knows it, and an abort leaves at most empty directories (PROTOCOL 14.24).

    Args:
        locks: the statement, if it takes more locks than ``Creating``.

    Raises:
        Refused: there is a table of this name, or its directory holds something or overlaps another's; or as ``new_table``.
        NotFound, NotConforming, NotSupported: as ``new_table``.
        LockNotGranted: somebody else creates it, or drops its database.
    """
    site = txn.site
    new = new_table(site, database.lower(), name.lower(), wanted)
    accessing = locks or Creating(database=database, table=name)
    txn.lock_as_planned([planned.request for planned in planned_locks(site, accessing, database)])
    what = f"{database}.{name}"
    if site.metastore.catalog.is_known(database, name):
        raise Refused(f"table {what} exists already")
    must_be_free(site, what, new.location)
    _must_have_its_ground(site, what, new.location)
    return txn.created.add(
        new, make_directory(site, new.location), lambda conn: _must_have_its_ground(site, what, new.location)
    )


def _must_have_its_ground(site: Site, what: str, location: str) -> None:
    """Refuses the directory of a new table that overlaps another's.

    Raises:
        Refused: it does.
    """
    if (why := new_ground(site).refusal_of_new(what, location)) is not None:
        raise Refused(f"{what} was not created: {why}")


def drop_table(site: Site, table: values.Table, *, purge: bool) -> None:
    """Drops a table under an exclusive lock; see ``Store.drop_table``."""
    must_be_embedded(site, str(table))
    with transaction(site, role="program") as txn:
        txn.lock_for_changes(table, [], LockType.EXCLUSIVE)
        drop_locked(site, table, purge=purge)


def drop_locked(site: Site, table: values.Table, *, purge: bool) -> None:
    """Drops a table of which the caller holds an exclusive lock: who creates it anew does not write there yet.

    Raises:
        Refused: with ``purge``, others' directories overlap the table's.
    """
    places = _places(site, table) if purge else []
    site.metastore.embedded_catalog.drop_table(table)
    for place in places:
        site.storage.remove(place)


def _places(site: Site, table: values.Table) -> list[str]:
    """Returns the directories of a table and its partitions.

    Raises:
        Refused: others' directories overlap the table's, or others claim them.
    """
    overlap = new_ground(site).refusal(table.id, None)
    if overlap is not None:
        raise Refused(f"{table} was not dropped: {overlap}")
    places = [path_of(site.storage, table, None)]
    places += [path_of(site.storage, table, part) for part in site.metastore.catalog.partitions(table)]
    claims = claims_of(site)
    for place in places:
        claims.must_be_free_above(table, place)
        claims.must_be_free_by_names(table, place, site.storage.children(place))
    return places


def must_be_embedded(site: Site, what: str) -> None:
    """Refuses to define anything in a metastore of Hive, or in a database that is an older copy.

    Raises:
        Refused: it is one.
    """
    if site.metastore.database.kind != "sqlite":
        raise Refused(
            f"{what}: metastore {site.name} is Hive's, and Hive defines what is in it; only in an embedded metastore "
            "Compactor does"
        )
    if (in_doubt := doubt_of_programs(site)) is not None:
        raise Disagreement(f"{what}: nothing is changed: {in_doubt}")


def must_be_a_name(name: str) -> None:
    """Refuses what is no name of a database or table.

    Raises:
        Refused: it is none.
    """
    if _NAME.fullmatch(name) is None:
        raise Refused(f"{name!r}: wanted a name of letters, digits and underscores, 128 at most")


def checked_columns(what: str, schema: pa.Schema | Mapping[str, str]) -> Iterator[values.Column]:
    """Yields the columns, each with a type that full ACID tables can have.

    Raises:
        NotConforming: a name is there twice or is none, or a type is none of Hive's.
        NotSupported: a type is not written here.
    """
    known: set[str] = set()
    for name, kind in hive_columns(what, schema).items() if isinstance(schema, pa.Schema) else schema.items():
        if not name or name.lower() in known or re.search(r"[`,:;\x00-\x1f]", name):
            raise NotConforming(f"{what}: column {name!r} is there twice, or is no name of a column")
        if name.lower() == ROW_ID:
            raise NotConforming(f"{what}: column {name!r} has the name of Hive's ROW__ID; wanted another one")
        known.add(name.lower())
        try:
            types = parse_hive_type(kind)
            if "local time zone" in kind.lower() or "uniontype" in kind.lower():
                raise NotSupported(
                    f"{what}: column {name} is a {kind}, which is not written into full ACID tables here"
                )
            arrow_type(types)
            _must_be_within_limits(what, name, types)
        except NotLossless as error:
            raise NotConforming(f"{what}: column {name} is a {kind!r}, which is no type of Hive: {error}") from error
        yield values.Column(name=name.lower(), type=kind)


def _must_be_within_limits(what: str, name: str, types: Types) -> None:
    """Refuses what Hive's parser of types refuses (``HiveDecimal``, ``HiveChar``, ``HiveVarchar``).

    Raises:
        NotConforming: a decimal has more digits behind the point than it has, a text is longer than its kind can be.
    """
    for one in types:
        longest = _LONGEST.get(one.kind)
        if one.kind is TypeKind.DECIMAL and one.scale > one.precision:
            raise NotConforming(
                f"{what}: column {name} is a decimal({one.precision},{one.scale}); wanted at most as many digits behind the "
                "point as there are"
            )
        if longest is not None and one.maximum_length > longest:
            raise NotConforming(
                f"{what}: column {name} is a {one.kind.name.lower()}({one.maximum_length}); wanted {longest} at most"
            )


def must_be_absolute(what: str, location: str) -> None:
    """Refuses a location that is another directory for each process that reads it from the metastore.

    Raises:
        Refused: it is one.
    """
    if _ABSOLUTE.match(location) is None:
        raise Refused(f"{what}: location {location!r} depends on where a program runs; wanted a whole path or URL")


def _named(what: str, columns: Mapping[str, values.Column], names: Sequence[str]) -> list[values.Column]:
    found: dict[str, values.Column] = {}
    for name in names:
        if name.lower() not in columns:
            raise NotFound(f"{what} has no column {name!r}; it has {', '.join(columns)}")
        if name.lower() in found:
            raise NotConforming(f"{what}: column {name!r} is named twice; name it once")
        found[name.lower()] = columns[name.lower()]
    return list(found.values())


def _properties(what: str, given: Mapping[str, str]) -> dict[str, str]:
    properties = _PROPERTIES | {key.lower() if key.lower() in _PROPERTIES else key: given[key] for key in given}
    if values.is_true(values.parameter(properties, "external")):
        raise NotSupported(f"{what}: external = 'true'; external tables cannot be ACID tables; leave it out")
    for key in ("transactional", "transactional_properties"):
        if properties[key].lower() != _PROPERTIES[key]:
            raise NotSupported(f"{what}: {key} = {properties[key]!r}; only full ACID tables are created here")
    return properties


def must_be_free(site: Site, what: str, location: str) -> None:
    """Refuses a directory for a new table that holds a file. What writers that died have staged there is removed first, if
    the directory is in no table, where that is the cleaner's.

    Raises:
        Refused: it does, or somebody else writes there just now.
    """
    path = site.storage.resolve(location)
    if not site.storage.children(path):
        return
    staged = [one for one in site.storage.tree(path).directories if _last(one).startswith(WRITING_PREFIX)]
    if staged and new_ground(site).refusal_of_new(what, location) is None:
        for place in staged:
            _remove_dead(site, what, f"{path}/{place}")
    tree = site.storage.tree(path)
    found = [one for one in site.storage.children(path) if one not in tree.directories]
    found += [one for one in tree.directories if one in tree.files or _last(one).startswith(("_", "."))]
    if found:
        raise Refused(
            f"{what}: {location} holds {found[0]}; wanted a directory without files, or one that is not there"
        )


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _remove_dead(site: Site, what: str, path: str) -> None:
    """Removes a staging directory whose transaction has ended.

    Raises:
        Refused: it has not, or this metastore has never given its number.
    """
    owner, transactions = parse_staging(_last(path)), site.metastore.transactions
    if owner is None or owner > transactions.newest() or transactions.state(owner) == txn_states.OPEN:
        raise Refused(f"{what}: somebody writes in {path}; wait until that has ended, or give another LOCATION")
    site.storage.remove(path)


def make_directory(site: Site, location: str) -> list[str]:
    """Makes a table's directory, like the nearest one above that is there; object stores have no directories. Returns the
    directories that were not there before."""
    path = site.storage.resolve(location)
    if not site.storage.capabilities(path).renames:
        return []
    made, like = [], path
    while like and not site.storage.exists(like):
        made.append(like)
        like = like.rpartition("/")[0]
    if made:
        site.storage.make_directories(path, like=like or "/")
    return made
