"""Finds, hides and removes leftovers of compactions: staged, named and half-removed directories.

Only TXNS decides whether a compaction is unfinished (PROTOCOL 5, 6): directories of committed, open or forgotten
transactions stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from compactor.acid import txn_states
from compactor.acid.listing import Listing
from compactor.acid.names import parse_directory, parse_hidden, parse_staging
from compactor.base.errors import CompactorError, Disagreement, LockNotGranted, Refused, failing_alone
from compactor.base.ids import TxnId
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.publish import naming, removal, stage
from compactor.site.exclusive import renames, while_removing
from compactor.site.files_and_metastore import AllocatedIds, visibility_transactions
from compactor.site.hidden_outputs import files_prove, must_lose_nothing
from compactor.site.site import Site, Target, claims_of, must_lie_alone, must_lie_in_no_other
from compactor.site.threads import SideBySide
from compactor.site.view import View

log = logging.getLogger(__name__)


def hider(site: Site, target: Target | None, *, is_alone: bool = False) -> Callable[[TxnId, TxnId], None]:
    """Returns a callback that hides a compaction's named directories before its abort releases its locks.

    The arguments of the callback are the compaction's transaction and the newest one. While the locks are held, no reader
    without visibility reads half of a pair, and no writer uses the ROW__IDs of a rebalance that is about to be hidden.
    ``clear_aborted`` hides the directories later if storage fails, or if the store has no rename and the transaction does
    not hold the table exclusively (``is_alone``).
    """

    def hide(txn: TxnId, newest: TxnId) -> None:
        if target is None or not can_hide_early(site, target, is_alone=is_alone):
            return
        try:
            with failing_alone(target.entity):
                _hide_names_of(site, target, txn, newest)
        except CompactorError as error:
            log.warning("%s: directories that transaction %d named are not hidden yet: %s", target.entity, txn, error)

    return hide


def can_hide_early(site: Site, target: Target, *, is_alone: bool = False) -> bool:
    """Returns true if names contain their transaction, and no reader can see a half-hidden output."""
    return site.metastore.dialect.layout.has_visibility and (is_alone or renames(site, target))


def _hide_names_of(site: Site, target: Target, txn: TxnId, newest: TxnId) -> None:
    """Hides the named output of an open transaction if its files prove that no row is lost."""
    names = naming.names_of(site.storage, target.location, txn)
    if names:
        must_lie_alone(site, target)
    if names and not files_prove(site, target, names):
        log.warning("%s: directories that transaction %d named are not hidden yet: inputs are gone", target.entity, txn)
        return
    removal.hide(site.storage, target.location, names, until=newest)


def clear_aborted(site: Site, target: Target, txn: TxnId) -> None:
    """Hides the directories that an aborted compaction named and removes its staging directory.

    Only TXNS decides that it aborted: directories of a committed, open or forgotten transaction stay. Nothing is touched
    unless ``target`` lies alone: the number of the transaction may be another metastore's.

    Raises:
        LockNotGranted: there are named directories, the store has no rename, and the table is in use.
        Refused: another table lies there.
        Disagreement: another table claims the directory, or a named directory may be the only copy of some rows
            (PROTOCOL 11.5).
    """
    location = target.location
    state = site.metastore.transactions.state(txn)
    if state == txn_states.OPEN:
        return
    # Without visibility in names, a number in a name comes from another metastore.
    names_tell = site.metastore.dialect.layout.has_visibility
    named = naming.names_of(site.storage, location, txn) if names_tell and state == txn_states.ABORTED else ()
    has_uploads = names_tell and site.storage.deferring(location) is not None
    if named or has_uploads or any(parse_staging(child) == txn for child in site.storage.children(location)):
        must_lie_alone(site, target)
    if named:
        _hide(site, target, named)
    removal.remove_staging(site.storage, location, txn)
    if names_tell:
        removal.abort_uploads(site.storage, location, lambda other: other == txn)


def clear_staged(site: Site, target: Target, plan: Plan) -> None:
    """Removes what a worker has staged itself and not named.

    A directory with the number of its transaction may be another metastore's, so only the one with its token is removed
    (PROTOCOL 11.3, 11.13). Uploads have no token; they stay unless ``target`` lies alone.
    """
    site.storage.remove(plan.staging)
    if site.storage.deferring(plan.location) is None:
        return
    try:
        must_lie_alone(site, target)
    except (Refused, Disagreement) as error:
        log.warning("%s: uploads of transaction %d are not aborted: %s", target.entity, plan.txn, error)
    else:
        stage.forget_uploads(site.storage, plan)


def _hide(site: Site, target: Target, names: Sequence[str]) -> None:
    must_lose_nothing(site, target, names)
    with while_removing(site, target):
        removal.hide(site.storage, target.location, names, until=site.metastore.transactions.newest())


def clear_leftovers(site: Site, target: Target) -> tuple[str, ...]:
    """Hides named directories of aborted compactions in ``target``, and removes superfluous leftovers.

    Raises:
        LockNotGranted: there are such directories, the store has no rename, and the table is in use.
        Disagreement: this metastore cannot have allocated a number in a name, or a directory may be the only copy of some
            rows.
    """
    return LeftoverScan(site, [target]).clear(target)


class LeftoverScan:
    """Clears the leftovers of several targets, with one query for all their transactions.

    Storage is read before TXNS, so a transaction without a row in TXNS was not opened in the meantime.

    Args:
        own: the transaction that was just opened for a compaction, by location.
        threads: threads that list the targets; None lists one after the other.
        keeps_listings: lists everything below each target, so that ``listing`` need not list most of them again.
    """

    def __init__(
        self,
        site: Site,
        targets: Iterable[Target],
        own: Mapping[str, TxnId] | None = None,
        threads: SideBySide | None = None,
        *,
        keeps_listings: bool = False,
    ) -> None:
        self._site = site
        self._own = own or {}
        self._keeps_listings = keeps_listings
        self._listings: dict[str, Listing] = {}
        self._children: dict[str, tuple[str, ...]] = {}
        self._errors: dict[str, CompactorError] = {}
        scanned = list(targets)
        (threads or SideBySide(1, "leftovers")).map(self._list, scanned)
        self._named = {place: visibility_transactions(children) for place, children in self._children.items()}
        everything = [child for children in self._children.values() for child in children]
        self._owners = {owner for child in everything if (owner := parse_staging(child))}
        self._allocated = AllocatedIds(site, (target.table for target in scanned), everything, self._owners)

    def _list(self, target: Target) -> None:
        try:
            with failing_alone(target.entity):
                if self._keeps_listings:
                    listing = self._listings[target.location] = self._site.storage.listing(target.location)
                    self._children[target.location] = listing.names
                else:
                    self._children[target.location] = self._site.storage.children(target.location)
        except CompactorError as error:
            self._errors[target.location] = error

    def listing(self, target: Target) -> Listing:
        """Returns the listing of a target without the leftovers that ``clear`` took away.

        Lists it again only if something was taken away.
        """
        kept = self._listings.get(target.location)
        return self._site.storage.listing(target.location) if kept is None else kept

    def unremoved(self, target: Target, swept: Collection[str]) -> tuple[str, ...]:
        """Returns the staged and hidden directories that remain after the removal of those in ``swept``."""
        children = self._children[target.location]
        return tuple(
            child for child in children if child not in swept and (parse_hidden(child) or parse_staging(child))
        )

    def clear(self, target: Target) -> tuple[str, ...]:
        """Clears the leftovers of one target; see ``clear_leftovers``.

        Raises:
            Refused: there are leftovers, and another table lies there.
            LockNotGranted, Disagreement, StorageError: as for ``clear_leftovers``; or another table claims the directory.
        """
        place = target.location
        if place in self._errors:
            raise self._errors[place]
        claims_of(self._site).must_be_free_by_names(target.table, place, self._children[place])
        self._allocated.must_explain(target, self._children[place], self._own.get(place))
        rows = self._allocated.rows
        names_tell = self._site.metastore.dialect.layout.has_visibility
        named = self._named[place].items() if names_tell else ()
        doomed = [name for name, txn in named if (row := rows.get(txn)) is not None and row.state == txn_states.ABORTED]
        has_uploads = names_tell and self._site.storage.deferring(place) is not None
        is_littered = any(parse_staging(child) or parse_hidden(child) for child in self._children[place])
        if doomed or has_uploads or is_littered:
            must_lie_in_no_other(self._site, target, place)
        if has_uploads:
            removal.abort_uploads(self._site.storage, place, self._has_ended)
        if doomed or is_littered:
            self._listings.pop(place, None)
        if doomed:
            _hide(self._site, target, doomed)
        if not is_littered:
            return ()
        return removal.remove_leftovers(
            self._site.storage,
            place,
            is_alive=self._may_be_open,
            lowest_open=self._site.lowest_open(),
        )

    def _may_be_open(self, txn: TxnId) -> bool:
        """Returns true for a transaction that is open or unknown.

        The staging directory of an unknown transaction is newer than the listing, so the transaction may be open.
        """
        row = self._allocated.rows.get(txn)
        return txn not in self._owners or (row is not None and row.is_open)

    def _has_ended(self, txn: TxnId) -> bool:
        """Returns true if ``txn`` has ended. Its uploads begin only after it was opened."""
        return self._site.metastore.transactions.state(txn) != txn_states.OPEN


def not_for_hive_3(site: Site, listing: Listing) -> str | None:
    """Returns a listed name on which Hive 3.1 fails, in a metastore of Hive 3.1; None without one."""
    if site.metastore.dialect.layout.has_visibility:
        return None
    return next(iter(visibility_transactions(listing.names)), None)


def refuse_beside_unfinished(site: Site, target: Target, view: View) -> None:
    """Refuses to plan while a directory of an unfinished compaction has its final name.

    Two directories of one range return every row twice in Trino, and in Hive once both transactions count as valid. Hive 3.1
    does not put transactions into names, and fails on a directory whose name has one.

    Raises:
        LockNotGranted: its transaction is still open; the next pass tries again.
        Refused: its transaction was never opened in this metastore, or names there may not contain one.
    """
    if (name := not_for_hive_3(site, view.listing)) is not None:
        raise Refused(
            f"{target.entity}: {name} contains a transaction, and Hive 3.1 fails on such a name; find out who wrote it and "
            "move it away"
        )
    for name in view.directory.unseen:
        acid = parse_directory(name)
        txn = acid.visibility_txn_id if acid is not None else TxnId(0)
        if site.metastore.transactions.state(txn) == txn_states.OPEN:
            raise LockNotGranted(
                f"{target.entity}: {name} is being written by transaction {txn}; the next pass tries again"
            )
        raise Refused(
            f"{target.entity}: {name} belongs to transaction {txn}, which this metastore has not opened (the newest is "
            f"{site.metastore.transactions.newest()}); find out where it comes from and move it away"
        )
