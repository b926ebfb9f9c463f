"""An application that waits for further batches of its route once its own is done (``--linger``).

Planners give it batches instead of starting another application, and it plans waiting entries itself if nobody else has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from compactor.base.errors import CompactorError, LostClaim
from compactor.batches.assembly import claimable, plan_batches
from compactor.batches.driver import WorkerPass
from compactor.compaction.pool_policy import DEFAULT
from compactor.site.periodic import Periodic
from compactor.site.site import Site, own_state
from compactor.state.residents import Residents

log = logging.getLogger(__name__)
ALIVE_MS = 60_000  #: for this long after it is gone, a resident may still be given batches
_LOOK_S = 1.0  #: seconds between two looks for a batch


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
    """Works on batches of the route of ``batch_id`` until there has been none for ``seconds``.

    Args:
        run: works on a planned batch.
        report: called with the result of each batch.
        is_alive: returns false once Spark is gone; then no further batch is taken.

    Raises:
        NotFound: there is no such batch.
        DatabaseUnavailable: our state can no longer be reached.
    """
    store = own_state(site)
    batch = store.batches.get(batch_id)
    if batch.route is None:
        log.warning(
            "batch %d was planned by an older release; its application does not wait for further batches", batch_id
        )
        return
    with Presence(store.residents, site.name, batch.route, application_id, ALIVE_MS) as presence:
        idle_since = time.monotonic()
        others: frozenset[int] = frozenset()  # entries of other routes: no need to list their directories again
        while is_alive():
            given = store.residents.given(presence.id)
            if given is None and not (waiting := frozenset(claimable(site, {batch.pool or DEFAULT}))) <= others:
                given = _plan_one(site, batch.pool, batch.route, presence.id)
                others = waiting if given is None else frozenset()
            if given is not None:
                report(run(given))
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since < seconds:
                time.sleep(min(_LOOK_S, seconds / 4))
            elif store.residents.leave(presence.id):
                return
        log.error("application %s is gone; batches given to it are planned again", application_id)
        store.residents.extend(presence.id, 0)


def _plan_one(site: Site, pool: str | None, route: str, resident: int) -> int | None:
    """Plans a batch of the waiting entries and returns it, unless another resident of the route is to take it."""
    try:
        made = plan_batches(site, {pool or DEFAULT}, route=route)
    except LostClaim:  # a planner was faster
        return None
    return next((planned.batch_id for planned in made if planned.resident in (resident, None)), None)


class Presence(Periodic):
    """A resident's row in our state; a thread keeps it alive while the block runs."""

    def __init__(self, residents: Residents, metastore: str, route: str, application_id: str, alive_ms: int) -> None:
        self._residents = residents
        self._alive_ms = alive_ms
        self.id = residents.enter(metastore, route, application_id, alive_ms)
        super().__init__(f"resident-{self.id}", alive_ms / 4000)

    def _act(self) -> bool:
        try:
            held = self._residents.extend(self.id, self._alive_ms)
        except CompactorError as error:
            log.warning("resident %d: it could not be marked as alive: %s", self.id, error)
            return True
        if not held:
            log.warning("resident %d was taken for dead; it is given no further batches", self.id)
        return held
