"""Holds back batches that their pool may not start now, because of its hours or its number of applications.

Their entries stay in the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compactor.compaction.batching import RouteBatch
from compactor.compaction.pool_policy import DEFAULT, Allowance, PoolPolicy
from compactor.compaction.pool_policy import compute_allowance as allowance_of_policy
from compactor.site.site import Site

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartableBatch:
    """A batch that may start now, and the seconds after which it has to stop (None: no limit)."""

    batch: RouteBatch
    max_seconds: int | None = None


def find_policy(site: Site, pool: str | None) -> PoolPolicy | None:
    """Returns the site's policy for a pool; None without a policy."""
    return site.pools.get(pool or DEFAULT)


def compute_allowance(site: Site, policy: PoolPolicy, running: int) -> Allowance:
    """Returns what the pool may start now, by the database's clock."""
    return allowance_of_policy(policy, site.now(policy), running)


def select_startable(site: Site, batches: Sequence[RouteBatch]) -> Iterator[StartableBatch]:
    """Yields the batches, in their order, that their pools may start now."""
    running = site.state.batches.count_by_pool(site.name) if site.state is not None and site.pools else {}
    allowed: dict[str | None, Allowance] = {}
    started: dict[str | None, int] = {}
    for batch in batches:
        pool = batch.route.pool
        policy = find_policy(site, pool)
        if policy is None:
            yield StartableBatch(batch=batch)
            continue
        if pool not in allowed:
            allowed[pool] = compute_allowance(site, policy, running.get(pool, 0))
            log.info("%s", allowed[pool].because)
        limit = allowed[pool].applications
        if limit is not None and started.get(pool, 0) >= limit:
            log.info("pool %s: %d requests wait for their turn", policy.name, len(batch.items))
            continue
        started[pool] = started.get(pool, 0) + 1
        seconds = allowed[pool].run_seconds
        yield StartableBatch(batch=batch, max_seconds=None if seconds is None else max(1, int(seconds)))
