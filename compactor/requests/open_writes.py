"""The writes of open and aborted transactions that are on disk: in a database that was put back, some of them may have
committed, or be mixed with those of another transaction that had the same write ID."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.base.errors import NotFound
from compactor.base.ids import TxnId, WriteId
from compactor.site.proof_of_removal import Absence
from compactor.site.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWrite:
    """A write ID of a transaction that has not committed, and the directory that may hold it, or the reason why it cannot
    be looked for.

    ``state`` is ``open`` or ``aborted``, ``table`` is ``database.table``; ``started`` is in epoch ms.
    """

    txn: TxnId
    state: str
    user: str
    started: int
    table: str
    write_id: WriteId
    found: str

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def open_writes(site: Site) -> tuple[OpenWrite, ...]:
    """Returns the writes of open and aborted transactions that are on disk, in the order of the transactions."""
    return tuple(sorted(_found(site), key=lambda write: (write.txn, write.table)))


def _found(site: Site) -> Iterator[OpenWrite]:
    unfinished = {txn.id: txn for txn in site.metastore.transactions.unfinished()}
    written: dict[tuple[str, str], dict[WriteId, TxnId]] = defaultdict(dict)
    for number, database, name, write_id in site.metastore.write_ids.allocated_to_all(unfinished):
        written[database, name][write_id] = number
    absence = Absence(site)
    for key, write_ids in written.items():
        try:
            table = site.metastore.catalog.table(*key)
        except NotFound:  # dropped while it was written to
            continue
        for write_id, place in absence.of_table(table, write_ids).items():
            txn = unfinished[write_ids[write_id]]
            yield OpenWrite(
                txn=txn.id,
                state=txn_states.NAMES[txn.state],
                user=txn.user,
                started=txn.started,
                table=str(table),
                write_id=write_id,
                found=place,
            )
