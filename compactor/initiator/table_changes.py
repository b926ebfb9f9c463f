"""Finds the tables that have changed since the last pass, and the candidates of a pass.

A pass compares sums that the database computes with the sums that the last pass has stored. A table with equal sums and
equal inputs is skipped, except for candidates whose decision depends on time or on rows of the queue. Everything else
is considered in full.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy.exc import DBAPIError

from compactor.base.errors import CompactorError, DatabaseUnavailable
from compactor.compaction.decision_reuse import Digests
from compactor.compaction.queue_entry import Entity
from compactor.database.prepared import in_parts
from compactor.initiator.candidate_scan import CandidateScan
from compactor.initiator.table_digests import table_inputs
from compactor.metastore.table_sums import NO_SUMS, AllSums, TableSums, read_table_sums
from compactor.site.surveyed_tables import SurveyedTables, TableName
from compactor.site.threads import run_best_effort
from compactor.state.table_memories import TableMemory

log = logging.getLogger(__name__)
_INCOMPLETE = "incomplete"  #: instead of sums, which it never equals
_AT_ONCE = 1000  #: tables whose properties are in memory at once


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """A table whose inputs are those of the last pass.

    ``entities`` has the figures of each candidate as the last pass has seen it, by name. ``suspects`` are the names that
    have to be considered whatever the sums say.
    """

    memory: TableMemory
    sums: TableSums
    entities: Mapping[str, str]
    suspects: Collection[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTable:
    """A table as this pass has seen it: the figures of the candidates that have a stored decision.

    ``is_complete`` is false if another candidate has none: then the next pass compares the candidates. ``look_at`` is the
    time (epoch ms) at which the full round reaches one of them.
    """

    entities: Mapping[str, str]
    is_complete: bool
    look_at: int


class TableChanges:
    """The tables as a pass knows them before it considers candidates.

    Memories are read before the sums, and the sums before anything else. So a change that happens during the pass is a
    change for the next one.
    """

    def __init__(self, scan: CandidateScan) -> None:
        self.writer = uuid4().hex
        self._scan = scan
        self._can_remember = scan.site.state is not None and not scan.site.metastore.dialect.lowers_partitions
        self._memories, looks = self._read_state()
        self._looks: defaultdict[TableName, set[str | None]] = defaultdict(set)
        for entity in looks:
            self._looks[entity.database, entity.table].add(entity.partition)
        self._strangers: set[Entity] = set(looks)
        sums = self._read_sums() if self._can_remember else None
        self._can_remember = sums is not None
        self._sums = sums or NO_SUMS
        self._inputs: dict[TableName, str] = {}
        self._known: dict[TableName, TableMemory] = {}  # of tables whose inputs have not changed
        self.kept = 0  #: candidates of the tables that are skipped
        self.tables = self._compare()  #: to visit, each with the number of its recorded writes

    def _read_sums(self, tables: Collection[TableName] | None = None) -> AllSums | None:
        """Returns sums; None if the database does not compute them, such as within its limit of time.

        Then the pass considers everything in full, and remembers nothing.
        """
        try:
            return read_table_sums(self._scan.site.metastore, tables)
        except (CompactorError, DBAPIError) as error:
            log.warning("the sums over the rows of tables cannot be read, so that all tables are considered: %s", error)
            return None

    def _read_state(self) -> tuple[Mapping[TableName, tuple[str, TableMemory]], Sequence[Entity]]:
        site, state = self._scan.site, self._scan.site.state
        if state is None or not self._can_remember:
            return {}, ()
        looks = run_best_effort(
            "reading what is due for a look", lambda: state.conditions.due_for_a_look(site.name, self._scan.now_ms)
        )
        memories = run_best_effort("reading what the last pass has seen", lambda: state.memories.read(site.name))
        # A memory alone would hide a candidate that is due for a look.
        return (memories or {}, looks) if looks is not None else ({}, ())

    def _compare(self) -> dict[TableName, int]:
        scan, visited = self._scan, {}
        if not self._can_remember:
            return dict(scan.candidate_tables())
        candidates = dict.fromkeys(scan.tables_with_aborts(), 0) | dict(self._sums.written)
        for names in in_parts(sorted(candidates), _AT_ONCE):
            tables = scan.fresh_tables()
            tables.read(dict.fromkeys(names, ()))
            for name in names:
                self._note_inputs(tables, name)
                memory = self._known.get(name)
                if memory is not None and not self._has_changed(name, memory) and not self._suspects(name):
                    self.kept += memory.candidates
                else:
                    visited[name] = candidates[name]
        return visited

    def _note_inputs(self, tables: SurveyedTables, name: TableName) -> None:
        """Notes the inputs of a table, and its memory if both agree.

        A table without inputs is considered in full.
        """
        scan = self._scan
        try:
            surveyed = tables.load_table(Entity(database=name[0], table=name[1]))
            if surveyed is None or not scan.ground.is_clear(surveyed.table.id) or self._sums.have_order(name):
                return
            inputs = self._inputs[name] = Digests(table_inputs(scan, name, surveyed)).inputs
        except DatabaseUnavailable:
            raise
        except CompactorError as error:
            log.debug("%s: %s", name, error)
            return
        _, memory = self._memories.get(name, (None, None))
        if (
            memory is not None
            and memory.inputs == inputs
            and memory.newest_txn <= scan.txns.high_watermark
            and memory.made_at <= scan.now_ms < memory.look_at
        ):
            self._known[name] = memory

    def _has_changed(self, name: TableName, memory: TableMemory) -> bool:
        return self._sums.of_table(name) != TableSums(memory.writes, memory.places, memory.ended)

    def _suspects(self, name: TableName) -> set[str | None]:
        scan = self._scan
        return {*scan.queue.get(name, ()), *scan.aborted_in(name), *self._looks.get(name, ())}

    def claim(self, tables: Collection[TableName]) -> dict[TableName, KnownTable]:
        """Claims tables before anything about them is read; returns those whose memory may be used.

        Tables that could not be claimed are considered in full, and not remembered.
        """
        site, state = self._scan.site, self._scan.site.state
        if state is None or not self._can_remember:
            return {}
        claimants = {name: self._memories[name][0] if name in self._known else None for name in tables}
        claimed = run_best_effort(
            "claiming tables for a pass", lambda: state.memories.claim(site.name, claimants, self.writer)
        )
        known: dict[TableName, KnownTable] = {}
        for name in tables:
            if claimed is None:
                self.do_not_remember(name)
            elif name in self._known and (entities := claimed[name]) is not None:
                known[name] = KnownTable(
                    memory=self._known[name],
                    sums=self._sums.of_table(name),
                    entities=entities,
                    suspects=self._suspects(name),
                )
        return known

    def check(self, tables: Collection[TableName]) -> None:
        """Checks that tables have not changed since their sums were read; those that have are not remembered.

        Otherwise a change that is undone before the next pass, such as a partition that was moved for a moment, would have
        equal sums around a decision that rests on it.
        """
        if self._can_remember and (names := [name for name in tables if name in self._inputs]):
            sums = self._read_sums(names)
            for name in names:
                if sums is None or sums.of_table(name) != self._sums.of_table(name):
                    self.do_not_remember(name)

    def check_inputs(self, name: TableName, inputs: str) -> None:
        """Checks the same of a table's own inputs."""
        if self._inputs.get(name) != inputs:
            self.do_not_remember(name)

    def do_not_remember(self, name: TableName) -> None:
        """Lets the next pass consider a table in full."""
        self._inputs.pop(name, None)

    def meet(self, name: TableName, partitions: Collection[str | None]) -> None:
        """Notes that these are candidates of a table."""
        for partition in self._looks.get(name, ()):
            if partition in partitions:
                self._strangers.discard(Entity(database=name[0], table=name[1], partition=partition))

    def remember(self, seen: Mapping[TableName, SeenTable]) -> None:
        """Stores what this pass has seen of tables.

        A failure has no effect on the pass: the next one considers these tables in full.
        """
        site, state, scan = self._scan.site, self._scan.site.state, self._scan
        memories = {}
        for name, table in seen.items():
            if (inputs := self._inputs.get(name)) is not None:
                sums = self._sums.of_table(name)
                memory = TableMemory(
                    inputs=inputs,
                    writes=sums.writes if table.is_complete else _INCOMPLETE,
                    places=sums.places,
                    ended=sums.ended,
                    candidates=len(table.entities),
                    newest_txn=scan.txns.high_watermark,
                    made_at=scan.now_ms,
                    look_at=table.look_at,
                )
                memories[name] = (memory, table.entities)
        if state is not None and memories:
            run_best_effort(
                "remembering what a pass has seen", lambda: state.memories.save(site.name, memories, self.writer)
            )

    def forget_strangers(self) -> None:
        """Stops looking at entities that are no candidates any longer."""
        site, state, strangers = self._scan.site, self._scan.site.state, self._strangers
        if state is not None and strangers:
            now = self._scan.now_ms
            run_best_effort(
                "noting what is no candidate", lambda: state.conditions.stop_looking(site.name, strangers, now)
            )
