"""The initiator: decides which partitions are due, and puts a row into the queue for each."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from compactor.compaction.decision import AbortCleanup
from compactor.compaction.portions import Portion, split_portions
from compactor.compaction.queue_entry import Entity
from compactor.initiator import garbage_collection, outdated
from compactor.initiator.budget import Saving, without_cost
from compactor.initiator.candidate_page import CandidatePage
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.initiator.one_ahead import one_ahead
from compactor.initiator.outdated import record_conditions
from compactor.initiator.past_compactions import PastCompactions
from compactor.initiator.table_changes import TableChanges
from compactor.metastore.catalog.values import Table
from compactor.site import lost_workers
from compactor.site.restored_database import must_not_be_older
from compactor.site.site import Site
from compactor.site.threads import SideBySide, run_best_effort
from compactor.state.decisions import PASS, Decided

log = logging.getLogger(__name__)
RECORD_SIZE = 1000  #: candidates that are requested and recorded in one transaction
RECORD_EVERY_S = 5.0  #: seconds after which fewer candidates are requested and recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class InitiatorPass:
    """The result of one pass.

    ``kept`` is the number of unchanged candidates whose earlier decision stands and requests nothing. They are not in
    ``considered``.
    """

    repaired: tuple[lost_workers.Repaired, ...]
    considered: tuple[Considered, ...]
    kept: int = 0

    @property
    def enqueued(self) -> tuple[tuple[str | None, int], ...]:
        """The (pool, entry id) of each row that this pass put into the queue."""
        return tuple((c.pool, c.entry_id) for c in self.considered if c.entry_id is not None)

    @property
    def wants_cleaning(self) -> bool:
        """True if aborted transactions are past their threshold: the cleaner has work without a request."""
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
            "kept": self.kept,
            "enqueued": [{"pool": pool, "compaction": entry} for pool, entry in self.enqueued],
        }


def initiate(site: Site) -> InitiatorPass:
    """Runs one pass over every candidate. One bad table never stops the others.

    A pass starts after the last candidate of the previous pass and goes around once, so that interrupted passes still reach
    every candidate (PROTOCOL 10). An unchanged candidate is not listed again until ``compactor.full.sweep`` check intervals
    are over.

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
    """
    repaired = lost_workers.repair(site) if must_not_be_older(site) else ()
    scan = CandidateScan(site)
    saving = Saving(scan)
    cursor = run_best_effort("reading where the last pass ended", lambda: _read_cursor(site))
    looked_at = run_best_effort("reading when the last pass was", lambda: _read_last_pass_time(site))
    changes = TableChanges(scan)
    considered: list[Considered] = []
    kept = changes.kept
    stores = SideBySide(site.settings.integer("compactor.store.threads"), "store")
    with stores as threads, one_ahead(_pages(scan, changes, cursor)) as pages:
        for portion, page in pages:
            with garbage_collection.waiting():
                sorted_out = page.sort_out(portion)
            kept += sorted_out.kept
            considered += _judge(scan, saving, page.judge(sorted_out.pending, threads), changes, page)
            page.remember(portion)
    considered += _spend(scan, saving, changes)
    changes.forget_strangers()
    run_best_effort("considering outdated conditions again", lambda: outdated.reconsider(scan, looked_at))
    run_best_effort("considering what has no recorded write", lambda: _consider_unrecorded(scan, considered))
    run_best_effort("recording the pass", lambda: _record_pass(scan, len(considered)))
    return InitiatorPass(repaired=repaired, considered=tuple(considered), kept=kept)


def _pages(
    scan: CandidateScan, changes: TableChanges, cursor: Entity | None
) -> Iterator[tuple[Portion, CandidatePage]]:
    """Yields the tables to visit in the order of the pass, in portions with the data of their tables."""
    first: CandidatePage | None = None
    for portion in split_portions(changes.tables, cursor):
        with garbage_collection.waiting():
            is_same = first is not None and portion.until is not None
            page = first if first is not None and is_same else CandidatePage(scan, portion.tables, changes)
        first = page if portion.after is not None else first  # the other half of the first table comes last
        yield portion, page


def _spend(scan: CandidateScan, saving: Saving, changes: TableChanges) -> list[Considered]:
    """Requests kept back candidates within the budget, and records why the others wait."""
    chosen, waiting = saving.choose_requests()
    done: list[Considered] = []
    for kept, act in ((waiting, False), (chosen, True)):
        for start in range(0, len(kept), RECORD_SIZE):
            batch = kept[start : start + RECORD_SIZE]
            _turn_to(scan, [candidate.entity for candidate in batch])
            done += _act_on(scan, batch, changes) if act else _record_waiting(scan, batch, changes)
    return done


def _turn_to(scan: CandidateScan, entities: Sequence[Entity]) -> None:
    """Reads the data of tables whose page the pass has left."""
    tables, past = scan.fresh_tables(), PastCompactions(scan.site)
    tables.expect(entities)
    past.expect({(entity.database, entity.table) for entity in entities})
    scan.turn_to(tables, past)


def _record_waiting(scan: CandidateScan, waiting: Sequence[Considered], changes: TableChanges) -> list[Considered]:
    run_best_effort("recording decisions", lambda: _record(scan, waiting, changes))
    return list(waiting)


def _judge(
    scan: CandidateScan, saving: Saving, judgements: Iterable[Considered], changes: TableChanges, page: CandidatePage
) -> list[Considered]:
    considered: list[Considered] = []
    judged: list[Considered] = []
    since = time.monotonic()
    for candidate in judgements:
        judged.append(candidate)
        if len(judged) >= RECORD_SIZE or time.monotonic() - since > RECORD_EVERY_S:
            considered += _act_on(scan, saving.keep_back(judged), changes, page)
            judged, since = [], time.monotonic()
    return considered + _act_on(scan, saving.keep_back(judged), changes, page)


def _act_on(
    scan: CandidateScan, judged: Sequence[Considered], changes: TableChanges, page: CandidatePage | None = None
) -> list[Considered]:
    """Requests the compactions that are due, and stores the decisions."""
    if not judged:
        return []
    must_not_be_older(scan.site, polling=True)
    done = [without_cost(candidate) for candidate in scan.request(judged)]
    recorded = run_best_effort("recording decisions", lambda: _record(scan, done, changes))
    if page is not None and recorded:
        page.note_recorded(recorded)
    return done


def _read_cursor(site: Site) -> Entity | None:
    return None if site.state is None else site.state.decisions.cursor(site.name)


def _read_last_pass_time(site: Site) -> int | None:
    return None if site.state is None else site.state.decisions.newest(site.name, PASS)


def _record_pass(scan: CandidateScan, considered: int) -> None:
    site = scan.site
    if site.state is not None:
        everything = Entity(database="", table="")
        passed = Decided(entity=everything, outcome="passed", because=f"{considered} were considered", role=PASS)
        site.state.decisions.record(site.name, [passed], at=scan.now_ms)


def _record(scan: CandidateScan, judged: Sequence[Considered], changes: TableChanges) -> Sequence[Considered]:
    """Stores decisions, and returns them."""
    site, considered = scan.site, [candidate for candidate in judged if not candidate.stands]
    if site.state is None or not considered:
        return ()
    site.state.decisions.record(site.name, [c.as_decided("initiator") for c in considered], at=scan.now_ms)
    record_conditions(scan, site.state, considered, changes.writer)
    return considered


def _consider_unrecorded(scan: CandidateScan, candidates: Sequence[Considered]) -> None:
    """Considers entities without a recorded write.

    As in Hive, nothing is requested for them, except what makes them readable for Hive again.
    """
    site, state = scan.site, scan.site.state
    if state is None:
        return
    unseen = outdated.find_next_unrecorded(site, state, scan.now_ms, {candidate.entity for candidate in candidates})
    if unseen is None:
        return
    fresh = CandidateScan(site, write=False)
    fresh.tables.expect(unseen)
    considered = [fresh.consider(entity) for entity in unseen]
    if mending := [c for c in considered if c.decision is not None and c.decision.mends]:
        _turn_to(scan, [candidate.entity for candidate in mending])
        requested = {candidate.entity: candidate for candidate in scan.request(mending)}
        considered = [requested.get(candidate.entity, candidate) for candidate in considered]
    record_conditions(
        fresh,
        state,
        [
            replace(c, because=f"{c.because}; no write has been recorded since, so a person has to request it")
            if c.decision is not None and c.decision.type is not None and not c.decision.mends
            else c
            for c in considered
        ],
    )
    outdated.record_sweep(site, state, len(unseen), scan.now_ms)


def look_again(site: Site, table: Table | None = None) -> None:
    """Makes the next pass list every entity of one table, or of all tables, even unchanged ones.

    Needed after a person has changed directories or accepted another database.
    """
    state = site.state
    if state is not None:
        name = None if table is None else (table.database, table.name)
        run_best_effort(
            "forgetting what decisions were based on", lambda: state.conditions.forget_bases(site.name, name)
        )
