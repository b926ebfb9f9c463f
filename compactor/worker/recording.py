"""Records in the row of the queue what a worker is going to compact (PROTOCOL 3.2)."""

from __future__ import annotations

from compactor.base.ids import WriteId
from compactor.base.steps import Step, reach
from compactor.metastore.queue.worker_claims import Work
from compactor.site.site import Site
from compactor.worker.phases import Opened


def work_of(member: Opened, highest: WriteId, *, component: bool, job: str | None = None) -> Work:
    """Returns the record of a compaction up to write ID ``highest``.

    Args:
        component: adds a row to TXN_COMPONENTS.
        job: the application that runs the compaction.
    """
    return Work(
        entry=member.entry,
        worker_id=member.worker_id,
        txn=member.txn,
        run_as=member.run_as,
        highest_write_id=highest,
        component=component,
        job=job,
    )


def record_alone(site: Site, work: Work) -> None:
    """Records the work of one entry.

    Raises:
        LostClaim: the row is no longer this worker's.
    """
    for error in site.metastore.claims.record_all([work]).values():
        raise error
    reach(Step.RECORDED)
