"""``compactor.naming.delay``: only rows that every open transaction sees are compacted, so that no query older than a
compaction meets write IDs that are too new for it (PROTOCOL 5).

A reader without visibility looks at a directory as soon as that has its name. Instead of holding back a finished output,
with a transaction that would hold back every cleaner, the compaction chooses its input so that nobody has to wait: deltas
that an open transaction does not see stay as they are, and every later transaction sees all that was read.
"""

from __future__ import annotations

from compactor.base.errors import LockNotGranted
from compactor.base.ids import TxnId
from compactor.compaction.decision import NothingToDo, enough
from compactor.compaction.states import CompactionType
from compactor.site.site import Look, Target, View


def delayed_view(look: Look, target: Target, txn: TxnId | None, type: CompactionType) -> View:
    """Returns the view of ``target`` for a compaction of ``type``: that of ``Look.view``, less everything that some
    open transaction does not see yet.

    Raises:
        LockNotGranted: some open transaction does not see the input yet; the next pass tries again.
    """
    metastore = look.site.metastore
    limit = metastore.write_ids.seen_by_all(target.table.database, target.table.name)
    view = look.view(target, txn)
    if limit >= view.write_ids.high_watermark or isinstance(enough(view.directory, type), NothingToDo):
        return view
    base = view.directory.base
    if base is None or base.base.write_id <= limit:
        older = look.view(target, txn, up_to=limit)
        if not isinstance(enough(older.directory, type), NothingToDo):
            return older
    raise LockNotGranted(
        f"{target.entity}: open transactions do not see all of its deltas yet (write IDs above {limit}), and "
        "compactor.naming.delay is set; the next pass tries again"
    )
