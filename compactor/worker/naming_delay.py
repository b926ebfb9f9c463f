"""``compactor.naming.delay``: compacts only rows that every open transaction sees (PROTOCOL 5).

A reader without visibility reads a directory as soon as it has its name. With this setting, a query that is older than a
compaction meets no write ID that is too new for it. The compaction does not hold back finished output, because its open
transaction would hold back every cleaner. Instead it leaves out deltas that an open transaction does not see. Every later
transaction sees all of the input.
"""

from __future__ import annotations

from functools import partial

from compactor.acid.listing import Listing
from compactor.base.errors import LockNotGranted
from compactor.base.ids import TxnId
from compactor.compaction.decision import NothingToDo, check_enough
from compactor.compaction.states import CompactionType
from compactor.site.site import Target
from compactor.site.view import Look, View


def delayed_view(
    look: Look, target: Target, txn: TxnId | None, type: CompactionType, listing: Listing | None = None
) -> View:
    """Returns the view for a compaction without rows that some open transaction does not see.

    Raises:
        LockNotGranted: some open transaction does not see the input yet; the next pass tries again.
    """
    metastore = look.site.metastore
    limit = metastore.write_ids.seen_by_all(target.table.database, target.table.name)
    view = look.view(target, txn, listing=listing)
    check = partial(check_enough, type=type, is_insert_only=target.table.is_insert_only)
    if limit >= view.write_ids.high_watermark or isinstance(check(view.directory), NothingToDo):
        return view
    base = view.directory.base
    if base is None or base.base.write_id <= limit:
        older = look.view(target, txn, up_to=limit, listing=view.listing)
        if not isinstance(check(older.directory), NothingToDo):
            return older
    raise LockNotGranted(
        f"{target.entity}: open transactions do not see all of its deltas yet (write IDs above {limit}), and "
        "compactor.naming.delay is set; the next pass tries again"
    )
