"""Requests that may do only so much: how much, when their time is over, and that what they leave is requested anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from compactor.compaction.entry import Entry, Request
from compactor.errors import CompactorError, Refused
from compactor.rewrite.plan.chunks import Bound
from compactor.rewrite.plan.plan import Left, Plan
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rewrite.run.task_queue import skip_none
from compactor.service.site import Site
from compactor.settings.precedence import Settings

log = logging.getLogger(__name__)


def bound_of(settings: Settings) -> Bound:
    """What the settings of a request, its table and the site let it do."""
    return Bound(
        bytes=settings.integer("compactor.max.bytes") or None,
        milliseconds=settings.milliseconds("compactor.max.time") or None,
        chunk_bytes=settings.integer("compactor.chunk.bytes"),
        chunk_deltas=settings.integer("hive.compactor.max.num.delta"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Says, between units, whether a request goes on. ``elapsed_s`` is its clock, ``stops`` whether its worker has been
    asked to stop."""

    bound: Bound
    elapsed_s: Callable[[], float]
    stops: Callable[[], bool]

    def skips(self, plan: Plan) -> Callable[[Unit], bool]:
        """Asked of each unit that would begin. The first chunk always comes to its end, so that each request gets
        somewhere.

        Raises:
            Refused: (when asked) of a base nothing is whole before its last unit.
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


def request_anew(site: Site, entry: Entry, left: Left) -> int | None:
    """Puts what a bounded request left into the queue, as it was asked for; the row's id.

    None where it is not needed, or is in the queue already. The compaction is committed, so no failure is one of it:
    without the row, the initiator or a person asks again.
    """
    if not left.again:
        return None
    request = Request(
        entity=entry.entity,
        type=entry.type,
        initiator=f"compactor-{site.host}-rest",
        pool=entry.pool,
        properties=entry.properties,
        run_as=entry.run_as,
    )
    try:
        return site.metastore.requests.request(request)
    except Refused as error:
        log.info("%s: what entry %d left is requested already: %s", entry.entity, entry.id, error)
    except CompactorError as error:
        log.warning("%s: what entry %d left could not be requested anew: %s", entry.entity, entry.id, error)
    return None
