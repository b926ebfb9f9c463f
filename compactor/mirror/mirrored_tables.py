"""Mirrors of tables: added, brought up to date, shown and removed."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError

from compactor.base.errors import CompactorError, MirrorOvertaken, NotFound, NotSupported, Refused, failing_alone
from compactor.metastore.catalog.values import Table
from compactor.mirror.catalogs import catalog_errors, open_catalog
from compactor.mirror.data_files import MICROSECONDS, REFUSE
from compactor.mirror.file_changes import LaterWriteIds
from compactor.mirror.iceberg_schema import iceberg_schema, partition_spec
from compactor.mirror.mirror_pass import DATA, METADATA, PassResult, read_offset, run_pass
from compactor.mirror.offset import MIRROR
from compactor.mirror.retention import PASS_FILE, expire_snapshots, remove_garbage
from compactor.site.mode import must_write
from compactor.site.site import Site, ground_of, must_have_its_own_ground, own_state
from compactor.state.mirrors import Mirror
from compactor.tables.reading.scan_planning import must_be_readable
from compactor.tables.store import named_table

log = logging.getLogger(__name__)
#: A mirror's tables are never written by these, but the readers' and maintenance jobs' defaults should fit its files.
_PROPERTIES = {
    "format-version": "2",
    "write.format.default": "orc",
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_CATALOG_FILE = re.compile(r"[\w.-]+\.metadata\.json(\.gz)?|version-hint\.text")  #: in the metadata directory
_DROPPING = "compactor-dropping-"  #: begins the name of the mark that the mirror itself drops its table


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMirror:
    """A mirror to add, by default under the table's name and where the catalog puts it."""

    table: str
    catalog: str
    identifier: str | None = None
    location: str | None = None
    timestamps: str = REFUSE
    for_pyiceberg: bool = True


def add_mirror(site: Site, request: NewMirror) -> Mirror:
    """Creates an empty Iceberg table for ``request.table``; the next pass fills it.

    Raises:
        NotFound: the table does not exist.
        NotSupported: it is not a full ACID table in ORC, or has a column that a mirror cannot have.
        Refused: it has a mirror, the Iceberg table exists, or its location overlaps a table's (M1, M2).
        BadSetting: the configuration has no such catalog.
        CatalogUnavailable: the catalog does not answer, or refuses.
    """
    table = named_table(site, request.table)
    must_write(site.settings_for(table), str(table))
    must_be_readable(table)
    must_have_its_own_ground(site, table, None)
    mirrors = own_state(site).mirrors
    if (known := mirrors.find(site.name, table.database, table.name)) is not None:
        raise Refused(f"{table}: has a mirror already: {known.identifier} in catalog {known.catalog}")
    if request.timestamps not in (REFUSE, MICROSECONDS):
        raise Refused(f"timestamps {request.timestamps!r}: expected {REFUSE} or {MICROSECONDS}")
    catalog = open_catalog(site, request.catalog)
    identifier, token = request.identifier or str(table), secrets.token_hex(16)
    location = _create_table(site, catalog, table, identifier, token, request.location)
    mirror = Mirror(
        database=table.database,
        table=table.name,
        table_id=table.id,
        catalog=request.catalog,
        identifier=identifier,
        token=token,
        timestamps=request.timestamps,
        for_pyiceberg=request.for_pyiceberg,
        location=location,
    )
    if not mirrors.add(site.name, mirror):
        with catalog_errors(mirror.identifier):
            catalog.drop_table(mirror.identifier)
        raise Refused(f"{table}: another process has added a mirror at the same time")
    return mirror


def rebuild_mirror(site: Site, name: str) -> Mirror:
    """Drops the Iceberg table of a mirror with its files, and begins a new copy under the same name.

    Readers find no rows until the next pass has ended.

    Raises:
        NotFound: the table has no mirror.
        Refused: the Iceberg table is another one than the mirror created; or as for ``add_mirror``.
        CatalogUnavailable: the catalog does not answer, or refuses.
    """
    old = find_mirror(site, name)
    table = named_table(site, old.name)
    must_write(site.settings_for(table), str(table))
    must_be_readable(table)
    catalog = open_catalog(site, old.catalog)
    _drop(site, catalog, old)
    new = replace(old, token=secrets.token_hex(16), table_id=table.id, last_snapshot=None, error=None)
    # Before the Iceberg table exists: whoever dies in between rebuilds again.
    if not own_state(site).mirrors.replace(site.name, old, new):
        raise Refused(f"{table}: another process has removed or rebuilt the mirror at the same time")
    _create_table(site, catalog, table, new.identifier, new.token, new.location)
    return new


def _drop(site: Site, catalog: Catalog, mirror: Mirror) -> None:
    """Drops the Iceberg table of a mirror and removes its files.

    Raises:
        Refused: the table is not the mirror's or not there, or its directory has something that no pass wrote (M1, M2).
    """
    _must_be_clear(site, mirror.identifier, mirror.location, mirror.token)
    what = f"{mirror.identifier} in catalog {mirror.catalog}"
    location = site.storage.resolve(mirror.location)
    listed = {folder: site.storage.children(f"{location}/{folder}") for folder in (DATA, METADATA)}
    _must_be_own_files(site, mirror, location, listed)
    is_dropping = f"{location}/{METADATA}/{_DROPPING}{mirror.token}"
    with catalog_errors(what):
        if catalog.table_exists(mirror.identifier):
            iceberg = catalog.load_table(mirror.identifier)
            if iceberg.properties.get(MIRROR) != mirror.token or iceberg.location() != mirror.location:
                raise Refused(
                    f"{what}: is not the table that the mirror of {mirror.name} created, so it stays; drop it by hand"
                )
            site.storage.write(is_dropping, b"")
            catalog.drop_table(mirror.identifier)
        elif any(listed.values()) and not site.storage.exists(is_dropping):
            raise Refused(
                f"{what}: is not there, but its files are: it was renamed or dropped by another program. They stay in "
                f"{mirror.location}; remove them once no table needs them. `compactor mirror remove {mirror.name}` without "
                "--purge forgets the mirror"
            )
    for folder in (DATA, METADATA):  # the latter has the mark that the table was dropped
        site.storage.remove(f"{location}/{folder}")


def _must_be_own_files(site: Site, mirror: Mirror, location: str, listed: Mapping[str, Sequence[str]]) -> None:
    """Checks that passes and the catalog wrote everything in a mirror's directories.

    Raises:
        Refused: something else lies there.
    """
    strange = [
        f"{folder}/{name}"
        for folder, names in listed.items()
        for name in names
        if not (
            PASS_FILE.fullmatch(name)
            or (folder == METADATA and (_CATALOG_FILE.fullmatch(name) or name == f"{_DROPPING}{mirror.token}"))
        )
    ]
    if strange:
        raise Refused(
            f"{mirror.name}: {len(strange)} files or directories in {mirror.location} are not the mirror's, such as "
            f"{strange[0]}; they may have rows that exist nowhere else, so nothing was removed. Move them away if nobody "
            f"needs them, or forget the mirror with `compactor mirror remove {mirror.name}` and add it under another name"
        )


def _create_table(site: Site, catalog: Catalog, table: Table, identifier: str, token: str, place: str | None) -> str:
    """Creates an empty Iceberg table, by default where the catalog puts it, and returns its location."""
    namespace = Catalog.namespace_from(identifier)
    if not namespace:
        raise Refused(f"{identifier}: expected <namespace>.<table>")
    with catalog_errors(f"{identifier} in catalog {catalog.name}"):
        if catalog.table_exists(identifier):
            raise Refused(
                f"{identifier} exists in catalog {catalog.name}, and a mirror takes over no table; name another one"
            )
        _create_namespace(catalog, namespace)
        schema = iceberg_schema(table)
        creation = catalog.create_table_transaction(
            identifier,
            schema,
            location=place,
            partition_spec=partition_spec(table, schema),
            properties={**_PROPERTIES, MIRROR: token, "compactor.table": str(table)},
        )
        location: str = creation.table_metadata.location
        _must_be_clear(site, identifier, location, token)
        if names := site.storage.children(site.storage.resolve(location)):
            raise Refused(f"{identifier}: its location {location} is not empty (it has {names[0]}); name another one")
        creation.commit_transaction()
    return location


def _create_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    try:
        if namespace not in catalog.list_namespaces(namespace[:-1]):
            catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return


def _must_be_clear(site: Site, identifier: str, location: str, token: str) -> None:
    """Checks that a mirror's location is apart from those of tables, partitions and other mirrors (M1).

    Raises:
        Refused: it overlaps one of them.
    """
    mirrors = own_state(site).mirrors.of_all_metastores()
    others = {f"the mirror of {other.name}": other.location for other in mirrors if other.token != token}
    if (why := ground_of(site).refusal_of_mirror(location, identifier, others)) is not None:
        raise Refused(f"{why}; a mirror needs a directory of its own: name one with --location")


def remove_mirror(site: Site, name: str, *, purge: bool = False) -> Mirror:
    """Forgets the mirror of a table. The Iceberg table stays, unless ``purge`` drops it with its files.

    Raises:
        NotFound: the table has no mirror.
        Refused: ``purge``, but the Iceberg table is not the mirror's.
        CatalogUnavailable: the catalog does not answer, or refuses.
    """
    mirror = find_mirror(site, name)
    if purge:
        _drop(site, open_catalog(site, mirror.catalog), mirror)
    own_state(site).mirrors.forget(site.name, mirror)
    return mirror


def find_mirror(site: Site, name: str) -> Mirror:
    """Returns the mirror of ``<database>.<table>``.

    Raises:
        NotFound: the table has none.
    """
    mirrors = own_state(site).mirrors
    database, _, table = name.lower().partition(".")
    mirror = mirrors.find(site.name, database, table)
    if mirror is None:
        known = ", ".join(mirror.name for mirror in mirrors.all(site.name)) or "none"
        raise NotFound(f"{name}: has no mirror; mirrored tables: {known}. `compactor mirror add` adds one")
    return mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOutcome:
    """The end of the pass over one mirrored table: a result or an error."""

    mirror: Mirror
    result: PassResult | None = None
    error: CompactorError | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the outcome as plain values; ``needs_person`` tells that no later pass can go on by itself."""
        result = asdict(self.result or PassResult(snapshot=None))
        return {
            "table": self.mirror.name,
            "catalog": self.mirror.catalog,
            "mirror": self.mirror.identifier,
            "error": None if self.error is None else str(self.error),
            "needs_person": isinstance(self.error, Refused | NotSupported)
            and not isinstance(self.error, MirrorOvertaken),
            **result,
        }


def run_mirrors(site: Site, names: Sequence[str] = ()) -> Iterator[PassOutcome]:
    """Runs one pass over each mirrored table, or over those named; an error stops only its own table."""
    state = own_state(site)
    mirrors = [find_mirror(site, name) for name in names] if names else state.mirrors.all(site.name)
    open_once = cache(partial(open_catalog, site))
    for mirror in mirrors:
        yield run_mirror(site, mirror, open_once)


def run_mirror(site: Site, mirror: Mirror, open_once: Callable[[str], Catalog]) -> PassOutcome:
    """Runs one pass, and records how it ended."""
    state = own_state(site)
    try:
        with failing_alone(mirror.name):
            mirror = find_mirror(site, mirror.name)  # passes over other mirrors may have taken long
            catalog = open_once(mirror.catalog)
            state.mirrors.begin_pass(site.name, mirror)
            result = run_pass(site, mirror, catalog)
            if result.snapshot is not None:
                # Before old snapshots expire: PyIceberg then forgets after which one the head comes.
                mirror = record_commit(site, mirror, result)
                _tidy(site, mirror, catalog)
    except CompactorError as error:
        state.mirrors.record_error(site.name, mirror, str(error))
        return PassOutcome(mirror=mirror, error=error)
    state.mirrors.record_pass(site.name, mirror)
    return PassOutcome(mirror=mirror, result=result)


def record_commit(site: Site, mirror: Mirror, result: PassResult) -> Mirror:
    """Stores the commit of a pass if it made one, and returns the mirror with it."""
    if result.snapshot is None:
        return mirror
    if not own_state(site).mirrors.record_commit(site.name, mirror, result.snapshot):
        return mirror  # another pass has recorded a commit since
    return replace(mirror, last_snapshot=result.snapshot)


def _tidy(site: Site, mirror: Mirror, catalog: Catalog) -> None:
    """Expires old snapshots, and removes files that no snapshot names; errors wait for a later pass."""
    try:
        with failing_alone(mirror.name):
            expired = expire_snapshots(site, mirror, catalog)
            if expired or mirror.is_under_way:
                _must_be_clear(site, mirror.identifier, mirror.location, mirror.token)
                remove_garbage(site, mirror, catalog)
    except CompactorError as error:
        log.warning("%s: files that no snapshot of the mirror names stay for now: %s", mirror.name, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLag:
    """The distance of a mirror to its table. ``problem`` says why nothing more is known."""

    mirror: Mirror
    commits: int | None = None
    rows: int | None = None
    problem: str | None = None


def show_mirrors(site: Site) -> Iterator[MirrorLag]:
    """Yields the lag of each mirrored table, as the metastore and the catalogs say now."""
    for mirror in own_state(site).mirrors.all(site.name):
        try:
            with failing_alone(mirror.name):
                yield _lag(site, mirror)
        except CompactorError as error:
            yield MirrorLag(mirror=mirror, problem=str(error))


def _lag(site: Site, mirror: Mirror) -> MirrorLag:
    catalog = open_catalog(site, mirror.catalog)
    with catalog_errors(f"{mirror.identifier} in catalog {mirror.catalog}"):
        iceberg = catalog.load_table(mirror.identifier)
    offset = read_offset(mirror, iceberg)
    table = named_table(site, mirror.name)
    now = site.write_ids(table, site.metastore.transactions.snapshot())
    head = iceberg.metadata.current_snapshot()
    total = None if head is None or head.summary is None else head.summary["total-records"]
    deleted = None if head is None or head.summary is None else head.summary["total-position-deletes"]
    rows = int(total or 0) - int(deleted or 0)
    if offset is None:
        return MirrorLag(mirror=mirror, commits=now.high_watermark, rows=rows)
    return MirrorLag(mirror=mirror, commits=len(LaterWriteIds(offset.write_ids, now)), rows=rows)
