"""Sorts the candidates of some tables: those to decide about, and those with a standing decision."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.compaction.decision_reuse import Basis, Lasts, StoredDecision, Writes, restore_decision
from compactor.compaction.portions import Portion
from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import CandidateScan, Considered
from compactor.initiator.past_compactions import PastCompactions
from compactor.initiator.table_changes import KnownTable, SeenTable, TableChanges
from compactor.initiator.table_digests import TableDigests
from compactor.metastore.queue.entries import Ended
from compactor.site.surveyed_tables import SurveyedTable, TableName
from compactor.site.threads import SideBySide, run_best_effort

log = logging.getLogger(__name__)
_NOTHING, _NONE_ENDED = Writes(), Ended()
_MOST_NAMES = 1000  #: partitions by whose names the history is read; beyond, that of their tables is read
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

    Args:
        changes: what the pass knows of all tables; without it every candidate is compared, and nothing is remembered.
    """

    def __init__(self, scan: CandidateScan, tables: Collection[TableName], changes: TableChanges | None = None) -> None:
        self._scan, self._changes = scan, changes
        self._tables, self._past = scan.fresh_tables(), PastCompactions(scan.site)
        self._writes: dict[TableName, Mapping[str | None, Writes]] = {}  # of the candidates to compare one by one
        self._unchanged: dict[TableName, dict[str | None, str]] = {}  # the figures of other candidates
        self._decisions: dict[TableName, Mapping[str | None, StoredDecision]] = {}
        self._undecided: dict[TableName, set[str | None]] = {name: set() for name in tables}
        self._ends: dict[TableName, int] = {}  # when the first decision about a table ends
        known = {} if changes is None else self._read_known(changes.claim(tables))
        self._read_whole([name for name in tables if name not in known])
        if changes is not None:
            changes.check(tables)

    def _read_whole(self, tables: Collection[TableName]) -> None:
        """Reads all candidates of ``tables``."""
        if not tables:
            return
        scan = self._scan
        recorded = scan.site.metastore.components.writes(tables)
        for name, of_table in recorded.items():
            of_table.update(dict.fromkeys(scan.aborted_in(name) - of_table.keys(), _NOTHING))
        stored = self._tables.read_recorded(recorded)
        self._writes |= {name: _as_stored(recorded[name], stored[name]) for name in tables}
        self._past.expect(tables)
        self._decisions |= _read_decisions(scan, tables)
        if self._changes is not None:
            for name in tables:
                self._changes.meet(name, self._writes[name])
                if stored[name] or not self._are_stored(name, recorded[name]):
                    self._changes.do_not_remember(name)

    def _are_stored(self, name: TableName, recorded: Iterable[str | None]) -> bool:
        """Returns true if each recorded name is that of a partition.

        A name of a partition that was dropped may be, later on, another form of the name of a new one.
        """
        surveyed = self._load_table(name)
        places = {} if surveyed is None else surveyed.partitions
        return all(partition is None or places.get(partition) is not None for partition in recorded)

    def _read_known(self, known: Mapping[TableName, KnownTable]) -> Mapping[TableName, KnownTable]:
        """Reads the candidates of ``known`` tables that may have changed.

        Returns the tables that can be read like this.
        """
        rewritten = [name for name, table in known.items() if table.sums.writes != table.memory.writes]
        recorded = self._scan.site.metastore.components.writes(rewritten) if rewritten else {}
        self._past.expect_none([name for name, table in known.items() if not table.sums.ended])
        self._past.expect([name for name, table in known.items() if table.sums.ended != table.memory.ended])
        candidates = {name: self._list_candidates(name, table, recorded.get(name)) for name, table in known.items()}
        moved = {name for name, table in known.items() if table.sums.places != table.memory.places}
        self._tables.read({name: candidates[name] for name in moved})
        for name, table in known.items():
            self._compare(name, table, candidates[name])
        suspects = {name: self._writes[name].keys() for name in known}
        self._tables.read(suspects)
        for name in known.keys() - moved:
            candidates[name] = self._writes[name]  # the others were stored when they were remembered
        unlike = {name for name in known if not self._are_stored(name, candidates[name])}
        for name in unlike:
            del self._unchanged[name], self._ends[name]
        known = {name: table for name, table in known.items() if name not in unlike}
        suspects = {name: suspects[name] for name in known}
        names = {partition for partitions in suspects.values() for partition in partitions}
        self._past.expect(list(known), names if len(names) <= _MOST_NAMES else None)
        self._decisions |= _read_decisions_about(self._scan, suspects)
        return known

    def _list_candidates(
        self, name: TableName, table: KnownTable, recorded: Mapping[str | None, Writes] | None
    ) -> Mapping[str | None, Writes]:
        """Returns the candidates of a known table, from the memory if its writes have not changed since."""
        if recorded is None:
            recorded = {partition or None: _parse_writes(figures) for partition, figures in table.entities.items()}
        assert self._changes is not None
        candidates = {**dict.fromkeys(self._scan.aborted_in(name), _NOTHING), **recorded}
        self._changes.meet(name, candidates)
        return candidates

    def _compare(self, name: TableName, table: KnownTable, candidates: Mapping[str | None, Writes]) -> None:
        """Divides the candidates of a known table into those to compare one by one and unchanged ones."""
        before, memory, sums = table.entities, table.memory, table.sums
        suspects = {partition: candidates[partition] for partition in table.suspects if partition in candidates}
        unchanged: dict[str | None, str] = {}
        is_moved, is_ended = sums.places != memory.places, sums.ended != memory.ended
        if is_ended:  # a pause after failures may have another end
            troubled = (partition for partition, ended in self._past.of_table(name).items() if ended.others)
            suspects |= {partition: candidates[partition] for partition in troubled if partition in candidates}
        for partition, writes in candidates.items():
            if partition in suspects:
                continue
            figures = before.get(partition or "", "")
            is_same = figures.startswith(f"{writes}\t")
            if is_same and (is_moved or is_ended):
                _, ended, place = figures.split("\t")
                is_same = not is_moved or place == self._describe_place(name, partition)
                is_same = is_same and (not is_ended or ended == self._describe_ended(name, partition))
            if is_same:
                unchanged[partition] = figures
            else:
                suspects[partition] = writes
        self._writes[name], self._unchanged[name] = suspects, unchanged
        self._ends[name] = memory.look_at

    def sort_out(self, portion: Portion) -> SortedOut:
        """Returns the candidates of ``portion`` to decide about, in the order of their names."""
        self._scan.turn_to(self._tables, self._past)
        pending: list[PendingCandidate] = []
        kept = 0
        for name in portion.tables:
            of_table = self._sort_out_table(name, portion)
            self._undecided[name].update(p.entity.partition for p in of_table.pending if not p.stands)
            pending += of_table.pending
            kept += of_table.kept
        return SortedOut(pending=pending, kept=kept)

    def _sort_out_table(self, name: TableName, portion: Portion) -> SortedOut:
        """Returns the candidates of one table; all of them if it was dropped or cannot be understood."""
        unchanged = self._unchanged.get(name, {})
        try:
            with failing_alone(".".join(name)):
                if (surveyed := self._tables.load_table(Entity(database=name[0], table=name[1]))) is not None:
                    writes = self._writes[name]
                    digests = TableDigests(self._scan, name, surveyed, writes, len(writes) + len(unchanged))
                    if self._changes is not None:
                        self._changes.check_inputs(name, digests.of_table.inputs)
                    sorted_out = self._by_digests(digests, portion.filter_partitions(writes))
                    return replace(sorted_out, kept=sorted_out.kept + portion.count(unchanged))
        except DatabaseUnavailable:
            raise
        except CompactorError as error:  # ``CandidateScan.consider`` reports it
            log.debug("%s: %s", name, error)
        partitions = portion.filter_partitions({**self._writes[name], **unchanged})
        entities = (Entity(database=name[0], table=name[1], partition=partition) for partition in partitions)
        return SortedOut(pending=[PendingCandidate(entity=entity) for entity in entities])

    def _by_digests(self, digests: TableDigests, partitions: Sequence[str | None]) -> SortedOut:
        pending: list[PendingCandidate] = []
        kept = 0
        name, newest, now = digests.name, self._scan.txns.high_watermark, self._scan.now_ms
        decisions, lasting = self._decisions.get(name, {}), digests.round.lasting
        end = min(self._ends.get(name, now + digests.round.shortest), now + digests.round.shortest)
        for partition, digest in digests.digests_of(partitions):
            decision = decisions.get(partition)
            if decision is not None and digests.stands(decision, partition, digest):
                end = min(end, decision.at + lasting(partition))
                if not decision.is_due:
                    kept += 1
                    continue
                pending.append(PendingCandidate(entity=digests.entity(partition), stands=True))
            else:
                basis = Basis(digest, digests.open, newest)
                pending.append(PendingCandidate(entity=digests.entity(partition), basis=basis))
        self._ends[name] = end
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

    def _load_table(self, name: TableName) -> SurveyedTable | None:
        """Returns a table; None if it is gone or cannot be understood."""
        try:
            return self._tables.load_table(Entity(database=name[0], table=name[1]))
        except DatabaseUnavailable:
            raise
        except CompactorError:
            return None

    def note_recorded(self, considered: Iterable[Considered]) -> None:
        """Notes the candidates whose decisions this pass has stored."""
        for candidate in considered:
            entity = candidate.entity
            if self._tables.exists(entity):
                self._undecided[entity.database, entity.table].discard(entity.partition)

    def remember(self, portion: Portion) -> None:
        """Stores for the next pass what this one has seen of the tables that end with ``portion``."""
        if self._changes is None or portion.after is not None:
            return
        self._changes.remember({name: self._see(name) for name in portion.tables if name in self._ends})

    def _see(self, name: TableName) -> SeenTable:
        undecided = self._undecided[name]
        candidates = self._unchanged.get(name, {}) | {
            partition: self._figures(name, partition, writes) for partition, writes in self._writes[name].items()
        }
        entities = {partition or "": figures for partition, figures in candidates.items() if partition not in undecided}
        return SeenTable(entities=entities, is_complete=not undecided, look_at=self._ends[name])

    def _figures(self, name: TableName, partition: str | None, writes: Writes) -> str:
        """Returns a candidate's own inputs to its decision, as text; its table has further inputs."""
        place, ended = self._describe_place(name, partition), self._describe_ended(name, partition)
        return f"{writes}\t{ended}\t{place}"

    def _describe_place(self, name: TableName, partition: str | None) -> str:
        surveyed = self._load_table(name)
        place = None if surveyed is None or partition is None else surveyed.partitions.get(partition)
        return "" if place is None else f"{place.id} {crc32(place.location.encode(errors='surrogatepass'))}"

    def _describe_ended(self, name: TableName, partition: str | None) -> str:
        ended = self._past.of_table(name).get(partition, _NONE_ENDED)
        return f"{ended.newest} {ended.others}"


def _parse_writes(figures: str) -> Writes:
    return Writes._make(map(int, figures.partition("\t")[0].split(" ")))


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


def _read_decisions_about(
    scan: CandidateScan, suspects: Mapping[TableName, Collection[str | None]]
) -> dict[TableName, dict[str | None, StoredDecision]]:
    site, state = scan.site, scan.site.state
    decisions: dict[TableName, dict[str | None, StoredDecision]] = {}
    entities = [Entity(database=d, table=t, partition=name) for (d, t), names in suspects.items() for name in names]
    if state is not None and entities:
        by_entity = run_best_effort(
            "reading what was decided", lambda: state.conditions.decisions_about(site.name, entities)
        )
        for entity, decision in (by_entity or {}).items():
            decisions.setdefault((entity.database, entity.table), {})[entity.partition] = decision
    return decisions


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
