"""What dead workers left half done, made good before anything new begins (PROTOCOL 6).

Order: abort the transaction, hide what bears its number, remove its staging directory, and only then queue the request
again. Where we end it ourselves, the hiding comes first, in the same database transaction, before its locks are gone.
Every pass of every acting role repairs first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compactor.acid.names import parse_directory, parse_hidden, parse_staging, staging_name
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.errors import BadFile, BadName, CompactorError, LockNotGranted, NotFound, Refused, StorageError, TryAgain
from compactor.ids import TxnId
from compactor.metastore.queue.endings import is_being_aborted
from compactor.rewrite.publish import naming, removal
from compactor.service.exclusive import renames, to_take_away
from compactor.service.mode import Mode, may
from compactor.service.site import Site, Target, View
from compactor.steps import Step, reach

log = logging.getLogger(__name__)
PREFIX = "compactor-"  #: worker ids of ours; rows of Hive's own workers are Hive's to revoke


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """One request that a lost worker held; ``because`` says how we know, ``result`` the state that its row is in now."""

    entry: Entry
    because: str
    result: State


def repair(site: Site) -> tuple[Repaired, ...]:
    """Takes back every request whose worker of ours is lost. Requests of living workers stay untouched.

    In the modes observe and request nothing happens (``lost`` tells). A request that cannot be taken back, since
    storage fails, stays as it is for the next pass, so that nobody works beside what its worker left.
    """
    if not may(site.settings, Mode.COMPACT):
        return ()
    timeouts = (site.settings.milliseconds("hive.txn.timeout"), site.settings.milliseconds("hive.repl.txn.timeout"))
    working = [e for e in site.metastore.entries.working() if (e.worker_id or "").startswith(PREFIX)]
    if working:
        deadline = site.metastore.now_ms() - timeouts[0]
        silent = {t.id for t in site.metastore.transactions.open_transactions() if t.last_heartbeat < deadline}
        for entry in working:
            if entry.txn_id in silent:
                _hide_before_its_locks_go(site, entry, entry.txn_id, timeouts[0])
    site.metastore.transactions.time_out(timeouts[0], repl_timeout_ms=timeouts[1])
    done: list[Repaired] = []
    for entry in working:
        because = _lost(site, entry)
        if because is None:
            continue
        log.warning("%s entry %d: worker %s is lost: %s", entry.entity, entry.id, entry.worker_id, because)
        try:
            done.append(take_back(site, entry, because))
        except (StorageError, LockNotGranted) as error:
            log.warning("%s entry %d: what its lost worker left stays for now: %s", entry.entity, entry.id, error)
    return tuple(done)


def _hide_before_its_locks_go(site: Site, entry: Entry, txn: TxnId, timeout_ms: int) -> None:
    """Times the transaction of a lost worker out, and hides first what it has named.

    Where the store has no rename, or somebody else was faster, ``take_back`` does it.
    """
    target = target_of(site, entry)
    if target is None or not _vanishes(site, target):
        return
    try:
        with site.metastore.transactions.timing_out(txn, timeout_ms) as newest:
            if newest is not None:
                _hide_named(site, target, txn, newest)
    except (StorageError, TryAgain) as error:
        log.warning("%s entry %d: what its lost worker named is not hidden yet: %s", entry.entity, entry.id, error)


def hiding(site: Site, target: Target | None, *, is_alone: bool = False) -> Callable[[TxnId, TxnId], None]:
    """What hides the names that a compaction's transaction has given in ``target``, before whoever aborts it takes its
    locks away: it gets that transaction and the newest one.

    As long as its locks are there, nobody without visibility reads half of a pair, and nobody writes by the ROW__IDs of a
    rebalance that is going to be hidden. ``erase`` does it afterwards where storage fails, or where it has no rename and
    the transaction does not hold the table alone (``is_alone``).
    """

    def hide(txn: TxnId, newest: TxnId) -> None:
        if target is None or not _vanishes(site, target, is_alone=is_alone):
            return
        try:
            _hide_named(site, target, txn, newest)
        except StorageError as error:
            log.warning("%s: what transaction %d named is not hidden yet: %s", target.entity, txn, error)

    return hide


def give_up(site: Site, entry: Entry, txn: TxnId, because: str) -> bool:
    """Aborts the transaction of an entry that its worker is not to go on with; False where it had ended already."""
    hide = hiding(site, target_of(site, entry))
    return site.metastore.transactions.abort(txn, because, lambda newest: hide(txn, newest))


def target_of(site: Site, entry: Entry) -> Target | None:
    """Where ``entry`` is compacted; None where that is gone, or cannot be understood."""
    try:
        return site.target(entry.entity)
    except (NotFound, BadFile):
        return None


def _vanishes(site: Site, target: Target, *, is_alone: bool = False) -> bool:
    """Whether names there tell their transaction, and nobody sees half of what is being hidden."""
    return site.metastore.dialect.layout.has_visibility and (is_alone or renames(site, target))


def _hide_named(site: Site, target: Target, txn: TxnId, newest: TxnId) -> None:
    removal.hide(site.storage, target.location, naming.names_of(site.storage, target.location, txn), until=newest)


def lost(site: Site) -> tuple[tuple[Entry, str], ...]:
    """The same requests, only told: for modes that may not act."""
    entries = [e for e in site.metastore.entries.working() if (e.worker_id or "").startswith(PREFIX)]
    return tuple((entry, because) for entry in entries if (because := _lost(site, entry)) is not None)


def _lost(site: Site, entry: Entry) -> str | None:
    """Why the worker of ``entry`` is lost, None while it may live."""
    transactions = site.metastore.transactions
    if entry.txn_id is not None:
        state = transactions.state(entry.txn_id)
        if state == "o":
            return None
        if state == "c":
            return None  # a contradiction that only a person can solve; doctor names it
        if state == "a":
            return f"its transaction {entry.txn_id} is aborted"
    mine = [t for t in transactions.open_transactions() if t.agent == entry.worker_id]
    if mine:
        return None
    age = site.metastore.now_ms() - (entry.start or 0)
    timeout = site.settings.milliseconds("hive.txn.timeout")
    if age > timeout:
        return f"it has no open transaction, {age} ms after its start (hive.txn.timeout is {timeout} ms)"
    return None


def take_back(site: Site, entry: Entry, because: str) -> Repaired:
    """Takes one entry back from its worker; ``because`` is for who asks.

    Raises:
        StorageError: what the worker left cannot be taken away; the row stays as it is for the next pass.
    """
    aborted = is_being_aborted(entry)
    if entry.txn_id is not None:
        give_up(site, entry, entry.txn_id, "compaction worker lost")
    reach(Step.REPAIR_ABORTED)
    try:
        target = site.target(entry.entity)
        if entry.txn_id is not None:
            erase(site, target, entry.txn_id)
        sweep(site, target)
    except (NotFound, BadFile) as error:
        site.metastore.endings.finish(entry, State.REFUSED, str(error))
        return Repaired(entry=entry, because=because, result=State.ABORTED if aborted else State.REFUSED)
    reach(Step.REPAIR_HIDDEN)
    site.metastore.endings.requeue(entry.id, entry.worker_id or "")
    return Repaired(entry=entry, because=because, result=State.ABORTED if aborted else State.INITIATED)


def erase(site: Site, target: Target, txn: TxnId) -> None:
    """Hides what an aborted compaction named and removes what it staged.

    Only TXNS says that it aborted: what a committed, an open or a forgotten transaction named is left as it is.

    Raises:
        LockNotGranted: something is named where the store has no rename, and the table is in use.
    """
    location = target.location
    state = site.metastore.transactions.state(txn)
    if state == "o":
        return
    names_tell = site.metastore.dialect.layout.has_visibility  # else a number in a name is not of this metastore
    if names_tell and state == "a" and (named := naming.names_of(site.storage, location, txn)):
        _hide(site, target, named)
    site.storage.remove(f"{location}/{staging_name(txn)}")
    if names_tell:
        removal.abort_uploads(site.storage, location, lambda other: other == txn)


def _hide(site: Site, target: Target, names: Sequence[str]) -> None:
    with to_take_away(site, target):
        removal.hide(site.storage, target.location, names, until=site.metastore.transactions.newest())


def sweep(site: Site, target: Target) -> tuple[str, ...]:
    """Hides named directories of aborted compactions in ``target`` and removes what nobody can need any more.

    Raises:
        LockNotGranted: there are such directories, the store has no rename, and the table is in use.
    """
    return Sweep(site, [target]).of(target)


class Sweep:
    """``sweep`` of several targets, whose transactions are asked for together.

    Storage is looked at before TXNS: what has no row there then was not opened since.
    """

    def __init__(self, site: Site, targets: Iterable[Target]) -> None:
        self._site = site
        self._children: dict[str, tuple[str, ...]] = {}
        self._errors: dict[str, CompactorError] = {}
        for target in targets:
            try:
                self._children[target.location] = site.storage.children(target.location)
            except CompactorError as error:
                self._errors[target.location] = error
        self._named = {place: _with_visibility(children) for place, children in self._children.items()}
        owners = {owner for children in self._children.values() for c in children if (owner := parse_staging(c))}
        txns = owners.union(*(named.values() for named in self._named.values()))
        self._states = site.metastore.transactions.states(sorted(txns)) if txns else {}

    def of(self, target: Target) -> tuple[str, ...]:
        """See ``sweep``."""
        place = target.location
        if place in self._errors:
            raise self._errors[place]
        doomed: list[str] = []
        if self._site.metastore.dialect.layout.has_visibility:
            removal.abort_uploads(self._site.storage, place, self._is_gone)
            doomed = [name for name, txn in self._named[place].items() if self._states.get(txn) == "a"]
        if doomed:
            _hide(self._site, target, doomed)
        if not any(parse_staging(child) or parse_hidden(child) for child in self._children[place]):
            return ()
        return removal.remove_leftovers(
            self._site.storage,
            place,
            is_alive=lambda txn: self._states.get(txn) == "o",
            lowest_open=lowest_open(self._site),
        )

    def _is_gone(self, txn: TxnId) -> bool:
        """Asked after an upload of this transaction was seen, so that it is open by then if it ever was."""
        return self._site.metastore.transactions.state(txn) != "o"


def lowest_open(site: Site) -> TxnId:
    """The cleaner's gate: what every transaction below has ended (PROTOCOL 7.1)."""
    return site.metastore.transactions.lowest_open(site.settings.milliseconds("hive.txn.opentxn.timeout"))


def not_for_hive_3(site: Site, target: Target) -> str | None:
    """A name that Hive 3.1, whose metastore this is, fails on; None where there is none, or where Hive 4 reads."""
    if site.metastore.dialect.layout.has_visibility:
        return None
    return next(iter(_with_visibility(site.storage.children(target.location))), None)


def _with_visibility(children: Iterable[str]) -> dict[str, TxnId]:
    found: dict[str, TxnId] = {}
    for child in children:
        try:
            acid = parse_directory(child)
        except BadName:
            continue  # the planner refuses it by name
        if acid is not None and acid.visibility_txn_id:
            found[child] = acid.visibility_txn_id
    return found


def no_strangers(site: Site, target: Target, view: View) -> None:
    """Refuses to plan beside a named directory of an unfinished compaction: two directories of one range return every
    row twice in Trino, and in Hive as soon as both transactions count as valid.

    Hive 3.1 names no transaction and fails on a directory that does: it can only be there by mistake.

    Raises:
        LockNotGranted: its transaction is still open; the next pass looks again.
        Refused: its transaction was never opened in this metastore, or no name may have one there.
    """
    if (name := not_for_hive_3(site, target)) is not None:
        raise Refused(
            f"{target.entity}: {name} bears a transaction, and Hive 3.1 fails on such a name; find out who wrote it and "
            "move it away"
        )
    for name in view.directory.unseen:
        acid = parse_directory(name)
        txn = acid.visibility_txn_id if acid is not None else TxnId(0)
        if site.metastore.transactions.state(txn) == "o":
            raise LockNotGranted(
                f"{target.entity}: {name} is being written by transaction {txn}; the next pass looks again"
            )
        raise Refused(
            f"{target.entity}: {name} bears transaction {txn}, which this metastore has not opened (the newest is "
            f"{site.metastore.transactions.newest()}); find out where it comes from and move it away"
        )
