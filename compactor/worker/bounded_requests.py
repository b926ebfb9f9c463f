"""Bounded requests: their limits in bytes and time, and the new request for the input that they leave."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from compactor.base.errors import CompactorError, Refused
from compactor.base.identities import initiator_id
from compactor.compaction.claim_order import reason_of_urgency
from compactor.compaction.queue_entry import Entry, Request
from compactor.rewrite.plan.chunks import Bound
from compactor.rewrite.plan.plan import Plan, Remainder
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rewrite.run.task_queue import skip_none
from compactor.settings.precedence import Settings
from compactor.site.site import Site

log = logging.getLogger(__name__)


def bound_of(settings: Settings) -> Bound:
    """Returns the limits that the settings of a request, its table and the site set."""
    return Bound(
        bytes=settings.integer("compactor.max.bytes") or None,
        milliseconds=settings.milliseconds("compactor.max.time") or None,
        chunk_bytes=settings.integer("compactor.chunk.bytes"),
        chunk_deltas=settings.integer("hive.compactor.max.num.delta"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The time that a request may take, checked between units.

    ``elapsed_s`` returns the seconds since its start; ``stops`` returns true once its worker has been asked to stop.
    """

    bound: Bound
    elapsed_s: Callable[[], float]
    stops: Callable[[], bool]

    def skips(self, plan: Plan) -> Callable[[Unit], bool]:
        """Returns a predicate that is called before each unit and returns true to skip it.

        The first chunk is always completed, so that each request makes progress.

        Raises:
            Refused: (by the predicate) the time for a base is over, and no part of a base can be published.
        """
        if self.bound.milliseconds is None:
            return skip_none
        if plan.shape is Shape.MAJOR and plan.units[0].rebalance is None:
            return partial(self._must_have_time, plan)
        first = plan.outputs[0].lowest_write_id
        return lambda unit: unit.first_write_id != first and (self._is_over or self.stops())

    @property
    def _is_over(self) -> bool:
        limit = self.bound.milliseconds
        return limit is not None and self.elapsed_s() * 1000 > limit

    def _must_have_time(self, plan: Plan, unit: Unit) -> bool:
        if self._is_over:
            raise Refused(
                f"{plan.location}: the major compaction of {plan.input_bytes} bytes was not done within compactor.max.time "
                f"({self.bound.milliseconds} ms), and no part of a base can be published; raise it, or ask for a minor"
            )
        return False


def request_rest(site: Site, entry: Entry, left: Remainder) -> int | None:
    """Requests what a bounded request left, with the same options; returns the new row's id.

    Returns None if nothing needs a request, or if one is in the queue already. The compaction is committed, so an error here
    is only logged: without the row, the initiator or a person requests the rest.
    """
    if not left.again:
        return None
    request = Request(
        entity=entry.entity,
        type=entry.type,
        initiator=(entry.initiator_id if reason_of_urgency(entry) else None) or initiator_id(site.host, "rest"),
        pool=entry.pool,
        properties=entry.properties,
        run_as=entry.run_as,
    )
    try:
        return site.metastore.requests.request(request)
    except Refused as error:
        log.info("%s: what entry %d left is requested already: %s", entry.entity, entry.id, error)
    except CompactorError as error:
        log.warning("%s: what entry %d left could not be requested again: %s", entry.entity, entry.id, error)
    return None
