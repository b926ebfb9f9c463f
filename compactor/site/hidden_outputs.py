"""Checks that no row is lost if the outputs of a failed compaction are hidden (PROTOCOL 11.5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from compactor.acid.directory import acid_directory
from compactor.acid.listing import Listing
from compactor.base.errors import Disagreement
from compactor.base.ids import WriteId
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.files_and_metastore import visibility_transactions
from compactor.site.site import Site, Target

if TYPE_CHECKING:
    from compactor.rewrite.publish.hiding_proof import Evidence


def must_lose_nothing(site: Site, target: Target, names: Collection[str]) -> None:
    """Checks that no row is lost with ``names``, outputs in ``target`` of compactions that did not commit.

    Raises:
        Disagreement: the remaining files do not prove it.
    """
    if not names:
        return
    listing = site.storage.listing(target.location)
    snapshot = site.metastore.transactions.snapshot()
    seen = acid_directory(listing, site.write_ids(target.table, snapshot), snapshot)
    base = seen.base if seen.base is not None and seen.base.directory not in names else None
    uncounted = {*names, *seen.aborted, *seen.unseen}
    evidence = _read_evidence(site, target, listing, uncounted, None if base is None else base.base.write_id)
    rows = site.metastore.transactions.rows(set(visibility_transactions(names).values()))
    types = {txn: row.type for txn, row in rows.items()}
    for name, txn in sorted(visibility_transactions(names).items()):
        evidence.must_cover(name, txn, rebalances=types.get(txn) is TxnType.REBALANCE_COMPACTION)


def files_prove(site: Site, target: Target, names: Collection[str]) -> bool:
    """Returns true if the files alone prove, without the metastore, that no row is lost with ``names``.

    The transaction of these outputs must still have its locks, so that nobody can have deleted rows by their ROW__IDs.
    """
    listing = site.storage.listing(target.location)
    unsure = visibility_transactions(listing.directories)
    evidence = _read_evidence(site, target, listing, {*names, *unsure}, None)
    try:
        for name, txn in sorted(visibility_transactions(names).items()):
            evidence.must_cover(name, txn)
    except Disagreement:
        return False
    return True


def _read_evidence(
    site: Site, target: Target, listing: Listing, uncounted: Collection[str], base: WriteId | None
) -> Evidence:
    # Every pass looks for unfinished compactions, and few find any: only a proof needs the libraries that read ORC.
    from compactor.rewrite.publish.hiding_proof import Evidence

    return Evidence(site.storage, target.location, listing, uncounted=uncounted, base=base)
