"""An application that waits for further batches of its route once its own is done (``--linger``).

It is given batches by planners, who need not start an application then, and plans for itself what nobody has planned.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from compactor.errors import CompactorError, LostClaim
from compactor.service.batches.batch import WorkerPass, claimable, own_state, plan_batches
from compactor.service.periodic import Periodic
from compactor.service.site import Site
from compactor.state.residents import Residents

log = logging.getLogger(__name__)
ALIVE_MS = 60_000  #: for so long a resident that is gone may be given batches
_LOOK_S = 1.0  #: between two looks for a batch


def linger(
    site: Site,
    batch_id: int,
    application_id: str,
    seconds: float,
    run: Callable[[int], WorkerPass],
    report: Callable[[WorkerPass], None],
    *,
    lives: Callable[[], bool] = lambda: True,
    alive_ms: int = ALIVE_MS,
) -> None:
    """Works on batches of the route of ``batch_id`` until there was none for ``seconds``.

    Args:
        run: works on a planned batch.
        report: gets what became of each.
        lives: whether there is still a Spark to work with; without one no batch is taken any more.

    Raises:
        NotFound: there is no such batch.
        DatabaseUnavailable: the state cannot be reached any more.
    """
    store = own_state(site)
    batch = store.batches.get(batch_id)
    if batch.route is None:
        log.warning("batch %d was planned by an older release; its application does not wait for others", batch_id)
        return
    with Presence(store.residents, site.name, batch.route, application_id, alive_ms) as presence:
        idle_since = time.monotonic()
        others: frozenset[int] = frozenset()  # entries of other routes, whose directories need not be listed again
        while lives():
            given = store.residents.given(presence.id)
            if given is None and not (waiting := frozenset(claimable(site, batch.pool))) <= others:
                given = _planned(site, batch.pool, batch.route, presence.id)
                others = waiting if given is None else frozenset()
            if given is not None:
                report(run(given))
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since < seconds:
                time.sleep(min(_LOOK_S, seconds / 4))
            elif store.residents.leave(presence.id):
                return
        log.error("application %s is gone; what was given to it is planned anew", application_id)
        store.residents.extend(presence.id, 0)


def _planned(site: Site, pool: str | None, route: str, resident: int) -> int | None:
    """A batch of what waits, unless another resident of the route is to take it."""
    try:
        made = plan_batches(site, pool, route=route)
    except LostClaim:  # a planner was faster
        return None
    return next((planned.batch_id for planned in made if planned.resident in (resident, None)), None)


class Presence(Periodic):
    """A resident's row, whose time a thread extends while the block runs."""

    def __init__(self, residents: Residents, metastore: str, route: str, application_id: str, alive_ms: int) -> None:
        self._residents = residents
        self._alive_ms = alive_ms
        self.id = residents.enter(metastore, route, application_id, alive_ms)
        super().__init__(f"resident-{self.id}", alive_ms / 4000)

    def _act(self) -> bool:
        try:
            held = self._residents.extend(self.id, self._alive_ms)
        except CompactorError as error:
            log.warning("resident %d: its time could not be extended: %s", self.id, error)
            return True
        if not held:
            log.warning("resident %d was taken for dead; no batch is given to it any more", self.id)
        return held
