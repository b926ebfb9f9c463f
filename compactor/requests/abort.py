"""Aborts a compaction or a transaction at a person's request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from compactor.base.errors import NotFound, Refused, StorageError
from compactor.base.identities import is_compactor
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.metastore.queue.worker_claims import must_be_taken_here
from compactor.site import leftovers, lost_workers
from compactor.site.mode import Mode, may, must_write
from compactor.site.restored_database import must_be_newest, must_not_be_older
from compactor.site.site import Site

log = logging.getLogger(__name__)
_Id = TypeVar("_Id", bound=int)
_Done = TypeVar("_Done")


def abort_compaction(site: Site, entry_id: int) -> Entry:
    """Aborts a compaction and returns its entry, which may still be working while leftovers remain.

    The compaction can no longer commit once this returns. A commit that is in progress wins, and is reported as refused.

    Raises:
        NotFound: there is no such entry in the queue.
        Refused: its result is committed, Hive has it, or the mode is observe.
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
    """
    must_be_newest(site)
    metastore = site.metastore
    entry = metastore.entries.get(entry_id)
    must_be_taken_here(entry)
    settings = site.settings_of(entry.entity)
    must_write(settings, str(entry.entity))
    tidies = may(settings, Mode.COMPACT)
    if tidies and entry.state is State.WORKING and not is_compactor(entry.worker_id):
        entry = _from_lost_worker_of_hive(site, entry)
        if entry.end is not None:
            return entry
    if entry.state is not State.WORKING:
        metastore.claims.abort_request(entry_id)
        return metastore.entries.get(entry_id)
    hide = leftovers.hider(site, lost_workers.target_of(site, entry)) if tidies else None
    if metastore.claims.abort_running(entry_id, hide) is State.WORKING and tidies:
        try:
            lost_workers.take_back(site, metastore.entries.get(entry_id), "it was aborted by a person")
        except StorageError as error:
            log.warning("%s entry %d: the leftovers of its worker stay for now: %s", entry.entity, entry_id, error)
    return metastore.entries.get(entry_id)


def _from_lost_worker_of_hive(site: Site, entry: Entry) -> Entry:
    """Returns the current entry, which is taken back if its worker is a lost worker of Hive."""
    because = lost_workers.evidence_of_loss(site, entry)
    if because is None:
        return entry
    lost_workers.take_back(site, entry, because)
    return site.metastore.entries.get(entry.id)


def abort_transactions(site: Site, txns: Iterable[TxnId], because: str) -> tuple[list[TxnId], list[NotFound | Refused]]:
    """Aborts open transactions. Returns the aborted ones, and the errors of the others."""

    def abort(txn: TxnId) -> TxnId:
        abort_transaction(site, txn, because)
        return txn

    return _each(abort, txns)


def abort_compactions(site: Site, entry_ids: Iterable[int]) -> tuple[list[Entry], list[NotFound | Refused]]:
    """Aborts compactions, see ``abort_compaction``.

    Returns the aborted entries, and the errors of the others.
    """
    return _each(lambda entry_id: abort_compaction(site, entry_id), entry_ids)


def must_all_be_aborted(failed: Sequence[NotFound | Refused], aborted: Sequence[object] = ()) -> None:
    """Raises one error for all failed aborts. The message also lists the successful ones, if given.

    Raises:
        NotFound: none of the failed ones exists.
        Refused: at least one of them exists.
    """
    if failed:
        kind = NotFound if all(isinstance(error, NotFound) for error in failed) else Refused
        others = f"; aborted are {', '.join(map(str, aborted))}" if aborted else ""
        raise kind("; ".join(dict.fromkeys(map(str, failed))) + others)


def _each(act: Callable[[_Id], _Done], ids: Iterable[_Id]) -> tuple[list[_Done], list[NotFound | Refused]]:
    done: list[_Done] = []
    failed: list[NotFound | Refused] = []
    for number in dict.fromkeys(ids):
        try:
            done.append(act(number))
        except (NotFound, Refused) as error:
            failed.append(error)
    return done, failed


def abort_transaction(site: Site, txn: TxnId, because: str) -> None:
    """Aborts an open transaction; its data is never visible, and the cleaner removes it.

    Raises:
        NotFound: there is no such transaction.
        Refused: it has ended already, or the mode is observe.
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
    """
    must_write(site.settings, f"metastore {site.name}")
    must_not_be_older(site)
    if site.metastore.transactions.abort(txn, because):
        return
    state = site.metastore.transactions.state(txn)
    if state is None:
        raise NotFound(f"transaction {txn} is not in TXNS; look at `compactor show transactions`")
    raise Refused(f"transaction {txn} is {'aborted already' if state == 'a' else 'committed'}")
