"""A compaction and a cleaning as the roles do them, and readers that do not honour visibility."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import update

from compactor.acid.directory import acid_directory
from compactor.acid.names import parse_hidden
from compactor.acid.write_ids import ValidTxnList
from compactor.base.ids import NOTHING_OPEN, TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.fresh_look import look_at_changed
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner, Runner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Outcome
from compactor.worker.under_way import Options
from compactor.worker.worker import work_together
from demo.snapshot_reader import read_snapshot
from tests.support.patience import until
from tests.support.tables import entity_of


def compact(
    site: Site, kind: str = "major", *, table: str = "default.t", runner: Runner | None = None, full: bool = False
) -> Outcome:
    """Requests one compaction and works on it; returns its result."""
    request_compaction(site, table=table, type=kind)
    done = run_entries(site, list_claimable_ids(site), runner or InProcessRunner(), Options(full_verify=full))
    (outcome,) = done.outcomes
    return outcome


def work(site: Site, entry_id: int, runner: Runner, options: Options) -> Outcome | None:
    """Works on one entry; returns its outcome, None if it could not be claimed."""
    outcomes: list[Outcome] = []
    work_together(site, [entry_id], runner, options, outcomes.append)
    return outcomes[0] if outcomes else None


def clean_all(site: Site) -> None:
    """Cleans, and looks again, until no entry waits; a commit is settled only after hive.txn.opentxn.timeout."""

    def is_done() -> bool:
        look_at_changed(site.for_a_pass(), clean(site).changed)
        return not site.metastore.entries.queue()

    until("nothing waits for the cleaner", is_done)


#: One pass of each role.
ROLES: tuple[Callable[[Site], Any], ...] = (
    initiate,
    lambda site: run_entries(site, list_claimable_ids(site), InProcessRunner()),
    clean,
    keep_house,
)


def every_role(site: Site) -> None:
    """Runs every role three times, as a site's schedule does."""
    for _ in range(3):
        for role in ROLES:
            role(site)


def settle() -> None:
    """Lets the 1 ms pass that these tests set as hive.txn.opentxn.timeout: everything that has ended is settled then."""
    time.sleep(0.01)


def age(site: Site) -> None:
    """Lets hive.txn.timeout pass for the workers of compactions, and for nobody else."""
    with site.metastore.database.write() as conn:
        compactions = TXNS.c.TXN_TYPE == TxnType.COMPACTION
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o", compactions).values(TXN_LAST_HEARTBEAT=0))
        conn.execute(update(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_STATE == "w").values(CQ_START=0))


def lose_cleaners(site: Site) -> None:
    """Lets hive.txn.timeout pass for cleaners that died or are suspended, in place of waiting for it."""
    for entry in site.metastore.entries.queue(states=(State.READY_FOR_CLEANING,)):
        site.metastore.cleaning.release([entry])


def time_out_all(site: Site) -> None:
    """Lets hive.txn.timeout pass for everybody, then runs the housekeeper."""
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
    keep_house(site)


def rows_without_visibility(site: Site, table: Table) -> list[tuple[Any, ...]]:
    """Returns what Trino shows: a directory counts as soon as it exists; write IDs are judged as by every reader."""
    target = site.target(entity_of(table))
    write_ids = site.write_ids(table, site.metastore.transactions.snapshot())
    everything = ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
    directory = acid_directory(LocalStorage().listing(target.location), write_ids, everything)
    batches = read_snapshot(target.location, directory, write_ids, target.row_type)
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


class Renames(LocalStorage):
    """Calls ``seen`` after each rename with its source and target."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        super().rename(source, target, durable=durable)
        self._seen(source, target)

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        for old in super().rename_each(path, names):
            self._seen(f"{path}/{old}", f"{path}/{names[old]}")
            yield old


class Hides(Renames):
    """Remembers the former name of each hidden directory, and who held locks at that moment."""

    def __init__(self, site: Site) -> None:
        self.seen: list[tuple[str, list[TxnId | None]]] = []

        def look(source: str, target: str) -> None:
            if parse_hidden(os.path.basename(target)):
                self.seen.append((os.path.basename(source), [lock.txn for lock in site.metastore.locks.show()]))

        super().__init__(look)


def with_storage(site: Site, storage: LocalStorage) -> Site:
    return replace(site, storage=storage)
