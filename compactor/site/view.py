"""A target as a compaction sees it: one listing of its directory under one snapshot of the metastore."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.listing import Listing
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A target as a compaction sees it at one instant."""

    txns: ValidTxnList
    write_ids: ValidWriteIdList  #: the compactor's variant of the list
    listing: Listing
    directory: AcidDirectory


def compactor_view(site: Site, target: Target, own: TxnId | None = None, *, up_to: WriteId | None = None) -> View:
    """Returns the view of ``target`` that a compaction may read.

    Args:
        own: the compaction's transaction, whose directories are ignored.
        up_to: nothing above this write ID is read, even if it is committed.
    """
    return Look(site, own).view(target, own, up_to=up_to)


class Look:
    """One instant of the metastore, as the compactions of one or several targets see it.

    Args:
        own: the oldest of their transactions; later transactions are not seen.
        tables: tables whose write IDs are read at once; those of other tables are read when needed.
    """

    def __init__(self, site: Site, own: TxnId | None = None, tables: Iterable[Table] = ()) -> None:
        self.site = site
        self._txns = site.metastore.transactions.snapshot(own)
        names = {table.id: (table.database.lower(), table.name.lower()) for table in tables}
        lists = site.metastore.write_ids.valid_by_table(set(names.values()), self._txns)
        self._write_ids: dict[int, ValidWriteIdList] = {
            number: lists[name].for_compactor() for number, name in names.items()
        }

    def view(
        self, target: Target, own: TxnId | None, *, up_to: WriteId | None = None, listing: Listing | None = None
    ) -> View:
        """Returns the view of one target; see ``compactor_view``.

        Args:
            listing: a listing from after this look, if there is one.
        """
        table, txns = target.table, self._txns
        write_ids = self._write_ids.get(table.id)
        if write_ids is None:
            write_ids = self._write_ids[table.id] = self.site.write_ids(table, txns).for_compactor()
        if up_to is not None and up_to < write_ids.high_watermark:
            aborted = frozenset(w for w in write_ids.aborted if w <= up_to)
            write_ids = replace(write_ids, high_watermark=up_to, aborted=aborted)
        if listing is None:
            listing = self.site.storage.listing(target.location)
        exempt = frozenset() if own is None else frozenset({own})
        directory = acid_directory(listing, write_ids, txns, exempt=exempt)
        return View(txns=txns, write_ids=write_ids, listing=listing, directory=directory)
