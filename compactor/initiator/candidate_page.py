"""Sorts the candidates of some tables: those to decide about, and those with a standing decision."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.compaction.decision_reuse import Basis, Lasts, StoredDecision, Writes, restore_decision
from compactor.compaction.portions import Portion
from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.initiator.past_compactions import PastCompactions
from compactor.initiator.table_digests import TableDigests
from compactor.site.surveyed_tables import TableName
from compactor.site.threads import SideBySide, run_best_effort

log = logging.getLogger(__name__)
_NOTHING = Writes()
_AHEAD = 4  #: candidates per thread that are decided before the pass acts on the first of them


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCandidate:
    """A candidate to decide about.

    ``basis`` belongs to a decision that depends on open transactions; None if the decision cannot be reused.
    """

    entity: Entity
    basis: Basis | None = None
    stands: bool = False  #: true if an earlier decision stands and requests something


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedOut:
    """The candidates to decide about, and the number of those whose decision stands and requests nothing."""

    pending: list[PendingCandidate]
    kept: int = 0


class CandidatePage:
    """The rows that a pass reads for some tables, and the earlier decisions about them.

    All rows are read before any directory is listed. A change in between changes the digests of the next pass.
    """

    def __init__(self, scan: CandidateScan, tables: Collection[TableName]) -> None:
        site = scan.site
        self._scan = scan
        self._tables, self._past = scan.fresh_tables(), PastCompactions(site)
        recorded = site.metastore.components.writes(tables)
        for name, of_table in recorded.items():
            of_table.update(dict.fromkeys(scan.aborted_in(name) - of_table.keys(), _NOTHING))
        stored = self._tables.read_recorded(recorded)
        self._writes = {name: _as_stored(recorded[name], stored[name]) for name in tables}
        self._past.expect(tables)
        self._decisions = _read_decisions(scan, tables)

    def sort_out(self, portion: Portion) -> SortedOut:
        """Returns the candidates of ``portion`` to decide about, in the order of their names."""
        self._scan.turn_to(self._tables, self._past)
        pending: list[PendingCandidate] = []
        kept = 0
        for name in portion.tables:
            of_table = self._sort_out_table(name, portion)
            pending += of_table.pending
            kept += of_table.kept
        return SortedOut(pending=pending, kept=kept)

    def _sort_out_table(self, name: TableName, portion: Portion) -> SortedOut:
        """Returns the candidates of one table; all of them if it was dropped or cannot be understood."""
        try:
            with failing_alone(".".join(name)):
                if (surveyed := self._tables.load_table(Entity(database=name[0], table=name[1]))) is not None:
                    digests = TableDigests(self._scan, name, surveyed, self._writes[name])
                    return self._by_digests(digests, portion.filter_partitions(self._writes[name]))
        except DatabaseUnavailable:
            raise
        except CompactorError as error:  # ``CandidateScan.consider`` reports it
            log.debug("%s: %s", name, error)
        partitions = portion.filter_partitions(self._writes[name])
        entities = (Entity(database=name[0], table=name[1], partition=partition) for partition in partitions)
        return SortedOut(pending=[PendingCandidate(entity=entity) for entity in entities])

    def _by_digests(self, digests: TableDigests, partitions: Sequence[str | None]) -> SortedOut:
        pending: list[PendingCandidate] = []
        kept = 0
        decisions, newest = self._decisions.get(digests.name, {}), self._scan.txns.high_watermark
        for partition, digest in digests.digests_of(partitions):
            decision = decisions.get(partition)
            if decision is not None and digests.stands(decision, digest):
                if not decision.is_due:
                    kept += 1
                    continue
                pending.append(PendingCandidate(entity=digests.entity(partition), stands=True))
            else:
                basis = Basis(digest, digests.open, newest)
                pending.append(PendingCandidate(entity=digests.entity(partition), basis=basis))
        return SortedOut(pending=pending, kept=kept)

    def judge(self, pending: Sequence[PendingCandidate], threads: SideBySide) -> Iterator[Considered]:
        """Yields the decision about each candidate, in order.

        Lists a few candidates ahead on threads, since listing waits for a store.
        """
        standing = _read_standing(self._scan, [candidate.entity for candidate in pending if candidate.stands])

        def judge_candidate(candidate: PendingCandidate) -> Considered:
            stood = standing.get(candidate.entity)
            return _with_basis(self._scan.consider(candidate.entity), candidate.basis) if stood is None else stood

        ahead = _AHEAD * threads.count if threads.count > 1 else 1
        for start in range(0, len(pending), ahead):
            yield from threads.map(judge_candidate, pending[start : start + ahead])


def _as_stored(
    recorded: Mapping[str | None, Writes], stored: Mapping[str | None, Sequence[str | None]]
) -> Mapping[str | None, Writes]:
    """Returns the recorded writes by the stored names of partitions."""
    if not stored:
        return recorded
    writes: dict[str | None, Writes] = {}
    for name, of_name in recorded.items():
        for partition in stored.get(name, (name,)):
            writes[partition] = writes.get(partition, _NOTHING).plus(of_name)
    return writes


def _read_decisions(
    scan: CandidateScan, tables: Collection[TableName]
) -> Mapping[TableName, Mapping[str | None, StoredDecision]]:
    site, state = scan.site, scan.site.state
    if state is None:
        return {}
    return (
        run_best_effort("reading what was decided", lambda: state.conditions.stored_decisions(site.name, tables)) or {}
    )


def _read_standing(scan: CandidateScan, entities: Sequence[Entity]) -> dict[Entity, Considered]:
    """Returns decisions of earlier passes that request something."""
    site, state = scan.site, scan.site.state
    if state is None or not entities:
        return {}
    seen = run_best_effort("reading what was decided", lambda: state.conditions.for_entities(site.name, entities)) or {}
    return {
        entity: Considered(
            entity=entity,
            outcome=row.outcome,
            because=row.because,
            decision=restore_decision(row.outcome, row.because, row.flips),
            stands=True,
        )
        for entity, row in seen.items()
    }


def _with_basis(considered: Considered, basis: Basis | None) -> Considered:
    match considered.lasts:
        case Lasts.NOT:
            return considered
        case Lasts.WHILE_OPEN:
            return replace(considered, basis=basis)
        case Lasts.WHILE_UNCHANGED:
            return replace(considered, basis=basis and basis._replace(open=None))
