"""The data that one pass of the initiator reads once, and its decision about each candidate."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from compactor.acid.directory import AcidDirectory, acid_directory
from compactor.acid.partition_names import recorded_names
from compactor.acid.write_ids import ValidTxnList
from compactor.base.errors import CompactorError, Disagreement, Refused, failing_alone
from compactor.base.identities import initiator_id
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.compaction.claim_order import GUARD
from compactor.compaction.decision import READERS, AbortCleanup, CleanOnly, Decision, Facts, NotNeeded, decide
from compactor.compaction.decision_reuse import Basis, Lasts
from compactor.compaction.disagreement import Numbers, find_doubts
from compactor.compaction.eligibility import (
    Candidate,
    Eligible,
    Skipped,
    check_eligibility,
    find_failure_pause_end,
)
from compactor.compaction.health import Condition
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import State
from compactor.initiator.past_compactions import PastCompactions
from compactor.metastore.catalog.values import PartitionPlace
from compactor.metastore.transactions.components import Aborted
from compactor.settings.precedence import Settings
from compactor.site.abort_grace import AbortGrace
from compactor.site.directory_claims import DirectoryClaims
from compactor.site.files_and_metastore import AllocatedIds
from compactor.site.mode import Mode, may
from compactor.site.overlapping_locations import Ground
from compactor.site.site import Moment, Site, claims_of, ground_of, path_of
from compactor.site.surveyed_tables import SurveyedTable, SurveyedTables, TableName
from compactor.state.decisions import Decided
from compactor.state.seen_conditions import SeenEntity

log = logging.getLogger(__name__)
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
    lasts: Lasts = Lasts.NOT
    basis: Basis | None = None  #: of a decision that may stand in later passes
    stands: bool = False  #: true for a decision of an earlier pass
    measured: Decision | None = None  #: the decision about a skipped entity, if it were not skipped

    @property
    def condition(self) -> Condition | None:
        """The figures of the directory; None if it was not listed."""
        listed = self.decision or self.measured
        return None if listed is None else Condition.from_numbers(listed.numbers)

    def as_decided(self, role: str) -> Decided:
        """Returns the decision as our state keeps it, made in a pass of ``role``."""
        numbers = dict(self.decision.numbers) if self.decision is not None else {}
        return Decided(entity=self.entity, outcome=self.outcome, because=self.because, numbers=numbers, role=role)


@dataclass(slots=True)
class CandidateScan:
    """The data that one pass reads once, or once per page of tables, with few statements."""

    site: Site
    write: bool = True
    txns: ValidTxnList = field(init=False)
    now_ms: int = field(init=False)
    full_round_ms: int = field(init=False)  #: the time within which every candidate is listed
    queue: Mapping[TableName, Mapping[str | None, Sequence[Entry]]] = field(init=False)
    past: PastCompactions = field(init=False)
    aborts: Mapping[Entity, Aborted] = field(init=False)
    grace: AbortGrace = field(init=False)
    ground: Ground = field(init=False)
    claims: DirectoryClaims = field(init=False)
    tables: SurveyedTables = field(init=False)
    _moment: Moment = field(init=False)
    _aborted: defaultdict[TableName, set[str | None]] = field(init=False)
    _compactions: Mapping[TxnId, bool] = field(init=False)

    def __post_init__(self) -> None:
        metastore = self.site.metastore
        self.txns = metastore.transactions.snapshot()
        self._moment = self.site.moment()
        self.now_ms = self._moment.now_ms
        self.full_round_ms = sweep_ms(self.site.settings)
        self.turn_to(self.fresh_tables(), PastCompactions(self.site))
        self.queue = _by_table(metastore.entries.queue())
        self.aborts = metastore.components.aborts()
        self._aborted = defaultdict(set)
        for aborted_entity in self.aborts:
            self._aborted[aborted_entity.database, aborted_entity.table].add(aborted_entity.partition)
        self.grace = AbortGrace(self.site)
        self.ground = ground_of(self.site)
        self.claims = claims_of(self.site)
        self._compactions = dict.fromkeys(metastore.transactions.not_compactions(), False)

    def fresh_tables(self) -> SurveyedTables:
        """Returns an empty cache of tables in this pass's snapshot."""
        return SurveyedTables(self.site, self.txns, self._moment)

    def turn_to(self, tables: SurveyedTables, past: PastCompactions) -> None:
        """Switches to the data of another page of tables."""
        self.tables, self.past = tables, past

    def candidate_tables(self) -> Mapping[TableName, int]:
        """Returns the tables with recorded writes or aborts, each with the number of its recorded writes."""
        return dict.fromkeys(self._aborted, 0) | self.site.metastore.components.written_tables()

    def tables_with_aborts(self) -> Collection[TableName]:
        """Returns the tables with aborted transactions, by their recorded names."""
        return self._aborted.keys()

    def aborted_in(self, table: TableName) -> Set[str | None]:
        """Returns the partitions of a table with aborted transactions, by their recorded names."""
        return self._aborted.get(table, frozenset())

    def queued(self, entity: Entity) -> Sequence[Entry]:
        """Returns the rows of the queue for an entity."""
        return self.queue.get((entity.database, entity.table), {}).get(entity.partition, ())

    def last_compacted(self, entity: Entity) -> int | None:
        """Returns the time of the last commit that stands, cleaned or not (epoch ms)."""
        waiting = (entry.committed_at for entry in self.queued(entity))
        return max((at for at in (self.past.ended(entity).committed_at, *waiting) if at is not None), default=None)

    def aborts_of(self, entity: Entity) -> Aborted | None:
        """Returns the aborted transactions of the entity, under every form of its name."""
        if (entity.database, entity.table) not in self._aborted:  # nearly always
            return None
        names = recorded_names(entity.partition, lowered=True)
        matches = [aborts for name in names if (aborts := self.aborts.get(replace(entity, partition=name))) is not None]
        if len(matches) < 2:
            return matches[0] if matches else None
        return Aborted(
            count=sum(aborts.count for aborts in matches),
            oldest_start=min(aborts.oldest_start for aborts in matches),
            total=sum(aborts.total for aborts in matches),
        )

    def as_seen(self, considered: Considered) -> SeenEntity:
        """Returns the condition that people see until the next pass."""
        decision = considered.decision
        return SeenEntity(
            entity=considered.entity,
            outcome=considered.outcome,
            because=considered.because,
            flips=decision.flips if decision is not None else (),
            condition=considered.condition,
            last_compacted=self.last_compacted(considered.entity),
            at=self.now_ms,
            basis=considered.basis,
            look_at=self._when_to_look(considered),
        )

    def _when_to_look(self, considered: Considered) -> int | None:
        """Returns from when on passes consider the entity again, even if nothing recorded has changed.

        Returns 0 for each pass, and None if time does not change the decision.
        """
        entity, basis, decision = considered.entity, considered.basis, considered.decision
        requests = decision is not None and decision.type is not None
        if basis is None or basis.open is not None or requests:
            return 0
        if self.queued(entity) or self.aborts_of(entity) is not None:
            return 0
        history = self.past.entries(entity)
        surveyed = self.tables.load_table(entity) if history else None
        end = None if surveyed is None else find_failure_pause_end(history, surveyed.settings)
        return None if end is None or end <= self.now_ms else end

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

    def measure(self, considered: Considered) -> Considered:
        """Returns a skipped candidate with the figures of its directory, unless it is never compacted."""
        entity = considered.entity
        try:
            with failing_alone(entity):
                surveyed = self.tables.load_table(entity)
                if (
                    surveyed is None
                    or not self.tables.exists(entity)
                    or self._reason_never(entity, surveyed) is not None
                ):
                    return considered
                return replace(considered, measured=self._decide(entity, surveyed)[0])
        except CompactorError as error:
            log.info("%s: its directory is not measured: %s", entity, error)
            return considered

    def _consider(self, entity: Entity) -> Considered:
        surveyed = self.tables.load_table(entity)
        settings = surveyed.settings if surveyed else self.site.settings.of_database(entity.database)
        verdict = self.verdict(entity, surveyed, settings)
        if isinstance(verdict, Skipped):
            if verdict.record and self.write and may(settings, Mode.REQUEST):
                self.site.metastore.requests.did_not_initiate(entity, verdict.because)
            return Considered(entity=entity, outcome="skipped", because=verdict.because, lasts=Lasts.WHILE_UNCHANGED)
        assert surveyed is not None  # a missing table is never eligible
        decision, lasts = self._decide(entity, surveyed)
        outcome = type(decision).__name__.lower()
        return Considered(entity=entity, outcome=outcome, because=decision.because, decision=decision, lasts=lasts)

    def verdict(self, entity: Entity, surveyed: SurveyedTable | None, settings: Settings) -> Eligible | Skipped:
        """Returns whether an entity is considered; see ``check_eligibility``."""
        return check_eligibility(self._candidate(entity, surveyed, settings), settings, self.now_ms)

    def ordinary_verdict(self, surveyed: SurveyedTable) -> Eligible | Skipped:
        """Returns the verdict on a candidate without queued, failed or aborted work.

        A candidate is a partition, or an unpartitioned table.

        For a partition, the verdict assumes files that are not sorted.
        """
        table = surveyed.table
        ordinary = PartitionPlace(id=0, name="", location="") if table.is_partitioned else None
        candidate = Candidate(
            entity=Entity(database=table.database, table=table.name, partition=None if ordinary is None else ""),
            never=table.refusal(ordinary),
            is_insert_only=table.is_insert_only,
            is_partitioned=table.is_partitioned,
            table_parameters=table.parameters,
            database_parameters=table.database_parameters,
        )
        return check_eligibility(candidate, surveyed.settings, self.now_ms)

    def _candidate(self, entity: Entity, surveyed: SurveyedTable | None, settings: Settings) -> Candidate:
        table = surveyed.table if surveyed else None
        return Candidate(
            entity=entity,
            exists=self.tables.exists(entity),
            never=self._reason_never(entity, surveyed) if surveyed else None,
            is_insert_only=table.is_insert_only if table else False,
            is_partitioned=bool(table.partition_keys) if table else False,
            table_parameters=table.parameters if table else {},
            database_parameters=table.database_parameters if table else {},
            queued=self.queued(entity),
            history=self.past.entries(entity),
            has_old_abort=self.has_old_abort(entity, settings),
        )

    def _reason_never(self, entity: Entity, surveyed: SurveyedTable) -> str | None:
        """Returns why the entity is never compacted: its kind, or an overlap of its directory."""
        table = surveyed.table
        return table.refusal(self.tables.partition(entity)) or self.ground.refusal(table.id, entity.partition)

    def has_old_abort(self, entity: Entity, settings: Settings) -> bool:
        """Returns true if its oldest aborted transaction is past hive.compactor.aborted.txn.time.threshold."""
        aborts = self.aborts_of(entity)
        limit = settings.milliseconds("hive.compactor.aborted.txn.time.threshold")
        return aborts is not None and limit >= 0 and self.now_ms - aborts.oldest_start > limit

    def _decide(self, entity: Entity, surveyed: SurveyedTable) -> tuple[Decision, Lasts]:
        aborts = self.aborts_of(entity)
        age = None if aborts is None else self.now_ms - aborts.oldest_start
        count = 0 if aborts is None else aborts.count
        if entity.partition is None and surveyed.table.partition_keys:
            # The record of an aborted dynamic-partition write does not name its partitions.
            return decide(Facts(aborts=count, oldest_abort_age_ms=age), surveyed.settings), Lasts.WHILE_UNCHANGED
        partition = self.tables.partition(entity)
        location = path_of(self.site.storage, surveyed.table, partition)
        listing = self.site.storage.listing(location)
        self.claims.must_be_free(surveyed.table, location, listing)
        self._must_agree(entity, surveyed, listing.directories)
        directory = acid_directory(listing, surveyed.write_ids, self.txns)
        inserts = surveyed.table.is_insert_only
        facts = Facts.from_directory(
            directory,
            held=self._count_in_grace(surveyed, directory),
            aborts=count,
            oldest_abort_age_ms=age,
            is_insert_only=inserts,
            minor_supported=not inserts or self.site.metastore.dialect.layout.has_visibility,  # rows have no write ID
        )
        return self._unless_cleaner_removes(entity, decide(facts, surveyed.settings)), _how_long_it_lasts(directory)

    def _unless_cleaner_removes(self, entity: Entity, decision: Decision) -> Decision:
        """Returns ``decision``, unless it only requests a cleaning that is already queued."""
        ready = [e.id for e in self.queued(entity) if e.state is State.READY_FOR_CLEANING]
        if not (isinstance(decision, CleanOnly) and ready):
            return decision
        return NotNeeded(
            because=f"{decision.because}; compaction {ready[0]} is ready for cleaning and will remove them",
            numbers=decision.numbers,
            flips=("the end of the transactions that hold back the cleaner",),
        )

    def _must_agree(self, entity: Entity, surveyed: SurveyedTable, names: Collection[str]) -> None:
        """Raises Disagreement if the metastore cannot have allocated a number in ``names`` (PROTOCOL 11.3).

        The counters that the pass has read are older than the listing. They are read again only if they leave a doubt.
        """
        known = Numbers(
            newest=self.txns.high_watermark,
            next_write_id=surveyed.next_write_id,
            compactions=self._compactions,
            has_visibility=self.site.metastore.dialect.layout.has_visibility,
        )
        if next(find_doubts(names, known), None) is not None:
            AllocatedIds(self.site, [surveyed.table], names).must_explain(self.site.target(entity), names)

    def _count_in_grace(self, surveyed: SurveyedTable, directory: AcidDirectory) -> int:
        """Returns the number of aborted directories that our cleaner would not remove yet (PROTOCOL 11.7)."""
        if not directory.aborted or not may(surveyed.settings, Mode.CLEAN):
            return 0
        table = surveyed.table
        return len(self.grace.names_in_grace(table.database, table.name, directory.aborted, surveyed.write_ids.aborted))

    def request(self, judged: Sequence[Considered]) -> list[Considered]:
        """Puts due candidates into the queue in one transaction, and returns all with their rows."""
        due = [(c, request) for c in judged if (request := self._request(c)) is not None]
        if not due:
            return list(judged)
        answers: Sequence[int | CompactorError]
        try:
            self.site.metastore.claim_token.get_or_create()  # so that a backup from before the first compaction has it
            answers = self.site.metastore.requests.request_all([request for _, request in due])
        except CompactorError as error:
            log.warning("%d compactions could not be requested: %s", len(due), error)
            answers = [error] * len(due)
        reach(Step.ENQUEUED)
        rows = {c.entity: _with_answer(c, request, a) for (c, request), a in zip(due, answers, strict=True)}
        return [rows.get(c.entity, c) for c in judged]

    def would_request(self, considered: Considered) -> bool:
        """Returns true if the decision puts a row into the queue."""
        return self._request(considered) is not None

    def _request(self, considered: Considered) -> Request | None:
        """Returns the request for a decision, if it needs one.

        Aborted transactions need none: the cleaner finds them.
        """
        decision = considered.decision
        if decision is None or decision.type is None or isinstance(decision, AbortCleanup):
            return None
        surveyed = self.tables.load_table(considered.entity)
        if surveyed is None:
            return None
        if not self.write or not may(surveyed.settings, Mode.REQUEST):
            return None
        return Request(
            entity=considered.entity,
            type=decision.type,
            initiator=initiator_id(self.site.host, GUARD if READERS in decision.because else "initiator"),
            pool=surveyed.settings.text("hive.compactor.worker.pool") or None,
        )


def _with_answer(considered: Considered, request: Request, answer: int | CompactorError) -> Considered:
    if isinstance(answer, Refused):
        return replace(considered, because=f"{considered.because}, but {answer}")
    if isinstance(answer, CompactorError):
        return Considered(entity=considered.entity, outcome="error", because=str(answer))
    log.info("%s: %s requested as %d: %s", request.entity, request.type.label, answer, considered.because)
    return replace(considered, entry_id=answer, pool=request.pool)


def sweep_ms(settings: Settings) -> int:
    """Returns the time in ms within which every entity is listed once."""
    return settings.milliseconds("hive.compactor.check.interval") * settings.integer("compactor.full.sweep")


def _how_long_it_lasts(directory: AcidDirectory) -> Lasts:
    """Returns for how long a decision about ``directory`` stands.

    Aborted directories may be removed, or their grace time may end, without a change of any row. A compaction that nobody
    sees yet may commit after the state of its row has changed.
    """
    if directory.aborted or directory.unseen or directory.unparsable:
        return Lasts.NOT
    return Lasts.WHILE_OPEN if directory.waiting else Lasts.WHILE_UNCHANGED


def _by_table(entries: Sequence[Entry]) -> Mapping[TableName, Mapping[str | None, Sequence[Entry]]]:
    grouped: defaultdict[TableName, defaultdict[str | None, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        grouped[entry.entity.database, entry.entity.table][entry.entity.partition].append(entry)
    return grouped
