"""The worker: entries of the queue are claimed, and go through the steps of a compaction in groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.base.steps import Step, reach
from compactor.compaction.entry import Entity
from compactor.compaction.states import CompactionType, State
from compactor.rewrite.run.runner import Runner
from compactor.site.mode import Mode, may
from compactor.site.restored_database import must_be_newest
from compactor.site.site import VERSION, Site
from compactor.worker.ending import end
from compactor.worker.group import Group
from compactor.worker.group_run import GroupRun
from compactor.worker.outcome import Outcome
from compactor.worker.phases import Claimed
from compactor.worker.worker_options import Options

log = logging.getLogger(__name__)


def work(site: Site, entry_id: int, runner: Runner, options: Options) -> Outcome | None:
    """Claims one entry and brings it as far as it goes. Returns None if the entry is no longer there to be claimed, or if
    the mode leaves it to Hive's workers.

    Every error of the tree ends in the state of the row and in the outcome; nothing is left behind in storage.
    """
    outcomes: list[Outcome] = []
    work_together(site, [entry_id], runner, options, outcomes.append)
    return outcomes[0] if outcomes else None


def work_together(
    site: Site, ids: Sequence[int], runner: Runner, options: Options, report: Callable[[Outcome], object]
) -> tuple[int, ...]:
    """Claims entries and brings each as far as it goes; ``report`` is called with each outcome at once.

    Returns:
        the ids of those that were put back, since they are too large to go with others: work on each alone.
    """
    waiting = site.metastore.entries.queue(states=(State.INITIATED,), ids=ids)
    modes = {table: is_ours(site, table) for table in {_table(entry.entity) for entry in waiting}}
    ours = [entry for entry in waiting if modes[_table(entry.entity)]]
    alone = [entry for entry in ours if entry.type is CompactionType.REBALANCE]
    together = [entry for entry in ours if entry.type is not CompactionType.REBALANCE]
    left: list[int] = []
    for entries in (together, *([entry] for entry in alone)):
        if entries:
            claimed = _claim(site, [entry.id for entry in entries])
            group = Group(claimed, report)
            left += GroupRun(site=site, group=group, runner=runner, options=options).run(claimed)
    return tuple(left)


def end_waiting(site: Site, entry_id: int, error: CompactorError) -> None:
    """Ends an entry that waits, by an error that was met before any worker had it; nothing is done if it waits no longer."""
    must_be_newest(site)
    for one in _claim(site, [entry_id]):
        end(one, error)


def is_ours(site: Site, entity: Entity) -> bool:
    """Returns true if the mode of the metastore, the database and the table lets our workers compact ``entity``; false also
    where the table's settings cannot be read."""
    try:
        with failing_alone(entity):
            return may(site.settings_of(entity), Mode.COMPACT)
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        log.warning("%s: is left alone: %s", entity, error)
        return False


def _table(entity: Entity) -> Entity:
    return Entity(database=entity.database, table=entity.table)


def _claim(site: Site, ids: Iterable[int]) -> list[Claimed]:
    """Claims each entry under a worker id of its own, which identifies it as long as it has recorded no transaction."""
    workers = {number: site.identity("worker") for number in ids}
    entries = site.metastore.claims.claim_all(workers, VERSION)
    reach(Step.CLAIMED)
    now = time.monotonic()
    return [Claimed(site=site, entry=entry, worker_id=workers[entry.id], started=now) for entry in entries]
