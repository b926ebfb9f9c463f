"""The data that one pass of the initiator reads once, and its judgement of each candidate by it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.partition_names import by_recorded_name, escaped_once_less
from compactor.acid.write_ids import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from compactor.compaction.decision import AbortCleanup, CleanOnly, Decision, Facts, NotNeeded, decide
from compactor.compaction.disagreement import Numbers, doubts
from compactor.compaction.eligibility import Candidate, Skipped, eligible
from compactor.compaction.entry import Entity, Entry, Request
from compactor.compaction.health import Condition
from compactor.compaction.states import State
from compactor.errors import CompactorError, DatabaseUnavailable, Disagreement, NotFound, Refused, failing_alone
from compactor.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Partition, Table
from compactor.metastore.queue.candidates import Aborted
from compactor.service.abort_grace import AbortGrace
from compactor.service.agreement import Given
from compactor.service.ground import Ground
from compactor.service.mode import Mode, may
from compactor.service.site import Moment, Site, ground_of, path_of
from compactor.settings.precedence import Settings
from compactor.state.conditions import Seen
from compactor.steps import Step, reach

log = logging.getLogger(__name__)
PAGE = 100_000  #: candidates fetched at a time; their order is total, so none is skipped
_AT_ONCE = 1000  #: tables and partitions that are read by one statement
DISAGREEMENT = "disagreement"  #: the outcome where files and metastore contradict each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """One candidate: the decision or the reason to skip it, and the resulting row."""

    entity: Entity
    #: One word for tables and JSON: minor, major, cleanonly, abortcleanup, notneeded, skipped, error, disagreement.
    outcome: str
    because: str
    decision: Decision | None = None
    entry_id: int | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SurveyedTable:
    """A table as one pass sees it: its write IDs, its settings, and its partitions as far as somebody asked for them, None
    for one that does not exist."""

    table: Table
    write_ids: CompactorWriteIdList
    next_write_id: WriteId  #: at the latest; writers may have drawn it since
    settings: Settings
    partitions: dict[str, Partition | None] = field(default_factory=dict)


@dataclass(slots=True)
class Scan:
    """The data that one pass reads once: a constant number of statements for a thousand tables and partitions."""

    site: Site
    write: bool = True
    txns: ValidTxnList = field(init=False)
    now_ms: int = field(init=False)
    moment: Moment = field(init=False)
    queue: Mapping[Entity, Sequence[Entry]] = field(init=False)
    history: Mapping[Entity, Sequence[Entry]] = field(init=False)
    aborts: Mapping[Entity, Aborted] = field(init=False)
    grace: AbortGrace = field(init=False)
    ground: Ground = field(init=False)
    tables: dict[tuple[str, str], _SurveyedTable | CompactorError | None] = field(init=False, default_factory=dict)
    _compactions: Mapping[TxnId, bool] = field(init=False)
    _recorded: dict[int, Mapping[str, Sequence[str]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        metastore = self.site.metastore
        self.txns = metastore.transactions.snapshot()
        self.moment = self.site.moment()
        self.now_ms = self.moment.now_ms
        self.queue = _by_entity(metastore.entries.queue())
        self.history = _by_entity(metastore.entries.history())
        self.aborts = metastore.candidates.aborts()
        self.grace = AbortGrace(self.site)
        self.ground = ground_of(self.site)
        self._compactions = dict.fromkeys(metastore.transactions.not_compactions(), False)

    def candidates(self) -> list[Entity]:
        """Returns every entity that was written to or has aborts, under the name of its partition, once each.

        Hive 4 records partition names of static inserts escaped twice, and Hive 3.1 in lower case, and so neither compacts
        those partitions; here they are mapped to the stored names.
        """
        recorded: list[Entity] = []
        more = True
        while more:
            page = self.site.metastore.candidates.page(PAGE, after=recorded[-1] if recorded else None)
            recorded.extend(page)
            more = len(page) == PAGE
        lowered = self.site.metastore.dialect.lowers_partitions
        self.expect(_table_of(one) if lowered else form for one in recorded for form in _named(one))
        meant = list(dict.fromkeys(entity for one in recorded for entity in self._meant(one)))
        self.expect(meant)
        return meant

    def expect(self, entities: Iterable[Entity]) -> None:
        """Reads the tables and partitions that are not known yet, many with one statement."""
        waiting = iter(entities)
        while page := list(islice(waiting, _AT_ONCE)):
            try:
                with failing_alone(f"{len(page)} tables and partitions"):
                    self._read(page)
            except DatabaseUnavailable:
                raise
            except CompactorError as error:  # of one of them; each is then read by itself
                log.info("%s", error)

    def _read(self, page: Sequence[Entity]) -> None:
        metastore = self.site.metastore
        names = {(one.database, one.table): (one.database.lower(), one.table.lower()) for one in page}
        new = {name: lower for name, lower in names.items() if name not in self.tables}
        tables = metastore.catalog.named(set(new.values()))
        write_ids = metastore.write_ids.valid_of(list(tables), self.txns)
        for name, lower in new.items():
            self._keep(name, tables.get(lower), write_ids.get(lower))
        if metastore.dialect.lowers_partitions:
            self._read_names(tables.values())
        self._read_partitions(page)

    def _read_partitions(self, page: Sequence[Entity]) -> None:
        wanted = [(found, one.partition) for one in page if one.partition and (found := self._partitioned(one))]
        new = {(found.table.id, name): found for found, name in wanted if name not in found.partitions}
        partitions = self.site.metastore.catalog.partitions_named(new)
        for (table_id, name), found in new.items():
            found.partitions[name] = partitions.get((table_id, name))

    def _partitioned(self, entity: Entity) -> _SurveyedTable | None:
        found = self.tables.get((entity.database, entity.table))
        return found if isinstance(found, _SurveyedTable) and found.table.partition_keys else None

    def _keep(self, name: tuple[str, str], table: Table | None, write_ids: ValidWriteIdList | None) -> None:
        """Keeps what was read of the table ``name``, or the reason why it cannot be understood."""
        self.tables[name] = None
        try:
            with failing_alone(".".join(name)):
                if table is not None and write_ids is not None:
                    self.tables[name] = _SurveyedTable(
                        table=table,
                        write_ids=write_ids.for_compactor(),
                        next_write_id=WriteId(write_ids.high_watermark + 1),
                        settings=self.site.settings_for(table, self.moment),
                    )
        except DatabaseUnavailable:
            raise
        except CompactorError as error:
            self.tables[name] = error

    def partition(self, entity: Entity) -> Partition | None:
        """Returns the partition that ``entity`` names; None if it is not there, or none is named.

        Raises:
            CompactorError: the table's entry in the catalog cannot be understood.
        """
        found = self.found(entity)
        if found is None or entity.partition is None or not found.table.partition_keys:
            return None
        if entity.partition not in found.partitions:
            self._read_partitions([entity])
        return found.partitions[entity.partition]

    def partitions(self, table: Table) -> list[Partition]:
        """Returns every partition of a table."""
        found = self.found(Entity(database=table.database, table=table.name))
        if found is None:
            return []
        every = self.site.metastore.catalog.partitions(found.table)
        found.partitions.update({one.name: one for one in every})
        return every

    def _meant(self, recorded: Entity) -> Sequence[Entity]:
        """Returns the partitions that writers record under this name; ``recorded`` itself if there is none."""
        if recorded.partition is None or (found := self._found_if_readable(recorded)) is None:
            return [recorded]
        if not self.site.metastore.dialect.lowers_partitions:
            return [next((one for one in _named(recorded) if self.partition(one) is not None), recorded)]
        self._read_names([found.table])
        names = self._recorded[found.table.id].get(recorded.partition)
        return [recorded] if names is None else [replace(recorded, partition=name) for name in names]

    def _read_names(self, tables: Iterable[Table]) -> None:
        """Reads the names of all partitions, for writers that record them in a form that several may have."""
        new = [table for table in tables if table.id not in self._recorded]
        for table_id, names in self.site.metastore.catalog.partition_names(new).items() if new else ():
            self._recorded[table_id] = by_recorded_name(names, lowered=True)

    def _found_if_readable(self, entity: Entity) -> _SurveyedTable | None:
        try:
            return self.found(entity)
        except DatabaseUnavailable:
            raise
        except CompactorError:  # ``consider`` says so
            return None

    def _aborts(self, entity: Entity) -> Aborted | None:
        """Returns the aborted transactions of the entity, under every form of its name."""
        names = self.site.metastore.dialect.recorded_names(entity.partition)
        found = [aborts for name in names if (aborts := self.aborts.get(replace(entity, partition=name))) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return Aborted(count=sum(one.count for one in found), oldest_start=min(one.oldest_start for one in found))

    def exists(self, entity: Entity) -> bool:
        """Returns true if the table exists, and the partition if one is named."""
        try:
            return self.found(entity) is not None and (entity.partition is None or self.partition(entity) is not None)
        except CompactorError:  # ``consider`` says so
            return True

    def seen(self, considered: Considered) -> Seen:
        """Returns the condition that people are shown until the next pass."""
        decision, ended = considered.decision, self.history.get(considered.entity, ())
        succeeded = [e.end for e in ended if e.state is State.SUCCEEDED and e.end is not None]
        return Seen(
            entity=considered.entity,
            outcome=considered.outcome,
            because=considered.because,
            flips=decision.flips if decision is not None else (),
            condition=Condition.of(decision.numbers) if decision is not None else None,
            last_compacted=max(succeeded, default=None),
            at=self.now_ms,
        )

    def found(self, entity: Entity) -> _SurveyedTable | None:
        """Returns the table of ``entity``; None if it is gone.

        Raises:
            CompactorError: its entry in the catalog cannot be understood.
        """
        key = (entity.database, entity.table)
        if key not in self.tables:
            self._find(key)
        found = self.tables[key]
        if isinstance(found, CompactorError):
            raise found
        return found

    def _find(self, name: tuple[str, str]) -> None:
        """Reads one table alone."""
        try:
            with failing_alone(".".join(name)):
                table = self.site.metastore.catalog.table(*name)
                self._keep(name, table, self.site.write_ids(table, self.txns))
        except DatabaseUnavailable:
            raise
        except NotFound:
            self.tables[name] = None
        except CompactorError as error:
            self.tables[name] = error

    def consider(self, entity: Entity) -> Considered:
        try:
            with failing_alone(entity):
                return self._consider(entity)
        except Disagreement as error:
            log.error("%s: files and metastore disagree: %s", entity, error)
            return Considered(entity=entity, outcome=DISAGREEMENT, because=str(error))
        except CompactorError as error:
            log.warning("%s: not considered: %s", entity, error)
            return Considered(entity=entity, outcome="error", because=str(error))

    def _consider(self, entity: Entity) -> Considered:
        found = self.found(entity)
        settings = found.settings if found else self.site.settings.of_database(entity.database)
        verdict = eligible(self._candidate(entity, found, settings), settings, self.now_ms)
        if isinstance(verdict, Skipped):
            if verdict.record and self.write and may(settings, Mode.REQUEST):
                self.site.metastore.requests.did_not_initiate(entity, verdict.because)
            return Considered(entity=entity, outcome="skipped", because=verdict.because)
        assert found is not None  # a missing table is never eligible
        decision = self._decide(entity, found)
        outcome = type(decision).__name__.lower()
        return Considered(entity=entity, outcome=outcome, because=decision.because, decision=decision)

    def _candidate(self, entity: Entity, found: _SurveyedTable | None, settings: Settings) -> Candidate:
        table = found.table if found else None
        return Candidate(
            entity=entity,
            exists=self.exists(entity),
            never=self._never(entity, found) if found else None,
            is_insert_only=table.is_insert_only if table else False,
            is_partitioned=bool(table.partition_keys) if table else False,
            table_parameters=table.parameters if table else {},
            database_parameters=table.database_parameters if table else {},
            queued=self.queue.get(entity, ()),
            history=self.history.get(entity, ()),
            has_old_abort=self._old_abort(entity, settings),
        )

    def _never(self, entity: Entity, found: _SurveyedTable) -> str | None:
        """Returns the reason why the entity is never compacted: its kind, or that its directory overlaps another's."""
        table = found.table
        return table.refusal(self.partition(entity)) or self.ground.refusal(table.id, entity.partition)

    def _old_abort(self, entity: Entity, settings: Settings) -> bool:
        aborts = self._aborts(entity)
        limit = settings.milliseconds("hive.compactor.aborted.txn.time.threshold")
        return aborts is not None and limit >= 0 and self.now_ms - aborts.oldest_start > limit

    def _decide(self, entity: Entity, found: _SurveyedTable) -> Decision:
        aborts = self._aborts(entity)
        age = None if aborts is None else self.now_ms - aborts.oldest_start
        count = 0 if aborts is None else aborts.count
        if entity.partition is None and found.table.partition_keys:
            # An aborted dynamic-partition write: the partitions it touched are not recorded.
            return decide(Facts(aborts=count, oldest_abort_age_ms=age), found.settings)
        partition = self.partition(entity)
        listing = self.site.storage.listing(path_of(self.site.storage, found.table, partition))
        self._must_agree(entity, found, listing.directories)
        directory = acid_directory(listing, found.write_ids, self.txns)
        inserts = found.table.is_insert_only
        facts = Facts.of(
            directory,
            held=self._held(found, directory),
            aborts=count,
            oldest_abort_age_ms=age,
            is_insert_only=inserts,
            minor_supported=not inserts or self.site.metastore.dialect.layout.has_visibility,  # rows have no write ID
        )
        decision = decide(facts, found.settings)
        ready = [e.id for e in self.queue.get(entity, ()) if e.state is State.READY_FOR_CLEANING]
        if isinstance(decision, CleanOnly) and ready:
            return NotNeeded(
                because=f"{decision.because}; compaction {ready[0]} is ready for cleaning and will remove them",
                numbers=decision.numbers,
                flips=("the end of the transactions that hold back the cleaner",),
            )
        return decision

    def _must_agree(self, entity: Entity, found: _SurveyedTable, names: Collection[str]) -> None:
        """Raises Disagreement if the metastore cannot have allocated a number in ``names`` (PROTOCOL 11.3).

        What the pass has read already is older than the listing; only if it leaves a doubt are the counters read again.
        """
        known = Numbers(
            newest=self.txns.high_watermark,
            next_write_id=found.next_write_id,
            compactions=self._compactions,
            has_visibility=self.site.metastore.dialect.layout.has_visibility,
        )
        if next(doubts(names, known), None) is not None:
            Given(self.site, [found.table], names).must_explain(self.site.target(entity), names)

    def _held(self, found: _SurveyedTable, directory: AcidDirectory) -> int:
        """Returns the number of aborted directories that our cleaner would leave as they are now (PROTOCOL 11.7)."""
        if not directory.aborted or not may(found.settings, Mode.CLEAN):
            return 0
        table = found.table
        return len(self.grace.held(table.database, table.name, directory.aborted, found.write_ids.aborted))

    def request(self, judged: Sequence[Considered]) -> list[Considered]:
        """Puts what is due into the queue in one transaction, and returns ``judged`` in their order with their rows."""
        due = [(c, request) for c in judged if (request := self._request(c)) is not None]
        if not due:
            return list(judged)
        answers: Sequence[int | CompactorError]
        try:
            answers = self.site.metastore.requests.request_all([request for _, request in due])
        except CompactorError as error:
            log.warning("%d compactions could not be requested: %s", len(due), error)
            answers = [error] * len(due)
        reach(Step.ENQUEUED)
        rows = {c.entity: _with_answer(c, request, a) for (c, request), a in zip(due, answers, strict=True)}
        return [rows.get(c.entity, c) for c in judged]

    def _request(self, considered: Considered) -> Request | None:
        """Returns the request for a decision, if it needs one. The cleaner finds aborted transactions by itself."""
        decision = considered.decision
        if decision is None or decision.type is None or isinstance(decision, AbortCleanup):
            return None
        found = self.found(considered.entity)
        if found is None:
            return None
        if not self.write or not may(found.settings, Mode.REQUEST):
            return None
        return Request(
            entity=considered.entity,
            type=decision.type,
            initiator=f"compactor-{self.site.host}-initiator",
            pool=found.settings.text("hive.compactor.worker.pool") or None,
        )


def _with_answer(considered: Considered, request: Request, answer: int | CompactorError) -> Considered:
    if isinstance(answer, Refused):
        return replace(considered, because=f"{considered.because}, but {answer}")
    if isinstance(answer, CompactorError):
        return Considered(entity=considered.entity, outcome="error", because=str(answer))
    log.info("%s: %s requested as %d: %s", request.entity, request.type.label, answer, considered.because)
    return replace(considered, entry_id=answer, pool=request.pool)


def _table_of(entity: Entity) -> Entity:
    return replace(entity, partition=None)


def _named(entity: Entity) -> Iterator[Entity]:
    """Yields ``entity`` under each name that its partition may be stored under, the recorded one first."""
    yield entity
    if entity.partition is not None and (less := escaped_once_less(entity.partition)) != entity.partition:
        yield replace(entity, partition=less)


def _by_entity(entries: Sequence[Entry]) -> Mapping[Entity, Sequence[Entry]]:
    grouped: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in entries:
        grouped[entry.entity].append(entry)
    return grouped
