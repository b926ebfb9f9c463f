"""Checks that the files of a table agree with its metastore (PROTOCOL 11.3, 11.8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from compactor.acid.names import known_directory
from compactor.base.errors import CompactorError, Disagreement, NotFound
from compactor.base.ids import TxnId
from compactor.compaction.disagreement import DirectoryDoubt, Numbers, find_doubts, must_agree
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnRow
from compactor.site.site import Site, Target


class AllocatedIds:
    """The numbers that the metastore has allocated, read together after directories were listed.

    Args:
        names: the names of all these directories.
        txns: more transactions whose rows are read.
    """

    def __init__(self, site: Site, tables: Iterable[Table], names: Iterable[str], txns: Collection[TxnId] = ()) -> None:
        metastore = site.metastore
        self._has_visibility = metastore.dialect.layout.has_visibility
        self.rows: Mapping[TxnId, TxnRow] = metastore.transactions.rows(
            {*txns, *visibility_transactions(names).values()}
        )
        self._newest = metastore.transactions.newest()
        by_id = {table.id: (table.database.lower(), table.name.lower()) for table in tables}
        following = metastore.write_ids.next_by_table(set(by_id.values()))
        self._next = {number: following[name] for number, name in by_id.items()}

    def must_explain(self, target: Target, names: Iterable[str], own: TxnId | None = None) -> None:
        """Checks that the metastore can have allocated every number in ``names``, directories of ``target``.

        Args:
            own: a transaction that was just opened, and has not named anything yet.

        Raises:
            Disagreement: the metastore cannot have allocated a number.
        """
        must_agree(target.location, names, self._numbers(target, own))

    def find_doubts(self, target: Target, names: Iterable[str]) -> tuple[DirectoryDoubt, ...]:
        """Returns every doubt about ``names``, directories of ``target``."""
        return tuple(find_doubts(names, self._numbers(target, None)))

    def _numbers(self, target: Target, own: TxnId | None) -> Numbers:
        return Numbers(
            newest=self._newest,
            next_write_id=self._next[target.table.id],
            compactions={txn: row.type.compacts for txn, row in self.rows.items()},
            own=own,
            has_visibility=self._has_visibility,
        )


def must_be_the_same_table(site: Site, target: Target) -> None:
    """Checks that the metastore still has ``target``'s table and partition, by their ids, at its location.

    Raises:
        NotFound: they were dropped.
        Disagreement: another table has the name now, or the table has moved.
    """
    place, expected = site.metastore.catalog.place(target.entity), target.stored_place
    if place is None:
        raise NotFound(f"{target.entity} is no longer in the metastore; nothing was removed")
    if place != expected:
        raise Disagreement(
            f"{target.entity}: was dropped, renamed or moved meanwhile, and another table or place has its name (table, "
            f"partition and location were {expected} and are {place}); nothing was removed, the next pass looks again"
        )


def no_longer_there(site: Site, targets: Collection[Target]) -> dict[tuple[int, int | None, str], CompactorError]:
    """Returns the error of ``must_be_the_same_table`` for each changed target, by its ``place``."""
    tables = {target.table.id for target in targets if target.partition is None}
    partitions = {target.partition.id for target in targets if target.partition is not None}
    places = site.metastore.catalog.places_by_id(tables, partitions)
    errors: dict[tuple[int, int | None, str], CompactorError] = {}
    for target in targets:
        table_id, partition_id, location = target.stored_place
        if places.get((table_id, partition_id)) != (target.entity, location):
            try:
                must_be_the_same_table(site, target)
            except CompactorError as error:
                errors[target.place] = error
    return errors


def visibility_transactions(names: Iterable[str]) -> dict[str, TxnId]:
    """Returns the visibility transaction of each name with one, such as 7 for ``base_0000005_v0000007``."""
    transactions: dict[str, TxnId] = {}
    for name in names:
        acid = known_directory(name)
        if acid is not None and acid.visibility_txn_id:
            transactions[name] = acid.visibility_txn_id
    return transactions
