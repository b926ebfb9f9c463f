"""Holds back the batches that a pool may not start now, by its hours or its number of applications; their entries stay
in the queue."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compactor.compaction.batching import RouteBatch
from compactor.compaction.pool_policy import DEFAULT, Allowance, PoolPolicy, allowance
from compactor.site.site import Site

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartableBatch:
    """A batch that may be started now, and the seconds after which it has to stop (None: no limit)."""

    batch: RouteBatch
    max_seconds: int | None = None


def policy_of(site: Site, pool: str | None) -> PoolPolicy | None:
    """Returns the site's policy for a pool; None if it has none."""
    return site.pools.get(pool or DEFAULT)


def allowed_now(site: Site, policy: PoolPolicy, running: int) -> Allowance:
    """Returns what the pool may start at the present time of the database's clock."""
    return allowance(policy, site.now(policy), running)


def startable_batches(site: Site, made: Sequence[RouteBatch]) -> Iterator[StartableBatch]:
    """Yields the batches of ``made``, in their order, that their pools may start now."""
    held = site.state.batches.held(site.name) if site.state is not None and site.pools else {}
    allowed: dict[str | None, Allowance] = {}
    started: dict[str | None, int] = {}
    for batch in made:
        pool = batch.route.pool
        policy = policy_of(site, pool)
        if policy is None:
            yield StartableBatch(batch=batch)
            continue
        if pool not in allowed:
            allowed[pool] = allowed_now(site, policy, held.get(pool, 0))
            log.info("%s", allowed[pool].because)
        limit = allowed[pool].applications
        if limit is not None and started.get(pool, 0) >= limit:
            log.info("pool %s: %d requests wait for their turn", policy.name, len(batch.items))
            continue
        started[pool] = started.get(pool, 0) + 1
        seconds = allowed[pool].run_seconds
        yield StartableBatch(batch=batch, max_seconds=None if seconds is None else max(1, int(seconds)))
