"""The worker: claims entries of the queue and compacts them in groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.rewrite.run.runner import Runner
from compactor.site.site import Site
from compactor.worker.claimed_entries import ClaimedEntries
from compactor.worker.compaction_group import CompactionGroup
from compactor.worker.ending import Outcome
from compactor.worker.under_way import Options
from compactor.worker.waiting_entries import claim, is_ours


def work_together(
    site: Site, ids: Sequence[int], runner: Runner, options: Options, report: Callable[[Outcome], object]
) -> tuple[int, ...]:
    """Claims entries and compacts each as far as possible; ``report`` is called with each outcome at once.

    Entries that cannot be claimed any longer, or that the mode leaves to Hive's workers, have no outcome. A
    ``CompactorError`` goes into the state of the row and into the outcome; storage is left clean.

    Returns:
        the ids of entries that were put back because they are too large for a group: work on each alone.
    """
    waiting = site.metastore.entries.waiting(ids)
    modes = {table: is_ours(site, table) for table in {_table(entry.entity) for entry in waiting}}
    ours = [entry for entry in waiting if modes[_table(entry.entity)]]
    alone = [entry for entry in ours if entry.type is CompactionType.REBALANCE]
    together = [entry for entry in ours if entry.type is not CompactionType.REBALANCE]
    put_back_ids: list[int] = []
    for entries in (together, *([entry] for entry in alone)):
        if entries:
            claimed = claim(site, [entry.id for entry in entries])
            group = ClaimedEntries(claimed, report)
            put_back_ids += CompactionGroup(site=site, group=group, runner=runner, options=options).run(claimed)
    return tuple(put_back_ids)


def _table(entity: Entity) -> Entity:
    return Entity(database=entity.database, table=entity.table)
