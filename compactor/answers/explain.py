"""Explains one table: what the initiator would do to it now and why, and what the last runs achieved.

It writes nothing, needs neither Spark nor Airflow, and only read access to the database.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compactor.answers.show_compactions import compaction_row
from compactor.answers.show_rows import QuarantineRow, quarantine_of_table
from compactor.answers.survey import Survey, Surveyed
from compactor.base.errors import CompactorError
from compactor.cleaner.blockers import Blocker, blockers_of
from compactor.compaction.cleaning import CleaningFacts, Wait, may_clean
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import State
from compactor.initiator.candidate_scan import Considered
from compactor.metastore.catalog.values import Table
from compactor.settings.precedence import Settings
from compactor.site.hive_roles import HiveRoles, hive_roles
from compactor.site.mode import Mode, mode_of
from compactor.site.named_tables import find_table
from compactor.site.restored_database import sentences_about
from compactor.site.site import Site
from compactor.worker.plan_summary import PlanSummary

_LAST = 3  #: entries of the history, and runs, that are shown for each partition
_RUNS = 10_000  #: newest runs of the whole metastore that are searched for those of the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A row of the queue, what it waits for, and the transactions that hold back its cleaning."""

    entry: Entry
    waits_for: str | None
    blockers: tuple[Blocker, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            **compaction_row(self.entry).to_json(),
            "waits_for": self.waits_for,
            "blockers": [blocker.to_json() for blocker in self.blockers],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """One partition, or the table itself.

    ``runs`` are the figures of our last runs, as our state keeps them.
    """

    surveyed: Surveyed
    summary: PlanSummary = PlanSummary()  #: of a plan as of now
    queue: tuple[Queued, ...] = ()
    history: tuple[Entry, ...] = ()
    runs: tuple[Mapping[str, object], ...] = ()
    quarantine: tuple[QuarantineRow, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "partition": self.surveyed.entity.partition,
            "location": self.surveyed.location,
            **self.surveyed.content.to_json(),
            **considered_json(self.surveyed.considered),
            **self.summary.to_json(),
            "queue": [queued.to_json() for queued in self.queue],
            "history": [compaction_row(entry).to_json() for entry in self.history],
            "runs": [dict(run) for run in self.runs],
            "quarantine": [row.to_json() for row in self.quarantine],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting of this table that differs from its default, and its source."""

    key: str
    value: str
    source: str

    def to_json(self) -> dict[str, object]:
        return {"key": self.key, "value": self.value, "source": self.source}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole answer.

    ``protections`` are sentences about what keeps readers safe here and what does not.
    """

    table: Table
    mode: str
    mode_source: str
    settings: tuple[ChangedSetting, ...]
    spark_conf: Mapping[str, str]
    ignored: tuple[tuple[str, str], ...]
    partitions: tuple[PartitionExplanation, ...]
    unnamed: Considered | None
    hive: HiveRoles
    protections: tuple[str, ...]
    queue_elsewhere: tuple[Queued, ...] = ()  #: rows of the queue for partitions that the metastore does not list
    doubt: tuple[str, ...] = ()  #: why roles do nothing in this metastore (PROTOCOL 11.2)
    facts: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {
            "table": str(self.table),
            **self.facts,
            "mode": self.mode,
            "mode_source": self.mode_source,
            "settings": [changed.to_json() for changed in self.settings],
            "spark_conf": dict(self.spark_conf),
            "ignored_properties": [{"property": key, "reason": reason} for key, reason in self.ignored],
            "partitions": [partition.to_json() for partition in self.partitions],
            "unnamed_partitions": None if self.unnamed is None else considered_json(self.unnamed),
            "hive": self.hive.to_json(),
            "protections": list(self.protections),
            "queue_elsewhere": [queued.to_json() for queued in self.queue_elsewhere],
            "doubt": list(self.doubt),
        }


def considered_json(considered: Considered) -> dict[str, object]:
    """Returns what the initiator would do, the numbers behind it, and what would change it."""
    decision = considered.decision
    return {
        "outcome": considered.outcome,
        "because": considered.because,
        "numbers": dict(decision.numbers) if decision is not None else {},
        "flips": list(decision.flips) if decision is not None else [],
    }


def explain(site: Site, table: str, partition: str | None = None) -> Explanation:
    """Returns the explanation of ``db.table``, or of one partition (by its stored name, or ``k=v,k=v``).

    Raises:
        NotFound: there is no such table or partition.
        Refused: ``table`` is not the name of a table.
    """
    target_table = find_table(site.metastore.catalog, table)
    only = None if partition is None else site.metastore.catalog.resolve_partition(target_table, partition)
    settings = site.settings_for(target_table)
    survey = Survey(site)
    roles = hive_roles(site)
    queue, history, runs = (
        _group_queue(site, target_table, settings),
        _group_history(site, target_table),
        _group_runs(site, target_table),
    )
    quarantine = quarantine_of_table(site, target_table.database, target_table.name)
    partitions = tuple(
        PartitionExplanation(
            surveyed=row,
            summary=_summarize_plan(site, row, settings),
            queue=tuple(queue.get(row.entity, ())),
            history=tuple(history.get(row.entity, ()))[:_LAST],
            runs=tuple(runs.get(row.entity, ()))[:_LAST],
            quarantine=tuple(quarantine.get(row.entity, ())),
        )
        for row in survey.partitions(target_table, only)
    )
    return Explanation(
        table=target_table,
        mode=mode_of(settings).name.lower(),
        mode_source=settings.source("compactor.mode"),
        settings=_list_changed(settings),
        spark_conf=settings.spark_conf,
        ignored=settings.without_effect,
        partitions=partitions,
        unnamed=survey.unnamed(target_table),
        hive=roles,
        protections=tuple(_describe_protections(settings, roles)),
        queue_elsewhere=tuple(
            queued
            for entity, rows in queue.items()
            if only in (None, entity.partition) and entity not in {part.surveyed.entity for part in partitions}
            for queued in rows
        ),
        doubt=sentences_about(site),
        facts=_table_facts(target_table),
    )


def _summarize_plan(site: Site, row: Surveyed, settings: Settings) -> PlanSummary:
    """Returns the summary of the plan.

    Plans only where it may differ from the default: planning lists files.
    """
    decision = row.considered.decision
    many = row.content.deltas > settings.integer("hive.compactor.max.num.delta")
    if decision is None or decision.type is None or not (many or settings.boolean("compactor.naming.delay")):
        return PlanSummary()
    # Few tables need a plan, and planning brings the rewriting engine.
    from compactor.rewrite.plan.unit import SHAPES
    from compactor.worker.planning import preview_plan

    if decision.type not in SHAPES:
        return PlanSummary()
    try:
        return preview_plan(site, site.target(row.entity), decision.type).summary
    except CompactorError:  # a dry run and the request itself will report it
        return PlanSummary()


def _table_facts(table: Table) -> dict[str, object]:
    return {
        "owner": table.owner,
        "type": table.type,
        "location": table.location,
        "transactional": table.is_transactional,
        "insert_only": table.is_insert_only,
        "input_format": table.input_format,
        "partition_keys": [key.name for key in table.partition_keys],
        "buckets": table.buckets if table.buckets > 0 else None,
        "sort_columns": list(table.sort_columns),
    }


def _list_changed(settings: Settings) -> tuple[ChangedSetting, ...]:
    return tuple(
        ChangedSetting(key=row.key, value=row.value, source=row.source)
        for row in settings.explain()
        if row.source != "default"
    )


def _group_queue(site: Site, table: Table, settings: Settings) -> dict[Entity, list[Queued]]:
    rows: dict[Entity, list[Queued]] = defaultdict(list)
    for entry in site.metastore.entries.queue(database=table.database, table=table.name):
        rows[entry.entity].append(_explain_entry(site, entry, settings))
    return rows


def _explain_entry(site: Site, entry: Entry, settings: Settings) -> Queued:
    return Queued(entry=entry, waits_for=waits_for(site, entry, settings), blockers=blockers_of(site, entry))


def waits_for(site: Site, entry: Entry, settings: Settings) -> str | None:
    """Returns what an entry of the queue waits for; None while a worker has it."""
    if entry.left_to is not None:
        return entry.left_to
    if entry.state is not State.READY_FOR_CLEANING:
        return "a worker" if entry.state is State.INITIATED else None
    facts = CleaningFacts(
        lowest_open=site.lowest_open(),
        txn_state=site.metastore.commits.txn_state(entry),
        now_ms=site.metastore.now_ms(),
    )
    answer = may_clean(entry, facts, settings)
    return answer.because if isinstance(answer, Wait) else "the cleaner's next pass"


def _group_history(site: Site, table: Table) -> dict[Entity, list[Entry]]:
    rows: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.entries.history():
        if (entry.entity.database, entry.entity.table) == (table.database, table.name):
            rows[entry.entity].append(entry)
    return rows


def _group_runs(site: Site, table: Table) -> dict[Entity, list[Mapping[str, object]]]:
    """Returns our own figures by partition, newest first; empty if the site keeps no state of its own."""
    figures_of: dict[Entity, list[Mapping[str, object]]] = defaultdict(list)
    if site.state is None:
        return figures_of
    for run in site.state.runs.latest(site.name, _RUNS):
        if (run.entity.database, run.entity.table) == (table.database, table.name):
            figures = {
                name: getattr(run, name) for name in run.__slots__ if name not in ("metastore", "entity", "type")
            }
            figures_of[run.entity].append({**figures, "type": run.type.label})
    return figures_of


def _describe_protections(settings: Settings, roles: HiveRoles) -> Sequence[str]:
    sentences: list[str] = []
    mode = mode_of(settings)
    if mode is Mode.OBSERVE:
        sentences.append("Compactor writes nothing here (mode observe).")
    if mode is Mode.CLEAN:
        sentences.append("Compactor's cleaner waits for every transaction that was open when a compaction committed.")
    if mode < Mode.CLEAN:
        sentences.append("Obsolete directories are removed only by Hive's cleaner, under Hive's rules, or not at all.")
    if mode is Mode.CLEAN and (roles.cleaner_may_run or settings.boolean("hive.compactor.cleaner.on")):
        sentences.append(
            "Hive's own cleaner seems to run on this metastore. Its own gate does not wait for the newest transaction at "
            "the commit: switch it off (metastore.compactor.cleaner.on=false) so that the strict gate holds."
        )
    if settings.text("compactor.readers") != "visibility":
        sentences.append(
            "Readers without visibility (Trino) never see half of a minor compaction's pair (compactor.readers)."
        )
    else:
        sentences.append(
            "compactor.readers is visibility: a reader that looks at directories before they are committed may see "
            "half of a minor compaction's pair."
        )
    return sentences
