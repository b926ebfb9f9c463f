"""Accepts the metastore's database as it is, at a person's request, although the marks show more.

See PROTOCOL 11.2.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from compactor.acid import txn_states
from compactor.base.errors import NotFound, Refused, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.base.printable import first_few
from compactor.compaction.mark_comparison import Doubt, Present, Remembered, build_remembered
from compactor.initiator.initiator import look_again
from compactor.requests.advance import measure_gap
from compactor.site.mark_files import MarkFiles
from compactor.site.mode import must_write
from compactor.site.proof_of_removal import RemovalProof
from compactor.site.restored_database import compare_marks, restore_claim_token
from compactor.site.site import Site

log = logging.getLogger(__name__)
_FEW = 5  #: directories that a message lists


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWrite:
    """A write ID of a transaction that has not committed.

    ``found`` is the directory that may hold the write, or the reason why storage could not be searched. ``state`` is
    ``open`` or ``aborted``, ``table`` is ``database.table``; ``started`` is in epoch ms.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BothSides:
    """The database, the remembered marks, and the doubt.

    ``unreadable`` says why the files of marks cannot be read.

    ``written`` are the writes of open and aborted transactions that are on disk: some of them may have committed.
    ``agreed`` is the path of the record of an agreement; None if nothing was changed.
    """

    place: str
    database: Present
    remembered: tuple[Remembered, ...]
    doubt: Doubt | None
    unreadable: str | None = None
    written: tuple[OpenWrite, ...] = ()
    agreed: str | None = None

    @property
    def is_doubtful(self) -> bool:
        return self.doubt is not None or self.unreadable is not None

    def to_json(self) -> dict[str, Any]:
        marks = self.database.marks
        return {
            "memory": self.place,
            "database": {
                "newest_transaction": self.database.newest,
                "open_transactions": marks.unfinished,
                "next_lock": marks.next_lock,
                "next_compaction": marks.next_compaction,
                "now": self.database.now_ms,
            },
            "remembered": [file.to_json() for file in self.remembered],
            "doubt": None if self.doubt is None else self.doubt.to_json(),
            "unreadable": self.unreadable,
            "open_writes": [write.to_json() for write in self.written],
            "agreed": self.agreed,
        }


def both_sides(site: Site) -> BothSides:
    """Returns the database and its remembered marks; changes nothing.

    Raises:
        Refused: no memory is configured.
    """
    memory = _memory(site)
    try:
        remembered, now, doubt = compare_marks(site, memory)
    except StorageError as error:
        now = site.metastore.marks.present(site.name)
        sides = BothSides(place=memory.place, database=now, remembered=(), doubt=None, unreadable=str(error))
    else:
        sides = BothSides(place=memory.place, database=now, remembered=remembered, doubt=doubt)
    return replace(sides, written=open_writes(site)) if sides.is_doubtful else sides


def open_writes(site: Site) -> tuple[OpenWrite, ...]:
    """Returns the writes of open and aborted transactions that are on disk, by transaction.

    After a restore of the database, some of them may have committed, or may be mixed with the writes of another transaction
    that had the same write ID.
    """
    return tuple(sorted(_find_writes(site), key=lambda write: (write.txn, write.table)))


def _find_writes(site: Site) -> Iterator[OpenWrite]:
    unfinished = {txn.id: txn for txn in site.metastore.transactions.unfinished()}
    written: dict[tuple[str, str], dict[WriteId, TxnId]] = defaultdict(dict)
    for number, database, name, write_id in site.metastore.write_ids.allocated_to_all(unfinished):
        written[database, name][write_id] = number
    proof = RemovalProof(site)
    for key, write_ids in written.items():
        try:
            table = site.metastore.catalog.table(*key)
        except NotFound:  # dropped while it was written to
            continue
        for write_id, place in proof.of_table(table, write_ids).items():
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


def agree(site: Site, by: str) -> BothSides:
    """Accepts the database as it is: from now on only its own marks count.

    Changes nothing if there is no doubt.

    The earlier marks, the user and the time are first written to a separate file, which is never removed.

    Raises:
        Refused: no memory is configured, the mode is observe, or some directories have numbers that the database never
            allocated.
        StorageError: the memory cannot be listed or written.
    """
    must_write(site.settings, f"metastore {site.name}")
    memory, sides = _memory(site), both_sides(site)
    if not sides.is_doubtful:
        return sides
    _must_be_decided(site)
    above = memory.largest_number()
    path = memory.add_agreement(above, uuid.uuid4().hex, {"by": by, "at": sides.database.now_ms, **sides.to_json()})
    restore_claim_token(site)
    claims = site.metastore.claim_token.get_or_create()
    token, now = site.metastore.marks.replace_tokens(site.name, uuid.uuid4().hex, above=above)
    memory.add(build_remembered(None, token, now.marks, claims))
    look_again(site)
    log.warning(
        "metastore %s: %s accepted its database as it is; what was remembered until now is in %s", site.name, by, path
    )
    return BothSides(place=memory.place, database=now, remembered=memory.newest(), doubt=None, agreed=path)


def _must_be_decided(site: Site) -> None:
    """Checks that the database has allocated the numbers of all directories (PROTOCOL 11.2).

    Once the database allocates such a number to somebody else, nothing shows any longer that the directory is in doubt. Its
    rows would be read or removed with those of another transaction.

    Raises:
        Refused: a directory has a number that was never allocated.
    """
    gap = measure_gap(site)
    names = [f"{table}: {directory.path}" for table, directories in gap.tables_in_doubt for directory in directories]
    if names:
        raise Refused(
            f"metastore {site.name}: its database never gave the numbers of {len(names)} directories "
            f"({first_few(names, _FEW, '; ')}), and will give them to other transactions; decide about them with "
            "`compactor metastore advance` first"
        )


def _memory(site: Site) -> MarkFiles:
    if site.memory is None:
        raise Refused(
            f"metastore {site.name}: nothing is remembered of it outside of its database, so there is nothing to agree to; "
            "set compactor.memory, or warehouse"
        )
    return site.memory
