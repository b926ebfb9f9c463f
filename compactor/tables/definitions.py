"""Creates and drops databases and tables for programs, in an embedded metastore only.

Hive's own metastore checks names, types, quotas and rights, and notifies others. A program that wrote these rows itself
would bypass all of that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import Access, Accessing, AccessKind, Name
from compactor.metastore.catalog import values
from compactor.metastore.catalog.embedded import NewTable
from compactor.orc.codecs.arrow_types import arrow_type
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import TypeKind, Types
from compactor.site.restored_database import doubt_of_programs
from compactor.site.site import Site, claims_of, new_ground, path_of
from compactor.tables.schema import ROW_ID, hive_columns
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction

_NAME = re.compile(r"[A-Za-z0-9_]{1,128}")
_LONGEST = {TypeKind.CHAR: 255, TypeKind.VARCHAR: 65535}  #: in characters
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")
_PROPERTIES = {"transactional": "true", "transactional_properties": "default", "bucketing_version": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The definition of a table to create; see ``Store.create_table``."""

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


def create_table(site: Site, database: str, name: str, definition: Definition) -> values.Table:
    """Creates an empty full ACID table and its directory, and returns it; see ``Store.create_table``."""
    new = prepare_table(site, database, name, definition)
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


def prepare_table(site: Site, database: str, name: str, definition: Definition) -> NewTable:
    """Checks a definition and returns the full ACID table to create; only its directory is not checked.

    Raises:
        Refused: the metastore is Hive's, or the definition does not describe a table.
        NotFound: the database or a column does not exist.
        NotConforming, NotSupported: a full ACID table cannot have a column of this name or type.
    """
    what = f"{database}.{name}"
    must_be_embedded(site, what)
    must_be_a_name(name)
    columns = {column.name.lower(): column for column in check_columns(what, definition.schema)}
    keys = _find_columns(what, columns, definition.partitioned_by)
    plain = [column for column in columns.values() if column not in keys]
    if not plain:
        raise Refused(f"{what}: all columns are partition columns; a table needs at least one other column")
    bucket_columns, buckets = definition.clustered_by or ((), -1)
    if definition.clustered_by is not None and not (bucket_columns and 1 <= buckets <= MAX_BUCKET + 1):
        raise Refused(
            f"{what}: clustered_by = {definition.clustered_by!r}; expected columns, and 1 to {MAX_BUCKET + 1} buckets"
        )
    location = definition.location or f"{site.metastore.catalog.database_location(database).rstrip('/')}/{name.lower()}"
    must_be_absolute(what, location)
    return NewTable(
        database,
        name,
        location,
        plain,
        partition_keys=keys,
        parameters=_properties(what, definition.properties or {}),
        owner=site.user,
        buckets=buckets,
        bucket_columns=[
            column.name
            for column in _find_columns(what, {column.name.lower(): column for column in plain}, bucket_columns)
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationAccesses:
    """The accesses of CREATE TABLE … AS to the table that it creates; its locks follow from them."""

    database: str
    table: str

    @property
    def accesses(self) -> Sequence[Access]:
        created = Access(kind=AccessKind.CTAS, name=Name(database=self.database, table=self.table), makes=True)
        return (created, Access(kind=AccessKind.DDL_SHARED, name=Name(database=self.database, table="")))


def create_with_commit(
    txn: Transaction, database: str, name: str, definition: Definition, locks: Accessing | None = None
) -> values.Table:
    """Returns a table that appears in the catalog when ``txn`` commits, with its rows.

    Until then nobody else sees it, and an abort leaves at most empty directories (PROTOCOL 14.24).

    Args:
        locks: the statement, if it takes more locks than ``CreationAccesses``.

    Raises:
        Refused: the table exists, or its directory is not empty or overlaps another's; or as for ``prepare_table``.
        NotFound, NotConforming, NotSupported: as for ``prepare_table``.
        LockNotGranted: somebody else creates the table, or drops its database.
    """
    site = txn.site
    new = prepare_table(site, database.lower(), name.lower(), definition)
    accessing = locks or CreationAccesses(database=database, table=name)
    txn.lock_as_planned([lock.request for lock in planned_locks(site, accessing, database)])
    what = f"{database}.{name}"
    if site.metastore.catalog.is_known(database, name):
        raise Refused(f"table {what} exists already")
    must_be_free(site, what, new.location)
    _must_not_overlap(site, what, new.location)
    return txn.created.add(
        new, make_directory(site, new.location), lambda conn: _must_not_overlap(site, what, new.location)
    )


def _must_not_overlap(site: Site, what: str, location: str) -> None:
    """Refuses a new table whose directory overlaps another's.

    Raises:
        Refused: the directories overlap.
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
    """Drops a table.

    The caller holds an exclusive lock, so nobody can create it again and write there meanwhile.

    Raises:
        Refused: with ``purge``, another table's or partition's directory overlaps the table's.
    """
    places = list_purged(site, table) if purge else []
    site.metastore.embedded_catalog.drop_table(table)
    for place in places:
        site.storage.remove(place)


def list_purged(
    site: Site, table: values.Table, partitions: Collection[values.PartitionPlace] | None = None
) -> list[str]:
    """Returns the directories that are about to be removed.

    These are those of ``partitions``, or of a table and all its partitions.

    Raises:
        Refused: the directory of another table or partition overlaps one of them.
        Disagreement: another table claims one of them, or a directory around or inside it.
        StorageError: a directory cannot be listed.
    """
    ground, claims = new_ground(site), claims_of(site)
    purged: list[values.PartitionPlace | None] = [None, *site.metastore.catalog.partitions(table)]
    reasons = [ground.refusal_anywhere(table.id)]
    if partitions is not None:
        purged, reasons = list(partitions), [ground.refusal(table.id, part.name) for part in partitions]
    for why in filter(None, reasons):
        raise Refused(f"nothing of {table} was dropped: {why}")
    places = [path_of(site.storage, table, part) for part in purged]
    for place in places:
        claims.must_be_free_everywhere(table, place)
    return places


def must_be_embedded(site: Site, what: str) -> None:
    """Refuses to define anything in a metastore of Hive, or in a database that is an older copy.

    Raises:
        Refused: the metastore is Hive's.
        Disagreement: the database is an older copy.
    """
    if site.metastore.database.kind != "sqlite":
        raise Refused(
            f"{what}: metastore {site.name} is Hive's, so Hive defines its tables; Compactor does so only in an embedded "
            "metastore"
        )
    if (in_doubt := doubt_of_programs(site)) is not None:
        raise Disagreement(f"{what}: nothing is changed: {in_doubt}")


def must_be_a_name(name: str) -> None:
    """Refuses an invalid name of a database or table.

    Raises:
        Refused: the name is invalid.
    """
    if _NAME.fullmatch(name) is None:
        raise Refused(f"{name!r}: expected a name of letters, digits and underscores, of at most 128 characters")


def check_columns(what: str, schema: pa.Schema | Mapping[str, str]) -> Iterator[values.Column]:
    """Yields the columns after checking that a full ACID table can have them.

    Raises:
        NotConforming: a name is defined twice or invalid, or a type is not a Hive type.
        NotSupported: we do not write such a type.
    """
    known: set[str] = set()
    for name, kind in hive_columns(what, schema).items() if isinstance(schema, pa.Schema) else schema.items():
        if not name or name.lower() in known or re.search(r"[`,:;\x00-\x1f]", name):
            raise NotConforming(f"{what}: column {name!r} is defined twice, or is not a valid name of a column")
        if name.lower() == ROW_ID:
            raise NotConforming(f"{what}: column {name!r} has the name of Hive's ROW__ID; choose another name")
        known.add(name.lower())
        try:
            types = parse_hive_type(kind)
            if "local time zone" in kind.lower() or "uniontype" in kind.lower():
                raise NotSupported(f"{what}: column {name} is a {kind}, which we do not write into full ACID tables")
            arrow_type(types)
            _must_be_within_limits(what, name, types)
        except NotLossless as error:
            raise NotConforming(f"{what}: column {name} is a {kind!r}, which is not a Hive type: {error}") from error
        yield values.Column(name=name.lower(), type=kind)


def _must_be_within_limits(what: str, name: str, types: Types) -> None:
    """Refuses types that Hive's type parser refuses (``HiveDecimal``, ``HiveChar``, ``HiveVarchar``).

    Raises:
        NotConforming: the scale of a decimal exceeds its precision, or a char or varchar is too long.
    """
    for item in types:
        longest = _LONGEST.get(item.kind)
        if item.kind is TypeKind.DECIMAL and item.scale > item.precision:
            raise NotConforming(
                f"{what}: column {name} is a decimal({item.precision},{item.scale}); expected a scale of at most "
                f"{item.precision}"
            )
        if longest is not None and item.maximum_length > longest:
            raise NotConforming(
                f"{what}: column {name} is a {item.kind.name.lower()}({item.maximum_length}); expected {longest} at most"
            )


def must_be_absolute(what: str, location: str) -> None:
    """Refuses a relative location: each process that reads it would resolve it to another directory.

    Raises:
        Refused: the location is relative.
    """
    if _ABSOLUTE.match(location) is None:
        raise Refused(f"{what}: location {location!r} is relative; expected an absolute path or a URL")


def _find_columns(what: str, columns: Mapping[str, values.Column], names: Sequence[str]) -> list[values.Column]:
    named: dict[str, values.Column] = {}
    for name in names:
        if name.lower() not in columns:
            raise NotFound(f"{what} has no column {name!r}; it has {', '.join(columns)}")
        if name.lower() in named:
            raise NotConforming(f"{what}: column {name!r} is named twice; name it once")
        named[name.lower()] = columns[name.lower()]
    return list(named.values())


def _properties(what: str, extra: Mapping[str, str]) -> dict[str, str]:
    properties = _PROPERTIES | {key.lower() if key.lower() in _PROPERTIES else key: extra[key] for key in extra}
    if values.is_true(values.parameter(properties, "external")):
        raise NotSupported(f"{what}: external = 'true'; external tables cannot be ACID tables; leave it out")
    for key in ("transactional", "transactional_properties"):
        if properties[key].lower() != _PROPERTIES[key]:
            raise NotSupported(f"{what}: {key} = {properties[key]!r}; only full ACID tables are created here")
    return properties


def must_be_free(site: Site, what: str, location: str) -> None:
    """Refuses a directory for a new table that holds files.

    Staging directories of dead writers are removed first, unless the directory lies in another table, where that is the
    cleaner's job.

    Raises:
        Refused: the directory holds files, or somebody writes there at the moment.
        Disagreement: another metastore claims the directory, or one around or inside it.
    """
    path = site.storage.resolve(location)
    claims_of(site).must_be_free_of_others(what, path)
    if not site.storage.children(path):
        return
    staged = [name for name in site.storage.tree(path).directories if _base_name(name).startswith(WRITING_PREFIX)]
    if staged and new_ground(site).refusal_of_new(what, location) is None:
        for place in staged:
            _remove_dead(site, what, f"{path}/{place}")
    tree = site.storage.tree(path)
    files = [name for name in site.storage.children(path) if name not in tree.directories]
    files += [name for name in tree.directories if name in tree.files or _base_name(name).startswith(("_", "."))]
    if files:
        raise Refused(
            f"{what}: {location} holds {files[0]}; expected a directory without files, or one that does not exist"
        )


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _remove_dead(site: Site, what: str, path: str) -> None:
    """Removes a staging directory whose transaction has ended.

    Raises:
        Refused: the transaction is open, or this metastore never allocated its number.
    """
    owner, transactions = parse_staging(_base_name(path)), site.metastore.transactions
    if owner is None or owner > transactions.newest() or transactions.state(owner) == txn_states.OPEN:
        raise Refused(f"{what}: somebody writes in {path}; wait until they are done, or give another LOCATION")
    site.storage.remove(path)


def make_directory(site: Site, location: str) -> list[str]:
    """Creates a table's directory, with owner and mode of the nearest existing parent.

    Returns the directories it created.

    Object stores have no directories, so nothing is created there.
    """
    path = site.storage.resolve(location)
    if not site.storage.capabilities(path).renames:
        return []
    created, like = [], path
    while like and not site.storage.exists(like):
        created.append(like)
        like = like.rpartition("/")[0]
    if created:
        site.storage.make_directories(path, like=like or "/")
    return created
