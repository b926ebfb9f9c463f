"""Prepares the view of a rebalance: checks that the table allows it, and allocates its write ID.

See PROTOCOL 1.6.
"""

from __future__ import annotations

from compactor.acid.bucket import MAX_BUCKET
from compactor.base.errors import LockNotGranted, Refused
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.order_by import OrderBy, check_columns, parse_order_by
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, Target
from compactor.site.view import View, compactor_view


def must_be_possible(table: Table, *, buckets: int | None, order_by: str | None) -> tuple[OrderBy, ...]:
    """Checks that the table can be rebalanced, and returns the columns to sort by.

    Raises:
        Refused: the table is insert-only, so its rows have no ROW__IDs to change, or bucketed (Hive's Worker: "Cannot
            execute rebalancing compaction on bucketed tables"), or the number of files or the order is invalid.
    """
    if table.is_insert_only:
        raise Refused(f"{table}: rows of insert-only tables have no ROW__ID and stay in their files; ask for major")
    if table.buckets > 0 or table.bucket_columns:
        raise Refused(
            f"{table}: is bucketed (CLUSTERED BY {', '.join(table.bucket_columns) or '?'} INTO {table.buckets} BUCKETS); "
            "rows belong to the file of their bucket, so it cannot be rebalanced; ask for major"
        )
    if buckets is not None and not 1 <= buckets <= MAX_BUCKET + 1:
        raise Refused(f"{table}: {buckets} buckets; a rebalance makes 1 to {MAX_BUCKET + 1} files")
    order = parse_order_by(order_by) if order_by else ()
    types = {column.name.lower(): column.type for column in table.columns}
    check_columns(str(table), order, types, {key.name.lower() for key in table.partition_keys})
    return order


def allocate_write_id(site: Site, target: Target, txn: TxnId) -> tuple[View, WriteId]:
    """Allocates the rebalance's own write ID, and returns it with the view up to it.

    ``txn`` holds EXCL_WRITE. That lock does not stop inserts where ``hive.txn.xlock.write`` is on, nor writers of other
    partitions. Rows under a smaller write ID that is still open would be lost under a base with a larger number.

    Raises:
        LockNotGranted: a smaller write ID is open; the next pass tries again.
    """
    table = target.table
    _check_none_open(
        target, site.write_ids(table, site.metastore.transactions.snapshot(txn)).open
    )  # before allocating one
    own = site.metastore.write_ids.allocate(txn, table.database, table.name)
    site.metastore.write_ids.add_component(txn, target.entity, "u", own)
    # Every smaller write ID belongs to a transaction from before this snapshot; later ones get a larger write ID.
    _check_none_open(
        target, {w for w in site.write_ids(table, site.metastore.transactions.snapshot(txn)).open if w < own}
    )
    # An insert may have committed under a larger write ID meanwhile; its rows stay where they are, above the base.
    view = compactor_view(site, target, txn, up_to=own)
    if view.write_ids.high_watermark < own - 1:
        raise AssertionError(f"{target.entity}: no write ID below {own} is open, yet the list ends before it")
    return view, own


def _check_none_open(target: Target, open_ids: frozenset[WriteId] | set[WriteId]) -> None:
    if open_ids:
        raise LockNotGranted(
            f"{target.entity}: write ID {min(open_ids)} of the table is open, and a rebalance needs all write IDs "
            "below its own to have ended; the next pass tries again"
        )
