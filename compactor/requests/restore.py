"""Undoes a compaction at a person's request (PROTOCOL 11.15).

The inputs come back from quarantine, then the output goes there. The output covers the inputs until that last step. So after
a crash, readers see the output, and a second call continues.
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
from compactor.compaction.quarantine_rules import Quarantined, Record
from compactor.compaction.queue_entry import Entity
from compactor.compaction.restoring import Situation, UndoPlan, plan_undo
from compactor.initiator.initiator import look_again
from compactor.requests.overrides import remove_override
from compactor.requests.pause import pause
from compactor.rewrite.publish import quarantine_moves
from compactor.rewrite.publish.removal import identities
from compactor.site.exclusive import exclusively
from compactor.site.files_and_metastore import must_be_the_same_table
from compactor.site.mode import Mode, may
from compactor.site.named_tables import find_table
from compactor.site.quarantine import SETTING
from compactor.site.restored_database import must_be_newest
from compactor.site.site import (
    PAUSED,
    Site,
    Target,
    must_lie_alone,
    own_state,
    paused_tables,
)

log = logging.getLogger(__name__)
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The names that undoing one compaction moves or, once ``done``, has moved.

    The output may be erased from ``until`` (epoch ms) on.
    """

    entity: Entity
    entry_id: int
    location: str
    undo: UndoPlan
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
    return _plan(site, target, _record(site, target, entry_id))


def restore(site: Site, table: str, partition: str | None, entry_id: int, by: str) -> Restoration:
    """Undoes the compaction ``entry_id``, and returns the names that were moved.

    The table is paused for our initiator until a person resumes it.

    Raises:
        NotFound: no such table or partition, or nothing of that compaction is in quarantine there.
        Refused: it cannot be undone; the message says why, and nothing was changed for any reader.
        LockNotGranted: the table is in use, or a transaction without a lock may be reading it.
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2), or the table was replaced.
        StorageError: a rename failed; readers see what they saw before, and a second call continues.
    """
    must_be_newest(site)
    target = _target(site, table, partition)
    record = _record(site, target, entry_id)
    _plan(site, target, record)  # refused before anybody has to wait
    with _hold_exclusively(site, target, entry_id) as txn:
        plan = _plan(site, target, record)
        names = plan.undo
        expected = identities(site.storage, target.location, names.outputs)
        must_be_the_same_table(site, target)
        _list(site, plan, record.names, sum(record.kept.values()))  # so that it is not due meanwhile
        with _pause_meanwhile(site, target, by), _keep_covered(site, target, plan):
            check_held = partial(_check_held, site, target, entry_id, txn)
            quarantine_moves.put_back(site.storage, target.location, entry_id, names.back, check_held)
            _let_the_others_end(site, target, entry_id, txn)
            must_be_the_same_table(site, target)
            final_names = _plan(site, target, record).undo  # from fresh listings: every input is in its place
            if final_names.back or final_names.outputs != names.outputs:
                raise _refusal(target, entry_id, "its files changed meanwhile")
            with site.metastore.transactions.holding(txn):
                quarantine_moves.take(site.storage, target.location, entry_id, names.outputs, expected)
        reach(CommandStep.OUTPUT_TAKEN)
    look_again(site, target.table)
    log.warning("%s: compaction %d was undone by %s", target.entity, entry_id, by)
    size = sum(length for path, length in record.stays.items() if path.partition("/")[0] in record.outputs)
    _list(site, plan, record.outputs, size)
    own_state(site).removals.note_undone(site.name, entry_id, target.entity)
    return replace(plan, done=True)


def _target(site: Site, table: str, partition: str | None) -> Target:
    stored = find_table(site.metastore.catalog, table)
    name = None if partition is None else site.metastore.catalog.resolve_partition(stored, partition)
    target = site.target(Entity(database=stored.database, table=stored.name, partition=name))
    must_lie_alone(site, target)
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


def _plan(site: Site, target: Target, record: Record) -> Restoration:
    """Returns the names to move now.

    Raises:
        Refused: the compaction cannot be undone.
    """
    entity = target.entity
    for entry in site.metastore.entries.queue(database=entity.database, table=entity.table):
        if entry.entity.partition in (None, entity.partition) and entry.left_to is None:
            raise _refusal(
                target, record.entry_id, f"compaction {entry.id} of it is {entry.state.label}; let it end first"
            )
    txns = site.metastore.transactions.snapshot()
    table_id, partition_id, location = target.place
    situation = Situation(
        table_id=table_id,
        partition_id=partition_id,
        columns=target.row_type,
        here=site.storage.listing(location),
        kept=quarantine_moves.listing(site.storage, location, record.entry_id),
        write_ids=site.write_ids(target.table, txns),
        txns=txns,
    )
    try:
        names = plan_undo(record, situation)
    except Refused as error:
        raise _refusal(target, record.entry_id, str(error)) from None
    until = max(record.until, site.metastore.now_ms() + target.settings.milliseconds(SETTING))
    return Restoration(entity=entity, entry_id=record.entry_id, location=location, undo=names, until=until)


def _refusal(target: Target, entry_id: int, because: str) -> Refused:
    return Refused(f"{target.entity}: compaction {entry_id} cannot be undone, and nothing was changed: {because}")


@contextmanager
def _hold_exclusively(site: Site, target: Target, entry_id: int) -> Iterator[TxnId]:
    """Holds the table or partition exclusively, and yields the transaction of the lock.

    The lock is tried for ``compactor.lock.wait``, and never queued for.
    """
    with ExitStack() as stack:
        for last in _tries(target):
            try:
                txn = stack.enter_context(exclusively(site, target))
            except LockNotGranted:
                if last:
                    raise _in_use(target, entry_id, "it is being read or written (`compactor show locks`)") from None
            else:
                break
        yield txn


def _check_held(site: Site, target: Target, entry_id: int, txn: TxnId) -> None:
    """Checks that the transaction of the lock is open.

    Otherwise somebody may have changed the directory meanwhile.
    """
    if site.metastore.transactions.state(txn) != txn_states.OPEN:
        raise _in_use(target, entry_id, f"transaction {txn}, which holds its lock, has timed out")


def _tries(target: Target) -> Iterator[bool]:
    """Yields false repeatedly during ``compactor.lock.wait``, then true for the last try."""
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
def _pause_meanwhile(site: Site, target: Target, by: str) -> Iterator[None]:
    """Pauses the table, since our next pass would compact it again; ends the pause if the block fails."""
    database, name = target.entity.database, target.entity.table
    was_paused = (database, name) in paused_tables(site)
    if not was_paused:
        pause(site, f"{database}.{name}", by)
    try:
        yield
    except BaseException:
        if not was_paused:
            with suppress(CompactorError):
                remove_override(site, f"{database}.{name}", PAUSED)
        raise


@contextmanager
def _keep_covered(site: Site, target: Target, plan: Restoration) -> Iterator[None]:
    """Moves the inputs back into quarantine if the block fails and the outputs still cover them."""
    storage, location, names = site.storage, target.location, plan.undo
    try:
        yield
    except BaseException:
        with suppress(CompactorError):
            if all(storage.exists(f"{location}/{output}") for output in names.outputs):
                expected = identities(storage, location, names.back)
                quarantine_moves.take(storage, location, plan.entry_id, names.back, expected)
        raise


def _let_the_others_end(site: Site, target: Target, entry_id: int, own: TxnId) -> None:
    """Waits for the end of every transaction without a lock that was open when the inputs came back.

    Such a transaction may have listed the directory before that, and would miss both the inputs and the output. A
    transaction with locks waits for our lock, or came later.

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


def _list(site: Site, plan: Restoration, names: tuple[str, ...], size: int) -> None:
    """Records the quarantine in our state, with its names and the end of its time."""
    quarantined = Quarantined(
        entry_id=plan.entry_id,
        entity=plan.entity,
        location=plan.location,
        since=site.metastore.now_ms(),
        until=plan.until,
        bytes=size,
        names=names,
    )
    own_state(site).quarantines.keep(site.name, quarantined)
