"""The candidates of some tables: those that have to be judged, and those whose decision of an earlier pass stands."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.compaction.decision_reuse import Basis, Lasts, StoredDecision, Writes, decision_of
from compactor.compaction.entry import Entity
from compactor.compaction.portions import Portion
from compactor.initiator.candidate_scan import Considered, Scan
from compactor.initiator.past import Past
from compactor.initiator.table_digests import TableDigests
from compactor.site.best_effort import beside
from compactor.site.side_by_side import SideBySide
from compactor.site.surveyed_tables import TableName

log = logging.getLogger(__name__)
_NOTHING = Writes()
_AHEAD = 4  #: candidates for each thread that are judged before the first of them is acted on


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A candidate to be judged. ``basis`` is that of a decision which depends on open transactions; None if too little is
    known for a decision to be stored."""

    entity: Entity
    basis: Basis | None = None
    stands: bool = False  #: what an earlier pass decided stands, and asks for something


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedOut:
    """The candidates to be judged, and the number of those whose decision stands and asks for nothing."""

    pending: list[Pending]
    kept: int = 0


class CandidatePage:
    """The rows that a pass reads of some tables, and the decisions about them.

    All of it is read before anything is listed: what changes in between changes the digests of the next pass.
    """

    def __init__(self, scan: Scan, tables: Collection[TableName]) -> None:
        site = scan.site
        self._scan = scan
        self._tables, self._past = scan.fresh_tables(), Past(site)
        recorded = site.metastore.candidates.written(tables)
        for name, of_table in recorded.items():
            of_table.update(dict.fromkeys(scan.aborted_in(name) - of_table.keys(), _NOTHING))
        stored = self._tables.stored(recorded)
        self._writes = {name: _as_stored(recorded[name], stored[name]) for name in tables}
        self._past.expect(tables)
        self._decided = _decided(scan, tables)

    def sort_out(self, portion: Portion) -> SortedOut:
        """Returns the candidates of ``portion`` that are to be judged, in the order of their names."""
        self._scan.turn_to(self._tables, self._past)
        pending: list[Pending] = []
        kept = 0
        for name in portion.tables:
            of_table = self._sorted_out(name, portion)
            pending += of_table.pending
            kept += of_table.kept
        return SortedOut(pending=pending, kept=kept)

    def _sorted_out(self, name: TableName, portion: Portion) -> SortedOut:
        """Returns the candidates of one table; all of them are to be judged if it is gone or cannot be understood."""
        try:
            with failing_alone(".".join(name)):
                if (found := self._tables.found(Entity(database=name[0], table=name[1]))) is not None:
                    digests = TableDigests(self._scan, name, found, self._writes[name])
                    return self._by_digests(digests, portion.of(self._writes[name]))
        except DatabaseUnavailable:
            raise
        except CompactorError as error:  # ``Scan.consider`` says so
            log.debug("%s: %s", name, error)
        partitions = portion.of(self._writes[name])
        entities = (Entity(database=name[0], table=name[1], partition=partition) for partition in partitions)
        return SortedOut(pending=[Pending(entity=entity) for entity in entities])

    def _by_digests(self, digests: TableDigests, partitions: Sequence[str | None]) -> SortedOut:
        pending: list[Pending] = []
        kept = 0
        decided, newest = self._decided.get(digests.name, {}), self._scan.txns.high_watermark
        for partition, digest in digests.of(partitions):
            known = decided.get(partition)
            if known is not None and digests.stands(known, digest):
                if not known.is_due:
                    kept += 1
                    continue
                pending.append(Pending(entity=digests.entity(partition), stands=True))
            else:
                basis = Basis(digest, digests.open, newest)
                pending.append(Pending(entity=digests.entity(partition), basis=basis))
        return SortedOut(pending=pending, kept=kept)

    def judged(self, pending: Sequence[Pending], threads: SideBySide) -> Iterator[Considered]:
        """Yields the judgement of each, in their order. A few more than were yielded may be listed already: side by side,
        since a store is waited for."""
        standing = _standing(self._scan, [one.entity for one in pending if one.stands])

        def judge(one: Pending) -> Considered:
            again = standing.get(one.entity)
            return _with_basis(self._scan.consider(one.entity), one.basis) if again is None else again

        ahead = _AHEAD * threads.count if threads.count > 1 else 1
        for start in range(0, len(pending), ahead):
            yield from threads.map(judge, pending[start : start + ahead])


def _as_stored(
    recorded: Mapping[str | None, Writes], stored: Mapping[str | None, Sequence[str | None]]
) -> Mapping[str | None, Writes]:
    """Returns what was written by the names by which partitions are stored."""
    if not stored:
        return recorded
    writes: dict[str | None, Writes] = {}
    for name, of_name in recorded.items():
        for partition in stored.get(name, (name,)):
            writes[partition] = writes.get(partition, _NOTHING).plus(of_name)
    return writes


def _decided(scan: Scan, tables: Collection[TableName]) -> Mapping[TableName, Mapping[str | None, StoredDecision]]:
    site, state = scan.site, scan.site.state
    if state is None:
        return {}
    return beside("reading what was decided", lambda: state.conditions.stored_decisions(site.name, tables)) or {}


def _standing(scan: Scan, entities: Sequence[Entity]) -> dict[Entity, Considered]:
    """Returns decisions of earlier passes that ask for something."""
    site, state = scan.site, scan.site.state
    if state is None or not entities:
        return {}
    seen = beside("reading what was decided", lambda: state.conditions.of(site.name, entities)) or {}
    return {
        entity: Considered(
            entity=entity,
            outcome=one.outcome,
            because=one.because,
            decision=decision_of(one.outcome, one.because, one.flips),
            stands=True,
        )
        for entity, one in seen.items()
    }


def _with_basis(considered: Considered, basis: Basis | None) -> Considered:
    match considered.lasts:
        case Lasts.NOT:
            return considered
        case Lasts.WHILE_OPEN:
            return replace(considered, basis=basis)
        case Lasts.WHILE_UNCHANGED:
            return replace(considered, basis=basis and basis._replace(open=None))
