"""Keeps replaced directories in quarantine for a time, then erases them (PROTOCOL 11.15)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from compactor.acid.names import Quarantine, parse_quarantine, parse_staging
from compactor.base.errors import (
    BadFile,
    CompactorError,
    DatabaseUnavailable,
    Disagreement,
    NotFound,
    NotSupported,
    Refused,
    failing_alone,
)
from compactor.base.ids import WriteId
from compactor.compaction.eligibility import no_cleanup
from compactor.compaction.quarantine_rules import Quarantined, Record, choose_due, list_names, sort_obsolete
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.rewrite.publish import quarantine_moves, stage
from compactor.rewrite.publish.removal import identities
from compactor.rewrite.publish.stage import Manifest, read_manifest
from compactor.rewrite.publish.unchanged_inputs import must_still_be_needed
from compactor.settings.precedence import with_request
from compactor.site.exclusive import renames
from compactor.site.files_and_metastore import must_be_the_same_table
from compactor.site.mode import Mode, may
from compactor.site.removal_records import count_removal, record_removals
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, Target, claims_of, ground_of, must_lie_alone
from compactor.site.view import View
from compactor.state.quarantines import Quarantines
from compactor.state.removals import Cause

log = logging.getLogger(__name__)
SETTING = "compactor.quarantine"


def keeps(target: Target, entry: Entry) -> bool:
    """Returns true if the replaced directories are kept; never for a rebalance, which changes ROW__IDs."""
    return _duration_ms(target, entry) > 0 and entry.type is not CompactionType.REBALANCE


def _duration_ms(target: Target, entry: Entry) -> int:
    return with_request(target.settings, entry.properties, strict=False).milliseconds(SETTING)


def keep_manifest(site: Site, target: Target, entry: Entry, manifest: str) -> None:
    """Moves the ``manifest`` of a committed compaction into the quarantine of its inputs.

    A failure is only logged: the compaction cannot be undone then.
    """
    if not keeps(target, entry) or not renames(site, target):
        return
    try:
        if not site.storage.exists(manifest):
            return  # a cleaner was faster, and has recorded the quarantine
        _quarantines(site).keep(site.name, _new_row(site, target, entry))
        quarantine_moves.keep_manifest(site.storage, manifest, target.location, entry.id)
    except CompactorError as error:
        log.warning("%s entry %d: can be compacted and cleaned, but not undone: %s", entry.entity, entry.id, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The directories that the cleaning of one entry keeps.

    ``names`` must not be removed, whoever has moved them. ``removed`` gives the reason for each obsolete name that is not
    kept.
    """

    names: tuple[str, ...] = ()
    removed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def keep_obsolete(site: Site, target: Target, entry: Entry, view: View) -> Kept:
    """Moves the obsolete directories of ``view`` that may be kept into the entry's quarantine.

    Only the directories that are there now are moved, and only while the table is the same (PROTOCOL 11.8).

    Raises:
        NotSupported: the store cannot keep directories.
        DatabaseUnavailable: there is no state of our own that could list the quarantine.
        Disagreement: the table or one of its directories was replaced, or the quarantine belongs to another compaction.
    """
    obsolete = view.directory.obsolete
    if not obsolete or not keeps(target, entry):
        return Kept()
    _must_be_able(site, target)
    returned = _return(site, target, entry, obsolete)
    obsolete = tuple(name for name in obsolete if name not in returned)
    sorted_names = sort_obsolete(obsolete, view.write_ids, _last_rebalance(site, entry))
    for name, reason in sorted_names.removed.items():
        log.info("%s entry %d: %s is removed, not kept: it %s", entry.entity, entry.id, name, reason)
    if not sorted_names.keep:
        return Kept(names=returned, removed=sorted_names.removed)
    _must_be_its_own(site, target, entry)
    _quarantines(site).keep(site.name, _new_row(site, target, entry))
    expected = identities(site.storage, target.location, sorted_names.keep)
    must_still_be_needed(target.location, view.directory, view.listing, site.storage.listing(target.location))
    quarantine_moves.make(site.storage, target.location, entry.id)
    _keep_late_manifest(site, target, entry)
    must_be_the_same_table(site, target)  # so the identities and the quarantine belong to it
    must_be_newest(site, polling=True)  # a pass may have been suspended since it looked
    must_still_be_ready = partial(site.metastore.cleaning.must_be_ready, entry)
    quarantine_moves.take(site.storage, target.location, entry.id, sorted_names.keep, expected, must_still_be_ready)
    return Kept(names=(*sorted_names.keep, *returned), removed=sorted_names.removed)


def _keep_late_manifest(site: Site, target: Target, entry: Entry) -> None:
    """Keeps the manifest of a compaction whose worker died right after the commit."""
    storage, location = site.storage, target.location
    if entry.txn_id is None or _manifest(site, target, entry) is not None:
        return
    for child in storage.children(location):
        manifest = f"{location}/{child}/{stage.MANIFEST}"
        if parse_staging(child) == entry.txn_id and _is_of(read_manifest(storage, manifest), entry):
            quarantine_moves.keep_manifest(storage, manifest, location, entry.id)
            return


def _return(site: Site, target: Target, entry: Entry, obsolete: Collection[str]) -> tuple[str, ...]:
    """Moves directories that an unfinished restore had put back into their quarantine again.

    Then the compaction can still be undone. Only the newest compaction can be undone, so only its quarantine is considered.
    """
    storage, location = site.storage, target.location
    quarantines = [
        quarantine
        for child in storage.children(location)
        if (quarantine := parse_quarantine(child)) and not quarantine.is_erased
    ]
    newest = max((older.entry_id for older in quarantines if older.entry_id != entry.id), default=None)
    record = None if newest is None else _read_own_record(site, location, newest)
    if newest is None or record is None or not any(storage.exists(f"{location}/{name}") for name in record.outputs):
        return ()  # the restore was completed, or the output was replaced
    inside = list_names(quarantine_moves.listing(storage, location, newest))
    names = [name for name in record.names if name in obsolete and name not in inside]
    expected = identities(storage, location, names)
    must_be_the_same_table(site, target)
    must_still_be_ready = partial(site.metastore.cleaning.must_be_ready, entry)
    return quarantine_moves.take(storage, location, newest, names, expected, must_still_be_ready)


def record_kept(site: Site, target: Target, entry: Entry, kept: Kept) -> None:
    """Writes the record of the entry's quarantine, if any, after the cleaning has removed everything else."""
    location = target.location
    if not keeps(target, entry) or not site.storage.exists(quarantine_moves.quarantine_path(location, entry.id)):
        return
    names = list_names(quarantine_moves.listing(site.storage, location, entry.id))
    record = _read_own_record(site, location, entry.id)
    if record is None or record.names != names:
        record = _record(site, target, entry, kept, record)
        quarantine_moves.write_record(site.storage, location, record)
    listed = replace(_new_row(site, target, entry), names=names, bytes=sum(record.kept.values()))
    _quarantines(site).keep(site.name, replace(listed, since=record.since, until=record.until))


def _record(site: Site, target: Target, entry: Entry, kept: Kept, before: Record | None) -> Record:
    """Returns the record of the present content of the entry's quarantine.

    ``before`` is an earlier record.
    """
    content = quarantine_moves.listing(site.storage, target.location, entry.id)
    manifest = _manifest(site, target, entry)
    inputs, outputs = (None, ()) if before is None else (before.inputs, before.outputs)
    if manifest is not None:
        inputs, outputs = manifest.inputs, manifest.outputs
    table_id, partition_id, _ = target.place
    listed = _new_row(site, target, entry)
    return Record(
        entry_id=entry.id,
        txn=entry.txn_id,
        table_id=table_id,
        partition_id=partition_id,
        columns=target.row_type,
        since=listed.since,
        until=listed.until,
        names=list_names(content),
        kept=content.lengths,
        stays=site.storage.listing(target.location).lengths,
        removed=kept.removed,
        inputs=inputs,
        outputs=outputs,
    )


def _read_own_record(site: Site, location: str, entry_id: int) -> Record | None:
    """Returns the record of an earlier pass.

    Returns None without one, or if it is unreadable and must be written again.
    """
    try:
        return quarantine_moves.read_record(site.storage, location, entry_id)
    except BadFile as error:
        log.warning("%s", error)
        return None


def _manifest(site: Site, target: Target, entry: Entry) -> Manifest | None:
    place = quarantine_moves.quarantine_path(target.location, entry.id)
    manifest = read_manifest(site.storage, f"{place}/{quarantine_moves.MANIFEST}")
    return manifest if _is_of(manifest, entry) else None


def _is_of(manifest: Manifest | None, entry: Entry) -> bool:
    return manifest is not None and manifest.txn == entry.txn_id


def _must_be_able(site: Site, target: Target) -> None:
    if not renames(site, target):
        store = site.storage.capabilities(target.location).store
        raise NotSupported(
            f"{target.entity}: {SETTING} is {target.settings.raw(SETTING)[0]} (from {target.settings.source(SETTING)}) and "
            f"{store} cannot keep directories, since it has no rename; nothing was removed. Set the table's property "
            f"{SETTING} to 0s, and rely on the store's own versions"
        )


def _must_be_its_own(site: Site, target: Target, entry: Entry) -> None:
    """Checks that the quarantine with the entry's id does not belong to another compaction."""
    before = _read_own_record(site, target.location, entry.id)
    if before is not None and (before.txn, before.table_id) != (entry.txn_id, target.table.id):
        raise Disagreement(
            f"{quarantine_moves.quarantine_path(target.location, entry.id)}: is the quarantine of compaction {entry.id} "
            f"with transaction {before.txn}, and this one's is {entry.txn_id}; the metastore was probably restored from a "
            "backup. Nothing was removed; move that directory out of the table; the next pass continues"
        )


def _last_rebalance(site: Site, entry: Entry) -> WriteId | None:
    """Returns the highest write ID of a known rebalance of the entry's table or partition."""
    entries, here = site.metastore.entries, entry.entity
    queued = entries.queue(database=here.database, table=here.table)
    write_ids = [
        earlier.highest_write_id
        for earlier in (*queued, *entries.history(here))
        if earlier.entity == here and earlier.type is CompactionType.REBALANCE and earlier.highest_write_id is not None
    ]
    return max(write_ids, default=None)


def _new_row(site: Site, target: Target, entry: Entry) -> Quarantined:
    """Returns the row that lists the entry's quarantine in our state, without names."""
    now = site.metastore.now_ms()
    return Quarantined(
        entry_id=entry.id,
        entity=entry.entity,
        location=target.location,
        since=now,
        until=now + _duration_ms(target, entry),
    )


def _quarantines(site: Site) -> Quarantines:
    if site.state is None:
        raise DatabaseUnavailable(
            f"metastore {site.name}: quarantine is listed in our own state and none is configured; set state_url, or "
            f"{SETTING} to 0s"
        )
    return site.state.quarantines


def erase_due(site: Site) -> tuple[Quarantined, ...]:
    """Erases and returns quarantines that are due or exceed ``compactor.quarantine.bytes``.

    Failures are logged.
    """
    if site.state is None or not (listed := site.state.quarantines.all(site.name)):
        return ()
    site = site.for_a_pass()
    assert site.state is not None
    waiting = {entry.id for entry in site.metastore.entries.queue(states=(State.READY_FOR_CLEANING,))}
    ended = [quarantined for quarantined in listed if quarantined.entry_id not in waiting]
    erased: list[Quarantined] = []
    for quarantined in choose_due(ended, site.metastore.now_ms(), site.settings.integer("compactor.quarantine.bytes")):
        try:
            with failing_alone(quarantined.entity):
                if _erase(site, quarantined):
                    site.state.quarantines.forget(site.name, quarantined.entry_id)
                    erased.append(quarantined)
        except CompactorError as error:
            log.warning(
                "%s: the quarantine of compaction %d stays: %s", quarantined.entity, quarantined.entry_id, error
            )
    return tuple(erased)


def _erase(site: Site, quarantined: Quarantined) -> bool:
    """Erases one quarantine. Returns false if it must stay, or may be out of reach for now."""
    target = _target_now(site, quarantined)
    settings = site.settings.of_database(quarantined.entity.database) if target is None else target.settings
    if not may(settings, Mode.CLEAN):
        return False
    if target is not None and no_cleanup(
        target.table.parameters, target.partition.parameters if target.partition else {}
    ):
        return False
    places = dict.fromkeys([quarantined.location, quarantined.location if target is None else target.location])
    for location in places:
        names = site.storage.children(location)
        if any(parse_quarantine(child) in _names_of_quarantine(quarantined) for child in names):
            _must_lie_alone(site, quarantined, target, location, names)
            content = quarantine_moves.listing(site.storage, location, quarantined.entry_id)
            quarantine_moves.erase(site.storage, location, quarantined.entry_id)
            entity, entry_id = quarantined.entity, quarantined.entry_id
            record_removals(site, [count_removal(entity, content, list_names(content), Cause.ERASED, entry_id)])
            log.info(
                "%s: the quarantine of compaction %d is erased, %d bytes",
                quarantined.entity,
                quarantined.entry_id,
                quarantined.bytes,
            )
            return True
    return target is None or bool(
        site.storage.children(target.location)
    )  # an empty directory may be a mount point whose file system is away


def _must_lie_alone(
    site: Site, quarantined: Quarantined, target: Target | None, location: str, names: Collection[str]
) -> None:
    """Checks that ``location`` is still ours: another metastore's compaction may have the same number.

    Raises:
        Refused: another table lies there.
        Disagreement: another table claims it.
        StorageError: a directory cannot be listed.
    """
    what = str(quarantined.entity)
    if target is not None:
        must_lie_alone(site, target, location, names)
    else:
        claims_of(site).must_be_free_of_others(what, location, names)
    has_left = target is None or location != target.location
    if has_left and (why := ground_of(site).refusal_of_abandoned(what, location)) is not None:
        raise Refused(why)


def _names_of_quarantine(quarantined: Quarantined) -> tuple[Quarantine, Quarantine]:
    return Quarantine(entry_id=quarantined.entry_id), Quarantine(entry_id=quarantined.entry_id, is_erased=True)


def _target_now(site: Site, quarantined: Quarantined) -> Target | None:
    """Returns the table or partition under its present name; None if it was dropped."""
    try:
        entity = site.metastore.entries.get(quarantined.entry_id).entity  # Hive renames it there
    except NotFound:
        entity = quarantined.entity
    try:
        return site.target(entity)
    except Refused:  # dropped, or created again with other partitions
        return None
