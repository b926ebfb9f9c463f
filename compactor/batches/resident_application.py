"""Keeps an application after its batch, to wait for further batches of its route (``--linger``).

Planners give batches to it instead of starting another application. It also plans waiting entries that no planner has taken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from compactor.base.errors import CompactorError
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import WorkerPass
from compactor.compaction.pool_policy import DEFAULT
from compactor.site.site import Site, own_state
from compactor.site.threads import Periodic
from compactor.state.batches import Batches

log = logging.getLogger(__name__)
ALIVE_MS = 60_000  #: planners may give batches to a resident until so long after it is gone
_LOOK_S = 1.0  #: seconds between two checks for a batch


def linger(
    site: Site,
    batch_id: int,
    application_id: str,
    seconds: float,
    run: Callable[[int], WorkerPass],
    report: Callable[[WorkerPass], None],
    *,
    is_alive: Callable[[], bool] = lambda: True,
) -> None:
    """Works on batches of the route of ``batch_id`` until no batch has come for ``seconds``.

    Args:
        run: works on a planned batch.
        report: called with the result of each batch.
        is_alive: returns false once Spark is gone; then no further batch is taken.

    Raises:
        NotFound: the batch does not exist.
        DatabaseUnavailable: our state can no longer be reached.
    """
    store = own_state(site)
    batch = store.batches.get(batch_id)
    if batch.route is None:
        log.warning(
            "batch %d was planned by an older release; its application does not wait for further batches", batch_id
        )
        return
    with ResidentRow(store.batches, site.name, batch.route, application_id, ALIVE_MS) as presence:
        idle_since = time.monotonic()
        others: frozenset[int] = frozenset()  # entries of other routes, whose directories need not be listed once more
        while is_alive():
            next_batch = store.batches.assigned_batch(presence.id)
            if next_batch is None:
                waiting = frozenset(list_claimable_ids(site, {batch.pool or DEFAULT}))
                if not waiting <= others:
                    next_batch = _plan_batch(site, batch.pool, batch.route, presence.id)
                    others = waiting if next_batch is None else frozenset()
            if next_batch is not None:
                report(run(next_batch))
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since < seconds:
                time.sleep(min(_LOOK_S, seconds / 4))
            elif store.batches.remove_resident(presence.id):
                return
        log.error("application %s is gone; its batches will be planned again", application_id)
        store.batches.extend_resident(presence.id, 0)


def _plan_batch(site: Site, pool: str | None, route: str, resident: int) -> int | None:
    """Plans a batch of waiting entries and returns its id.

    None if another planner was faster, or if another resident of the route will take it.
    """
    batches = plan_batches(site, {pool or DEFAULT}, route=route)
    return next((batch.batch_id for batch in batches if batch.resident in (resident, None)), None)


class ResidentRow(Periodic):
    """A resident's row in our state; a thread keeps it alive while the block runs."""

    def __init__(self, batches: Batches, metastore: str, route: str, application_id: str, alive_ms: int) -> None:
        self._batches = batches
        self._alive_ms = alive_ms
        self.id = batches.add_resident(metastore, route, application_id, alive_ms)
        super().__init__(f"resident-{self.id}", alive_ms / 4000)

    def _act(self) -> bool:
        try:
            is_alive = self._batches.extend_resident(self.id, self._alive_ms)
        except CompactorError as error:
            log.warning("resident %d: it could not be marked as alive: %s", self.id, error)
            return True
        if not is_alive:
            log.warning("resident %d was considered dead; it gets no further batches", self.id)
        return is_alive
