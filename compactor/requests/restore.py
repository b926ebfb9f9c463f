"""Undoes a compaction at a person's request: its inputs come back from quarantine, its output goes there (PROTOCOL 11.15).

The output covers the inputs until it is taken away, the last step. So whatever dies before, readers see the output, and a
second call goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from compactor.acid import txn_states
from compactor.base.errors import CompactorError, LockNotGranted, NotFound, Refused
from compactor.base.ids import TxnId
from compactor.base.steps import CommandStep, reach
from compactor.compaction.entry import Entity
from compactor.compaction.quarantine_rules import Quarantined, Record
from compactor.compaction.restoring import Situation, Undo, undo
from compactor.initiator.initiator import look_again
from compactor.requests.overrides import remove_override
from compactor.requests.pause import pause
from compactor.rewrite.publish import quarantine_moves
from compactor.rewrite.publish.same_directory import identities
from compactor.site.exclusive import exclusively
from compactor.site.files_and_metastore import must_be_the_same_table
from compactor.site.mode import Mode, may
from compactor.site.named_tables import find_table
from compactor.site.quarantine import SETTING
from compactor.site.restored_database import must_be_newest
from compactor.site.site import PAUSED, Site, Target, claims_of, must_have_its_own_ground, own_state, paused_tables

log = logging.getLogger(__name__)
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The names that undoing one compaction moves or, once ``done``, has moved.

    What was taken away may be erased from ``until`` (epoch ms) on.
    """

    entity: Entity
    entry_id: int
    location: str
    undo: Undo
    until: int
    done: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "compactionid": self.entry_id,
            "location": self.location,
            "put_back": list(self.undo.back),
            "taken_away": list(self.undo.outputs),
            "bytes": self.undo.bytes,
            "until": self.until,
            "done": self.done,
        }


def preview_restore(site: Site, table: str, partition: str | None, entry_id: int) -> Restoration:
    """Returns what ``restore`` would move now; nothing is written.

    Raises:
        NotFound: no such table or partition, or nothing of that compaction is in quarantine there.
        Refused: it cannot be undone; the message says why.
    """
    target = _target(site, table, partition)
    return _planned(site, target, _record(site, target, entry_id))


def restore(site: Site, table: str, partition: str | None, entry_id: int, by: str) -> Restoration:
    """Puts a table or partition back as it was before the compaction ``entry_id``, and returns what was moved. Our initiator
    leaves the table alone from then on, until it is resumed.

    Raises:
        NotFound: no such table or partition, or nothing of that compaction is in quarantine there.
        Refused: it cannot be undone; the message says why, and nothing was changed for any reader.
        LockNotGranted: the table is in use, or a transaction without a lock may be reading it.
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2), or the table is another one by now.
        StorageError: a rename failed; readers see what they saw before, and a second call goes on.
    """
    must_be_newest(site)
    target = _target(site, table, partition)
    record = _record(site, target, entry_id)
    _planned(site, target, record)  # refused before anybody has to wait
    with _alone(site, target, entry_id) as txn:
        planned = _planned(site, target, record)
        moved = planned.undo
        expected = identities(site.storage, target.location, moved.outputs)
        must_be_the_same_table(site, target)
        _list(site, planned, record.names, sum(record.kept.values()))  # so that it is not due meanwhile
        with _paused(site, target, by), _covered(site, target, planned):
            still = partial(_must_be_held, site, target, entry_id, txn)
            quarantine_moves.put_back(site.storage, target.location, entry_id, moved.back, still)
            _let_the_others_end(site, target, entry_id, txn)
            must_be_the_same_table(site, target)
            last = _planned(site, target, record).undo  # from fresh listings: every input is in its place
            if last.back or last.outputs != moved.outputs:
                raise _refused(target, entry_id, "its files changed meanwhile")
            with site.metastore.transactions.holding(txn):
                quarantine_moves.take(site.storage, target.location, entry_id, moved.outputs, expected)
        reach(CommandStep.OUTPUT_TAKEN)
    look_again(site, target.table)
    log.warning("%s: compaction %d was undone by %s", target.entity, entry_id, by)
    size = sum(length for path, length in record.stays.items() if path.partition("/")[0] in record.outputs)
    _list(site, planned, record.outputs, size)
    return replace(planned, done=True)


def _target(site: Site, table: str, partition: str | None) -> Target:
    found = find_table(site.metastore.catalog, table)
    name = None if partition is None else site.metastore.catalog.resolve_partition(found, partition)
    target = site.target(Entity(database=found.database, table=found.name, partition=name))
    must_have_its_own_ground(site, target.table, target.partition)
    claims_of(site).must_be_free_above(target.table, target.location)
    claims_of(site).must_be_free_by_names(target.table, target.location, site.storage.children(target.location))
    if not may(target.settings, Mode.CLEAN):
        raise Refused(
            f"{target.entity}: compactor.mode is {target.settings.mode} ({target.settings.source('compactor.mode')}), and a "
            "compaction is undone only where our cleaner alone cleans; set clean, and switch Hive's own cleaner off"
        )
    return target


def _record(site: Site, target: Target, entry_id: int) -> Record:
    record = quarantine_moves.read_record(site.storage, target.location, entry_id)
    if record is not None:
        return record
    try:
        entry = site.metastore.entries.get(entry_id)
    except NotFound:
        known = "the metastore does not remember that compaction"
    else:
        known = f"it is a {entry.type.label.lower()} of {entry.entity}, {entry.state.label}"
    raise NotFound(
        f"{target.entity}: nothing of compaction {entry_id} is in quarantine there ({known}); `compactor show quarantine` "
        f"lists what is. Nothing is kept where {SETTING} was 0, for a rebalance, or after its time"
    )


def _planned(site: Site, target: Target, record: Record) -> Restoration:
    """Returns what is to be moved now.

    Raises:
        Refused: the compaction cannot be undone.
    """
    entity = target.entity
    for entry in site.metastore.entries.queue(database=entity.database, table=entity.table):
        if entry.entity.partition in (None, entity.partition):
            raise _refused(
                target, record.entry_id, f"compaction {entry.id} of it is {entry.state.label}; let it end first"
            )
    txns = site.metastore.transactions.snapshot()
    table_id, partition_id, location = target.place
    now = Situation(
        table_id=table_id,
        partition_id=partition_id,
        columns=target.row_type,
        here=site.storage.listing(location),
        kept=quarantine_moves.listing(site.storage, location, record.entry_id),
        write_ids=site.write_ids(target.table, txns),
        txns=txns,
    )
    try:
        found = undo(record, now)
    except Refused as error:
        raise _refused(target, record.entry_id, str(error)) from None
    until = max(record.until, site.metastore.now_ms() + target.settings.milliseconds(SETTING))
    return Restoration(entity=entity, entry_id=record.entry_id, location=location, undo=found, until=until)


def _refused(target: Target, entry_id: int, because: str) -> Refused:
    return Refused(f"{target.entity}: compaction {entry_id} cannot be undone, and nothing was changed: {because}")


@contextmanager
def _alone(site: Site, target: Target, entry_id: int) -> Iterator[TxnId]:
    """Holds the table or partition exclusively, tried for compactor.lock.wait and never queued for; yields the transaction
    of the lock."""
    with ExitStack() as held:
        for last in _tries(target):
            try:
                txn = held.enter_context(exclusively(site, target))
            except LockNotGranted:
                if last:
                    raise _in_use(target, entry_id, "it is being read or written (`compactor show locks`)") from None
            else:
                break
        yield txn


def _must_be_held(site: Site, target: Target, entry_id: int, txn: TxnId) -> None:
    """Checks that the transaction of the lock is open: without it, somebody may have removed what the inputs lie beside."""
    if site.metastore.transactions.state(txn) != txn_states.OPEN:
        raise _in_use(target, entry_id, f"transaction {txn}, which holds its lock, has timed out")


def _tries(target: Target) -> Iterator[bool]:
    """Yields at once and then again and again for compactor.lock.wait; true for the last time."""
    deadline = time.monotonic() + target.settings.milliseconds("compactor.lock.wait") / 1000
    while (now := time.monotonic()) < deadline:
        yield False
        time.sleep(min(_POLL_S, max(deadline - now, 0)))
    yield True


def _in_use(target: Target, entry_id: int, because: str) -> LockNotGranted:
    return LockNotGranted(
        f"{target.entity}: compaction {entry_id} cannot be undone now, and nothing was changed for any reader: {because}; "
        "try again"
    )


@contextmanager
def _paused(site: Site, target: Target, by: str) -> Iterator[None]:
    """Pauses the table, which our initiator would have compacted again by its next pass; not if the block fails."""
    database, name = target.entity.database, target.entity.table
    was = (database, name) in paused_tables(site)
    if not was:
        pause(site, f"{database}.{name}", by)
    try:
        yield
    except BaseException:
        if not was:
            with suppress(CompactorError):
                remove_override(site, f"{database}.{name}", PAUSED)
        raise


@contextmanager
def _covered(site: Site, target: Target, planned: Restoration) -> Iterator[None]:
    """Takes the inputs into quarantine again if the block fails. As long as the outputs are there, nobody reads them."""
    storage, location, moved = site.storage, target.location, planned.undo
    try:
        yield
    except BaseException:
        with suppress(CompactorError):
            if all(storage.exists(f"{location}/{output}") for output in moved.outputs):
                expected = identities(storage, location, moved.back)
                quarantine_moves.take(storage, location, planned.entry_id, moved.back, expected)
        raise


def _let_the_others_end(site: Site, target: Target, entry_id: int, own: TxnId) -> None:
    """Waits until every transaction without a lock has ended that was open when the inputs came back.

    It may have listed the directory before, and would miss both the inputs and the output. Whoever takes locks waits for
    ours, or came later.

    Raises:
        LockNotGranted: one is still open after compactor.lock.wait.
    """
    metastore = site.metastore
    before = frozenset(txn.id for txn in metastore.transactions.open_transactions()) - {own}
    for last in _tries(target):
        now = {txn.id for txn in metastore.transactions.open_transactions()}
        if not (before := metastore.locks.without(before & now)):
            return
        if last:
            raise _in_use(target, entry_id, f"transaction {min(before)} is open without a lock and may be reading it")


def _list(site: Site, planned: Restoration, names: tuple[str, ...], size: int) -> None:
    """Lists the quarantine with what is in it, and until when."""
    one = Quarantined(
        entry_id=planned.entry_id,
        entity=planned.entity,
        location=planned.location,
        since=site.metastore.now_ms(),
        until=planned.until,
        bytes=size,
        names=names,
    )
    own_state(site).quarantines.keep(site.name, one)
