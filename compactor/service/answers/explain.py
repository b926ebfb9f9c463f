"""The printable answer of one table: what would happen now, why, what would flip it, what the last runs brought.

Nothing is written, neither Spark nor Airflow is needed, and a database that can only be read is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compactor.compaction.cleaning import CleaningFacts, Wait, may_clean
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import State
from compactor.errors import CompactorError
from compactor.metastore.catalog.values import Table
from compactor.rewrite.plan.unit import SHAPES
from compactor.service import repair
from compactor.service.answers import show
from compactor.service.answers.survey import Survey, Surveyed
from compactor.service.doctor.hive_roles import HiveRoles, hive_roles
from compactor.service.mode import Mode, mode_of
from compactor.service.requests.request import parse_table
from compactor.service.roles.blockers import Blocker, blockers
from compactor.service.roles.initiator import Considered
from compactor.service.site import Site
from compactor.service.worker.planning import PlanSummary, preview_plan
from compactor.settings.precedence import Settings

_LAST = 3  #: entries of the history, and runs, that are told for each partition
_RUNS = 10_000  #: newest runs of the whole metastore among which those of one table are looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A row of the queue: what it waits for, and who keeps the cleaner away from it."""

    entry: Entry
    waits_for: str | None
    blockers: tuple[Blocker, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            **show.compaction_row(self.entry).to_json(),
            "waits_for": self.waits_for,
            "blockers": [blocker.to_json() for blocker in self.blockers],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """One partition, or the table itself. ``runs`` are figures of our last runs, as our state keeps them."""

    surveyed: Surveyed
    summary: PlanSummary = PlanSummary()  #: of the plan that would be made now
    queue: tuple[Queued, ...] = ()
    history: tuple[Entry, ...] = ()
    runs: tuple[Mapping[str, object], ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "partition": self.surveyed.entity.partition,
            "location": self.surveyed.location,
            **self.surveyed.content.to_json(),
            **considered_json(self.surveyed.considered),
            **self.summary.to_json(),
            "queue": [queued.to_json() for queued in self.queue],
            "history": [show.compaction_row(entry).to_json() for entry in self.history],
            "runs": [dict(run) for run in self.runs],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A setting of this table that is not its default, and where it comes from."""

    key: str
    value: str
    source: str

    def to_json(self) -> dict[str, object]:
        return {"key": self.key, "value": self.value, "source": self.source}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All of it. ``protections`` are sentences on what keeps readers safe here, and what does not."""

    table: Table
    mode: str
    mode_source: str
    settings: tuple[Changed, ...]
    spark_conf: Mapping[str, str]
    ignored: tuple[tuple[str, str], ...]
    partitions: tuple[PartitionExplanation, ...]
    unnamed: Considered | None
    hive: HiveRoles
    protections: tuple[str, ...]
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
        }


def considered_json(considered: Considered) -> dict[str, object]:
    """What the initiator would do, with its numbers and what would flip it."""
    decision = considered.decision
    return {
        "outcome": considered.outcome,
        "because": considered.because,
        "numbers": dict(decision.numbers) if decision is not None else {},
        "flips": list(decision.flips) if decision is not None else [],
    }


def explain(site: Site, table: str) -> Explanation:
    """The answer for ``db.table``.

    Raises:
        NotFound: there is no such table.
        Refused: ``table`` is no name of a table.
    """
    found = site.metastore.catalog.table(*parse_table(table))
    settings = site.settings_for(found)
    survey = Survey(site)
    roles = hive_roles(site)
    queue, history, runs = _queue(site, found, settings), _history(site, found), _runs(site, found)
    partitions = tuple(
        PartitionExplanation(
            surveyed=row,
            summary=_summary(site, row, settings),
            queue=tuple(queue.get(row.entity, ())),
            history=tuple(history.get(row.entity, ()))[:_LAST],
            runs=tuple(runs.get(row.entity, ()))[:_LAST],
        )
        for row in survey.partitions(found)
    )
    return Explanation(
        table=found,
        mode=mode_of(settings).name.lower(),
        mode_source=settings.source("compactor.mode"),
        settings=_changed(settings),
        spark_conf=settings.spark_conf,
        ignored=settings.ignored,
        partitions=partitions,
        unnamed=survey.unnamed(found),
        hive=roles,
        protections=tuple(_protections(settings, roles)),
        facts=_facts(found),
    )


def _summary(site: Site, row: Surveyed, settings: Settings) -> PlanSummary:
    """Returns the summary of the plan; made only where it may differ from the default, since it takes one more listing."""
    decision = row.considered.decision
    many = row.content.deltas > settings.integer("hive.compactor.max.num.delta")
    if decision is None or decision.type not in SHAPES or not (many or settings.boolean("compactor.naming.delay")):
        return PlanSummary()
    try:
        return preview_plan(site, site.target(row.entity), decision.type).summary
    except CompactorError:  # a dry run reports it, and so does the request
        return PlanSummary()


def _facts(table: Table) -> dict[str, object]:
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


def _changed(settings: Settings) -> tuple[Changed, ...]:
    return tuple(
        Changed(key=row.key, value=row.value, source=row.source)
        for row in settings.explain()
        if row.source != "default"
    )


def _queue(site: Site, table: Table, settings: Settings) -> dict[Entity, list[Queued]]:
    rows: dict[Entity, list[Queued]] = defaultdict(list)
    for entry in site.metastore.entries.queue(database=table.database, table=table.name):
        rows[entry.entity].append(_queued(site, entry, settings))
    return rows


def _queued(site: Site, entry: Entry, settings: Settings) -> Queued:
    return Queued(entry=entry, waits_for=waits_for(site, entry, settings), blockers=blockers(site, entry))


def waits_for(site: Site, entry: Entry, settings: Settings) -> str | None:
    """What has to happen before an entry of the queue goes on; None while somebody works on it."""
    if entry.state is not State.READY_FOR_CLEANING:
        return "a worker" if entry.state is State.INITIATED else None
    facts = CleaningFacts(
        lowest_open=repair.lowest_open(site),
        txn_state=site.metastore.commits.txn_state(entry),
        now_ms=site.metastore.now_ms(),
    )
    answer = may_clean(entry, facts, settings)
    return answer.because if isinstance(answer, Wait) else "the cleaner's next pass"


def _history(site: Site, table: Table) -> dict[Entity, list[Entry]]:
    rows: dict[Entity, list[Entry]] = defaultdict(list)
    for entry in site.metastore.entries.history():
        if (entry.entity.database, entry.entity.table) == (table.database, table.name):
            rows[entry.entity].append(entry)
    return rows


def _runs(site: Site, table: Table) -> dict[Entity, list[Mapping[str, object]]]:
    """Our own figures, newest first. Where the site keeps no state of its own there are none to tell."""
    told: dict[Entity, list[Mapping[str, object]]] = defaultdict(list)
    if site.state is None:
        return told
    for run in site.state.runs.latest(site.name, _RUNS):
        if (run.entity.database, run.entity.table) == (table.database, table.name):
            figures = {
                name: getattr(run, name) for name in run.__slots__ if name not in ("metastore", "entity", "type")
            }
            told[run.entity].append({**figures, "type": run.type.label})
    return told


def _protections(settings: Settings, roles: HiveRoles) -> Sequence[str]:
    said: list[str] = []
    mode = mode_of(settings)
    if mode is Mode.OBSERVE:
        said.append("Compactor writes nothing here (mode observe).")
    if mode is Mode.CLEAN:
        said.append("Compactor's cleaner waits for every transaction that was open when a compaction committed.")
    if mode < Mode.CLEAN:
        said.append("Obsolete directories are removed by Hive's cleaner alone, by Hive's rules, or by nobody.")
    if mode is Mode.CLEAN and (roles.cleaner_may_run or settings.boolean("hive.compactor.cleaner.on")):
        said.append(
            "Hive's own cleaner seems to run on this metastore and cleans by its own gate, which lets through the newest "
            "transaction at the commit: switch it off (metastore.compactor.cleaner.on=false) for the strict gate to hold."
        )
    if settings.text("compactor.readers") != "visibility":
        said.append(
            "Readers without visibility (Trino) never meet half of a minor compaction's pair (compactor.readers)."
        )
    else:
        said.append(
            "compactor.readers is visibility: a reader that looks at directories before they are committed may meet "
            "half of a minor compaction's pair."
        )
    return said
