"""Numbers in directory names that the metastore cannot have allocated (PROTOCOL 11.3).

They appear after a metastore was restored from a backup, after a standby without the last seconds was promoted, and where
files were copied from elsewhere. Such a directory may be the only copy of rows that the metastore knows nothing about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compactor.acid.names import Base, parse_directory
from compactor.errors import BadName, Disagreement
from compactor.ids import ORIGINALS_ONLY, TxnId, WriteId


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers that the metastore has allocated, read after the directory was listed.

    ``next_write_id`` is the table's NEXT_WRITE_ID. ``compactions`` maps each transaction with a row in TXNS to true if it is
    a compaction. ``own`` is a transaction that was opened just now, and so has named nothing. ``has_visibility`` is false on
    Hive 3.1, where a number in a name is not this metastore's; other rules refuse such a name.
    """

    newest: TxnId
    next_write_id: WriteId
    compactions: Mapping[TxnId, bool] = field(default_factory=dict)
    own: TxnId | None = None
    has_visibility: bool = True


def must_agree(location: str, names: Iterable[str], numbers: Numbers) -> None:
    """Checks that the metastore can have allocated every number in ``names``, directories of ``location``.

    Names that are not those of a base or delta are ignored.

    Raises:
        Disagreement: a name has a number that the metastore cannot have allocated.
    """
    for name in sorted(names):
        try:
            acid = parse_directory(name)
        except BadName:
            continue
        if acid is None:
            continue
        highest = acid.write_id if isinstance(acid, Base) else acid.max_write_id
        if highest != ORIGINALS_ONLY and highest >= numbers.next_write_id:
            raise _doubt(
                f"{location}/{name}: write ID {highest} was never allocated (the table's next one is "
                f"{numbers.next_write_id})"
            )
        if not numbers.has_visibility or not acid.visibility_txn_id:
            continue
        if because := _not_a_compaction(acid.visibility_txn_id, numbers):
            raise _doubt(f"{location}/{name}: transaction {acid.visibility_txn_id} {because}")


def _not_a_compaction(txn: TxnId, numbers: Numbers) -> str | None:
    """Returns the reason why ``_v<txn>`` cannot name a compaction of this metastore; None if it can."""
    if txn > numbers.newest:
        return f"was never opened (the newest is {numbers.newest})"
    if txn == numbers.own:
        return "was opened just now, for the compaction that found this name"
    if numbers.compactions.get(txn) is False:
        return "is not a compaction"
    return None


def _doubt(found: str) -> Disagreement:
    return Disagreement(
        f"{found}; either the metastore is older than the files (restored from a backup, or a standby without its last "
        "commits) or they were copied from elsewhere. Nothing was changed; stop Hive's own compactor and cleaner until "
        "both agree: put the right database back, or let MSCK REPAIR TABLE take copied files in"
    )
