"""Keeps what a compaction replaced for a while instead of removing it, and erases it when that is over (PROTOCOL 11.15)."""

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
from compactor.compaction.entry import Entry
from compactor.compaction.quarantine_rules import Quarantined, Record, due, names_of, sort_obsolete
from compactor.compaction.states import CompactionType, State
from compactor.rewrite.publish import quarantine_moves, stage
from compactor.rewrite.publish.manifest import Manifest, read_manifest
from compactor.rewrite.publish.same_directory import identities
from compactor.rewrite.publish.still_needed import must_still_be_needed
from compactor.settings.precedence import with_request
from compactor.site.exclusive import renames
from compactor.site.files_and_metastore import must_be_the_same_table
from compactor.site.mode import Mode, may
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, Target, View, claims_of, must_have_its_own_ground
from compactor.state.quarantines import Quarantines

log = logging.getLogger(__name__)
SETTING = "compactor.quarantine"


def keeps(target: Target, entry: Entry) -> bool:
    """Returns true if what the entry's compaction replaced is to be kept; never for a rebalance, which changes ROW__IDs."""
    return _duration_ms(target, entry) > 0 and entry.type is not CompactionType.REBALANCE


def _duration_ms(target: Target, entry: Entry) -> int:
    return with_request(target.settings, entry.properties, strict=False).milliseconds(SETTING)


def keep_manifest(site: Site, target: Target, entry: Entry, manifest: str) -> None:
    """Moves the ``manifest`` of a compaction that has committed to where its inputs are going to be kept.

    A failure only means that the compaction cannot be undone: it is logged.
    """
    if not keeps(target, entry) or not renames(site, target):
        return
    try:
        if not site.storage.exists(manifest):
            return  # a cleaner was faster, and has listed what it kept
        _listed(site).keep(site.name, _quarantined(site, target, entry))
        quarantine_moves.keep_manifest(site.storage, manifest, target.location, entry.id)
    except CompactorError as error:
        log.warning("%s entry %d: can be compacted and cleaned, but not undone: %s", entry.entity, entry.id, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The directories that the cleaning of one entry keeps: ``names`` are not to be removed, whoever has moved them.

    ``removed`` gives the reason for each obsolete name that is not kept.
    """

    names: tuple[str, ...] = ()
    removed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def keep_obsolete(site: Site, target: Target, entry: Entry, view: View) -> Kept:
    """Moves what is obsolete in ``view`` and may be kept into the entry's quarantine.

    Bound to the directories that are there now, and to the table that they belong to (PROTOCOL 11.8).

    Raises:
        NotSupported: the store cannot keep directories.
        DatabaseUnavailable: there is no state of our own to list the quarantine in.
        Disagreement: the table, one of its directories, or the quarantine is another one.
    """
    obsolete = view.directory.obsolete
    if not obsolete or not keeps(target, entry):
        return Kept()
    _must_be_able(site, target)
    returned = _return(site, target, entry, obsolete)
    obsolete = tuple(name for name in obsolete if name not in returned)
    found = sort_obsolete(obsolete, view.write_ids, _rebalanced(site, entry))
    for name, reason in found.removed.items():
        log.info("%s entry %d: %s is removed, not kept: it %s", entry.entity, entry.id, name, reason)
    if not found.keep:
        return Kept(names=returned, removed=found.removed)
    _must_be_its_own(site, target, entry)
    _listed(site).keep(site.name, _quarantined(site, target, entry))
    expected = identities(site.storage, target.location, found.keep)
    must_still_be_needed(target.location, view.directory, view.listing, site.storage.listing(target.location))
    quarantine_moves.make(site.storage, target.location, entry.id)
    _keep_late_manifest(site, target, entry)
    must_be_the_same_table(site, target)  # so all of these are its directories, and the quarantine is in it
    must_be_newest(site, polling=True)  # a pass may have been suspended since it looked
    still = partial(site.metastore.cleaning.must_be_ready, entry)
    quarantine_moves.take(site.storage, target.location, entry.id, found.keep, expected, still)
    return Kept(names=(*found.keep, *returned), removed=found.removed)


def _keep_late_manifest(site: Site, target: Target, entry: Entry) -> None:
    """Keeps the manifest of a compaction whose worker died as soon as it had committed."""
    storage, location = site.storage, target.location
    if entry.txn_id is None or _manifest(site, target, entry) is not None:
        return
    for child in storage.children(location):
        manifest = f"{location}/{child}/{stage.MANIFEST}"
        if parse_staging(child) == entry.txn_id and _is_of(read_manifest(storage, manifest), entry):
            quarantine_moves.keep_manifest(storage, manifest, location, entry.id)
            return


def _return(site: Site, target: Target, entry: Entry, obsolete: Collection[str]) -> tuple[str, ...]:
    """Moves what a restore that died had put back beside the output into the quarantine that it came from, so that the
    compaction can still be undone. Only the newest one can be."""
    storage, location = site.storage, target.location
    there = [
        found for child in storage.children(location) if (found := parse_quarantine(child)) and not found.is_erased
    ]
    newest = max((one.entry_id for one in there if one.entry_id != entry.id), default=None)
    record = None if newest is None else _recorded(site, location, newest)
    if newest is None or record is None or not any(storage.exists(f"{location}/{name}") for name in record.outputs):
        return ()  # undone to the end, or replaced
    inside = names_of(quarantine_moves.listing(storage, location, newest))
    names = [name for name in record.names if name in obsolete and name not in inside]
    expected = identities(storage, location, names)
    must_be_the_same_table(site, target)
    still = partial(site.metastore.cleaning.must_be_ready, entry)
    return quarantine_moves.take(storage, location, newest, names, expected, still)


def record_kept(site: Site, target: Target, entry: Entry, kept: Kept) -> None:
    """Writes the record of the entry's quarantine, if there is one, once the cleaning has left everything else as it is."""
    location = target.location
    if not keeps(target, entry) or not site.storage.exists(quarantine_moves.quarantine_path(location, entry.id)):
        return
    names = names_of(quarantine_moves.listing(site.storage, location, entry.id))
    record = _recorded(site, location, entry.id)
    if record is None or record.names != names:
        record = _record(site, target, entry, kept, record)
        quarantine_moves.write_record(site.storage, location, record)
    listed = replace(_quarantined(site, target, entry), names=names, bytes=sum(record.kept.values()))
    _listed(site).keep(site.name, replace(listed, since=record.since, until=record.until))


def _record(site: Site, target: Target, entry: Entry, kept: Kept, before: Record | None) -> Record:
    """Returns the record of what lies in the entry's quarantine now; ``before`` is an earlier one of the same entry."""
    content = quarantine_moves.listing(site.storage, target.location, entry.id)
    manifest = _manifest(site, target, entry)
    inputs, outputs = (None, ()) if before is None else (before.inputs, before.outputs)
    if manifest is not None:
        inputs, outputs = manifest.inputs, manifest.outputs
    table_id, partition_id, _ = target.place
    listed = _quarantined(site, target, entry)
    return Record(
        entry_id=entry.id,
        txn=entry.txn_id,
        table_id=table_id,
        partition_id=partition_id,
        columns=target.row_type,
        since=listed.since,
        until=listed.until,
        names=names_of(content),
        kept=content.lengths,
        stays=site.storage.listing(target.location).lengths,
        removed=kept.removed,
        inputs=inputs,
        outputs=outputs,
    )


def _recorded(site: Site, location: str, entry_id: int) -> Record | None:
    """Returns the record that an earlier pass wrote; None without one, or if it is unreadable: it is written again."""
    try:
        return quarantine_moves.read_record(site.storage, location, entry_id)
    except BadFile as error:
        log.warning("%s", error)
        return None


def _manifest(site: Site, target: Target, entry: Entry) -> Manifest | None:
    place = quarantine_moves.quarantine_path(target.location, entry.id)
    found = read_manifest(site.storage, f"{place}/{quarantine_moves.MANIFEST}")
    return found if _is_of(found, entry) else None


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
    """Refuses a quarantine of another compaction with the entry's id, as after a restore of the metastore."""
    before = _recorded(site, target.location, entry.id)
    if before is not None and (before.txn, before.table_id) != (entry.txn_id, target.table.id):
        raise Disagreement(
            f"{quarantine_moves.quarantine_path(target.location, entry.id)}: is the quarantine of compaction {entry.id} "
            f"with transaction {before.txn}, and this one's is {entry.txn_id}; the metastore was probably restored from a "
            "backup. Nothing was removed; move that directory out of the table; the next pass goes on"
        )


def _rebalanced(site: Site, entry: Entry) -> WriteId | None:
    """Returns the write ID of the last rebalance of the entry's table or partition that the metastore remembers."""
    entries, here = site.metastore.entries, entry.entity
    queued = entries.queue(database=here.database, table=here.table)
    found = [
        one.highest_write_id
        for one in (*queued, *entries.history(here))
        if one.entity == here and one.type is CompactionType.REBALANCE and one.highest_write_id is not None
    ]
    return max(found, default=None)


def _quarantined(site: Site, target: Target, entry: Entry) -> Quarantined:
    """Returns the row that lists the entry's quarantine from now on, without names."""
    now = site.metastore.now_ms()
    return Quarantined(
        entry_id=entry.id,
        entity=entry.entity,
        location=target.location,
        since=now,
        until=now + _duration_ms(target, entry),
    )


def _listed(site: Site) -> Quarantines:
    if site.state is None:
        raise DatabaseUnavailable(
            f"metastore {site.name}: quarantine is listed in our own state and none is configured; set state_url, or "
            f"{SETTING} to 0s"
        )
    return site.state.quarantines


def erase_due(site: Site) -> tuple[Quarantined, ...]:
    """Erases what is due, or beyond ``compactor.quarantine.bytes``, and returns it; what fails is logged and stays."""
    if site.state is None or not (listed := site.state.quarantines.all(site.name)):
        return ()
    waiting = {entry.id for entry in site.metastore.entries.queue(states=(State.READY_FOR_CLEANING,))}
    ended = [one for one in listed if one.entry_id not in waiting]
    erased: list[Quarantined] = []
    for one in due(ended, site.metastore.now_ms(), site.settings.integer("compactor.quarantine.bytes")):
        try:
            with failing_alone(one.entity):
                if _erase(site, one):
                    site.state.quarantines.forget(site.name, one.entry_id)
                    erased.append(one)
        except CompactorError as error:
            log.warning("%s: the quarantine of compaction %d stays: %s", one.entity, one.entry_id, error)
    return tuple(erased)


def _erase(site: Site, one: Quarantined) -> bool:
    """Erases one quarantine. Returns false if it has to stay, or may only be out of reach for now."""
    target = _target_now(site, one)
    settings = site.settings.of_database(one.entity.database) if target is None else target.settings
    if not may(settings, Mode.CLEAN):
        return False
    if target is not None and no_cleanup(
        target.table.parameters, target.partition.parameters if target.partition else {}
    ):
        return False
    places = dict.fromkeys([one.location, one.location if target is None else target.location])
    for location in places:
        names = site.storage.children(location)
        if any(parse_quarantine(child) in _forms(one) for child in names):
            if target is not None:  # another metastore's compaction may have the same number
                must_have_its_own_ground(site, target.table, target.partition)
                claims_of(site).must_be_free_above(target.table, location)
                claims_of(site).must_be_free_by_names(target.table, location, names)
            quarantine_moves.erase(site.storage, location, one.entry_id)
            log.info("%s: the quarantine of compaction %d is erased, %d bytes", one.entity, one.entry_id, one.bytes)
            return True
    return target is None or bool(site.storage.children(target.location))  # an empty one may be a mount that is away


def _forms(one: Quarantined) -> tuple[Quarantine, Quarantine]:
    return Quarantine(entry_id=one.entry_id), Quarantine(entry_id=one.entry_id, is_erased=True)


def _target_now(site: Site, one: Quarantined) -> Target | None:
    """Returns the table or partition by the name that it has now; None if it was dropped."""
    try:
        entity = site.metastore.entries.get(one.entry_id).entity  # Hive renames it there
    except NotFound:
        entity = one.entity
    try:
        return site.target(entity)
    except Refused:  # gone, or made again with other partitions
        return None
