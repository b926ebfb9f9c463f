"""Decides when an aborted transaction may be forgotten: after a grace time without files of it.

See PROTOCOL 8.

Once forgotten, an aborted write ID counts as committed: the ``base_N`` of an aborted TRUNCATE would empty its table
[seen].
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence

from compactor.acid.names import Base, Delta, known_directory
from compactor.acid.tree import Tree, final_name
from compactor.base.ids import TxnId, WriteId
from compactor.settings.precedence import Settings


def write_ids_below(tree: Tree, write_ids: Collection[WriteId]) -> dict[WriteId, str]:
    """Maps each of ``write_ids`` that a directory in ``tree`` may hold, hidden or not, to its path.

    A dynamic-partition INSERT that died before its partitions were registered left its deltas in directories that belong
    to no partition yet. Once another INSERT registers them, a forgotten write ID would be visible for ever (PROTOCOL
    11.11).
    """
    ordered = sorted(write_ids)
    paths: dict[WriteId, str] = {}
    for path in tree.directories:
        paths.update(dict.fromkeys(_written_by(final_name(path), ordered), path))
    return paths


def _written_by(name: str, ordered: Sequence[WriteId]) -> Sequence[WriteId]:
    """Returns the write IDs that the directory ``name`` may hold.

    A compaction's output (``_v``) spans aborted write IDs without holding their rows.
    """
    match known_directory(name):
        case Base(write_id=number, visibility_txn_id=0):
            low = high = number
        case Delta(min_write_id=low, max_write_id=high, visibility_txn_id=0):
            pass
        case _:
            return ()
    return ordered[bisect_left(ordered, low) : bisect_right(ordered, high)]


def find_reaching_directory(names: Iterable[str], write_id: WriteId, upto: WriteId | None = None) -> str | None:
    """Returns a directory that already reaches a write ID which was allocated just now; None without one.

    A base or delta that holds the write ID, or a compaction's output that hides it: no compaction reaches an open write
    ID (PROTOCOL 1.2). Deltas of larger write IDs are other writers'.

    Args:
        names: those of the directories of a location.
        upto: the last of several write IDs that were allocated together; ``write_id`` is the first.
    """
    last = write_id if upto is None else upto
    for name in names:
        match known_directory(name):
            case Base(write_id=number, visibility_txn_id=txn) if number >= write_id and (number <= last or txn):
                return name
            case Delta(min_write_id=low, max_write_id=high, visibility_txn_id=txn) if high >= write_id and (
                low <= last or txn
            ):
                return name
    return None


def filter_holding(names: Iterable[str], write_ids: Collection[WriteId]) -> frozenset[str]:
    """Returns the names that may hold one of ``write_ids``."""
    ordered = sorted(write_ids)
    return frozenset(name for name in names if _written_by(name, ordered))


def filter_past_grace(seen: Mapping[TxnId, int], now_ms: int, settings: Settings) -> frozenset[TxnId]:
    """Returns the aborted transactions first seen so long ago that their files may be removed.

    TXNS has no time of abort. A zombie task of the transaction may write for a while after it, and a restored metastore may
    call an INSERT aborted that had committed (``compactor.forget.grace``).
    """
    latest = now_ms - settings.milliseconds("compactor.forget.grace")
    return frozenset(txn for txn, at in seen.items() if at <= latest)
