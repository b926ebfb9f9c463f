"""The initiator: decides which partitions are due, and puts a row into the queue for each."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from compactor.compaction.decision import AbortCleanup
from compactor.compaction.eligibility import order
from compactor.compaction.entry import Entity
from compactor.service import lost_workers
from compactor.service.bystander import beside
from compactor.service.memory import must_not_be_older
from compactor.service.roles import unrecorded
from compactor.service.roles.scan import Considered, Scan
from compactor.service.site import Site
from compactor.state.decisions import Decided
from compactor.state.store import OwnState

log = logging.getLogger(__name__)
RECORD_SIZE = 1000  #: candidates whose requests are made, and decisions stored, in one transaction
RECORD_EVERY_S = 5.0  #: seconds after which that happens even for fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorPass:
    repaired: tuple[lost_workers.Repaired, ...]
    considered: tuple[Considered, ...]

    @property
    def enqueued(self) -> tuple[tuple[str | None, int], ...]:
        """The (pool, entry id) of each row that this pass put into the queue."""
        return tuple((c.pool, c.entry_id) for c in self.considered if c.entry_id is not None)

    @property
    def wants_cleaning(self) -> bool:
        """True if aborted transactions are past their threshold: work for the cleaner, without a request."""
        return any(isinstance(c.decision, AbortCleanup) for c in self.considered)

    def to_json(self) -> dict[str, object]:
        return {
            "repaired": [{"compaction": r.entry.id, "because": r.because} for r in self.repaired],
            "considered": [
                {
                    "table": str(c.entity),
                    "outcome": c.outcome,
                    "because": c.because,
                    "compaction": c.entry_id,
                    "pool": c.pool,
                }
                for c in self.considered
            ],
            "enqueued": [{"pool": pool, "compaction": entry} for pool, entry in self.enqueued],
        }


def initiate(site: Site) -> InitiatorPass:
    """Runs one pass over every candidate. One bad table never stops the others.

    A pass starts after the candidate at which the previous one ended and goes around once, so that passes that are cut
    short still get to every candidate (PROTOCOL 10).

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
    """
    repaired = lost_workers.repair(site) if must_not_be_older(site) else ()
    scan = Scan(site)
    cursor = beside("reading where the last pass ended", lambda: _cursor(site))
    considered: list[Considered] = []
    judged: list[Considered] = []
    since = time.monotonic()
    for entity in order(scan.candidates(), cursor):
        judged.append(scan.consider(entity))
        if len(judged) >= RECORD_SIZE or time.monotonic() - since > RECORD_EVERY_S:
            considered += _act_on(scan, judged)
            judged, since = [], time.monotonic()
    considered += _act_on(scan, judged)
    beside("considering outdated conditions again", lambda: _reconsider_outdated(scan))
    beside("considering what has no recorded write", lambda: _consider_unrecorded(scan))
    return InitiatorPass(repaired=repaired, considered=tuple(considered))


def _act_on(scan: Scan, judged: Sequence[Considered]) -> list[Considered]:
    """Requests the compactions that are due, and stores the decisions."""
    must_not_be_older(scan.site, polling=True)
    done = scan.request(judged)
    beside("recording decisions", lambda: _record(scan, done))
    return done


def _cursor(site: Site) -> Entity | None:
    return None if site.state is None else site.state.decisions.cursor(site.name)


def _record(scan: Scan, considered: Sequence[Considered]) -> None:
    site = scan.site
    if site.state is None or not considered:
        return
    site.state.decisions.record(
        site.name,
        [
            Decided(
                entity=c.entity,
                outcome=c.outcome,
                because=c.because,
                numbers=dict(c.decision.numbers) if c.decision else {},
            )
            for c in considered
        ],
        at=scan.now_ms,
    )
    _record_conditions(scan, site.state, considered)


def _record_conditions(scan: Scan, state: OwnState, considered: Sequence[Considered]) -> None:
    there = [c for c in considered if scan.tables.exists(c.entity)]
    gone = [c.entity for c in considered if not scan.tables.exists(c.entity)]
    state.conditions.record(scan.site.name, [scan.seen(c) for c in there], gone)


def _reconsider_outdated(scan: Scan) -> None:
    """Considers again the entities that were compacted or dropped since they were considered, and are no longer candidates.
    Nothing is due there; recording it once keeps outdated conditions from being shown forever."""
    state = scan.site.state
    if state is None:
        return
    known = state.conditions.unsettled(scan.site.name, scan.now_ms)
    scan.tables.expect(seen.entity for seen in known)
    outdated = [
        seen.entity
        for seen in known
        if not scan.tables.exists(seen.entity) or any((e.end or 0) > seen.at for e in scan.history.get(seen.entity, ()))
    ]
    if outdated:
        fresh = Scan(scan.site, write=False)
        fresh.tables.expect(outdated)
        _record_conditions(fresh, state, [fresh.consider(entity) for entity in outdated])


def _consider_unrecorded(scan: Scan) -> None:
    """Considers entities without a recorded write. As in Hive, nothing is requested there, whatever is found."""
    site, state = scan.site, scan.site.state
    unseen = unrecorded.next_unrecorded(site, state, scan.now_ms) if state is not None else None
    if state is None or unseen is None:
        return
    fresh = Scan(site, write=False)
    fresh.tables.expect(unseen)
    considered = [fresh.consider(entity) for entity in unseen]
    _record_conditions(
        fresh,
        state,
        [
            replace(c, because=f"{c.because}; no write has been recorded since, so a person has to request it")
            if c.decision is not None and c.decision.type is not None
            else c
            for c in considered
        ],
    )
    unrecorded.record_sweep(site, state, len(unseen), scan.now_ms)


def consider_now(site: Site, entity: Entity) -> Considered:
    """Returns what the initiator would do to one entity now; nothing is written."""
    return Scan(site, write=False).consider(entity)
