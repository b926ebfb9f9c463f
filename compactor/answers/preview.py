"""Dry runs: a compaction's inputs, the names of its outputs and the bytes it could copy.

Nothing is written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compactor.acid.names import DeltaKind
from compactor.answers.survey import Survey
from compactor.base.errors import CompactorError
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType, parse_type
from compactor.insight.estimates import Estimate, EstimatedWork, estimator_of, reencoded_of, store_of
from compactor.rewrite.full_acid.delete_events import load_delete_events
from compactor.rewrite.full_acid.output_format import fit_to_zones, output_types
from compactor.rewrite.full_acid.stripe_choice import Action, choose_actions, fit_to_class, in_order, target_tail
from compactor.rewrite.insert_only.rewrite_insert_only import preview_figures
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import SHAPES, Shape, Unit
from compactor.rows.acid_file import open_files
from compactor.settings.precedence import with_request
from compactor.site.named_tables import find_table
from compactor.site.site import Site, Target, must_be_compactable, must_lie_alone
from compactor.storage.stores import open_stores
from compactor.worker.file_formats import file_format_of, must_suit
from compactor.worker.plan_summary import PlanSummary
from compactor.worker.planning import NoPlan, PlanPreview, preview_plan, preview_plan_of
from compactor.worker.rebalance_view import must_be_possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The work of one entry's units. Sizes are bytes of stripes; delete events are always merged by key."""

    rows_in: int = 0
    rows_out: int = 0
    stripes_copied: int = 0
    stripes_reencoded: int = 0
    stripes_dropped: int = 0
    bytes_copied: int = 0
    bytes_reencoded: int = 0
    bytes_dropped: int = 0
    delete_events_in: int = 0
    delete_events_out: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One partition's dry run.

    Names in ``outputs`` have the number that the next transaction would get now.

    ``nothing`` says why there is nothing to merge, ``error`` why the partition cannot be compacted; in both cases there are
    neither inputs nor outputs. ``is_noop`` is true if the cleaner would have nothing to do either. ``files`` is the number
    of files of ``store`` to open.
    """

    entity: Entity
    type: CompactionType
    because: str
    nothing: str | None = None
    is_noop: bool = False
    error: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    input_bytes: int = 0
    highest_write_id: int | None = None
    summary: PlanSummary = PlanSummary()
    cost: Cost = Cost()
    files: int = 0
    store: str = ""
    expected: Estimate | None = None  #: None if too few similar runs have ended

    def to_json(self) -> dict[str, object]:
        return {
            "table": f"{self.entity.database}.{self.entity.table}",
            "partition": self.entity.partition,
            "type": self.type.label.lower(),
            "because": self.because,
            "nothing": self.nothing,
            "noop": self.is_noop,
            "error": self.error,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "input_bytes": self.input_bytes,
            "highest_write_id": self.highest_write_id,
            **self.summary.to_json(),
            **{name: getattr(self.cost, name) for name in self.cost.__slots__},
            "files": self.files,
            "expected": None if self.expected is None else self.expected.to_json(),
        }


def preview(
    site: Site,
    table: str,
    *,
    partition: str | None = None,
    type: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> list[Preview]:
    """Returns the dry run of one partition of a table, or of every partition.

    Without ``type``, previews the compaction that the initiator would request, and a major one where it would request
    nothing. ``properties`` are the request's.

    Raises:
        NotFound: there is no such table or partition.
        Refused: the table cannot be compacted, or ``type`` is not a type of compaction.
        NotSupported: this release does not do it.
        BadSetting: a property is not a setting, or not one that a request may set.
        BadFile: a file of the one requested partition cannot be read; with several, each reports its own ``error``.
    """
    target_table = find_table(site.metastore.catalog, table)
    must_be_compactable(target_table)
    requested_type = None if type is None else parse_type(type)
    if requested_type is CompactionType.REBALANCE:
        must_be_possible(target_table, buckets=None, order_by=None)
    names: list[str | None] = [None]
    if partition is not None:
        names = [site.metastore.catalog.resolve_partition(target_table, partition)]
    elif target_table.partition_keys:
        names = [p.name for p in site.metastore.catalog.partitions(target_table)]
    request_properties = properties or {}
    must_suit(
        target_table,
        with_request(site.settings_for(target_table), request_properties).output_class,
        site.metastore.dialect.layout,
    )
    site = site.for_a_pass()
    survey = Survey(site)
    entities = [Entity(database=target_table.database, table=target_table.name, partition=name) for name in names]
    if len(entities) == 1:
        previews = [_preview(site, survey, entities[0], requested_type, request_properties)]
    else:
        previews = [_preview_or_error(site, survey, entity, requested_type, request_properties) for entity in entities]
    return _with_estimates(site, previews)


def _with_estimates(site: Site, previews: Sequence[Preview]) -> list[Preview]:
    """Adds to each preview the estimate for compacting it alone."""
    estimators = {
        store: estimator_of(site.state, site.name, store)
        for store in {preview.store for preview in previews if preview.files}
    }
    return [
        replace(preview, expected=estimators[preview.store].estimate(_work_of(preview))) if preview.files else preview
        for preview in previews
    ]


def _work_of(preview: Preview) -> EstimatedWork:
    cost = preview.cost
    rest = preview.input_bytes - cost.bytes_copied
    return EstimatedWork(
        store=preview.store,
        type=preview.type.label,
        files=preview.files,
        bytes_copied=cost.bytes_copied,
        bytes_reencoded=reencoded_of(rest, cost.stripes_reencoded, cost.stripes_dropped),
    )


def _preview_or_error(
    site: Site, survey: Survey, entity: Entity, requested_type: CompactionType | None, properties: Mapping[str, str]
) -> Preview:
    """Returns a preview, with an error if the partition cannot be read, so that the others go on."""
    try:
        return _preview(site, survey, entity, requested_type, properties)
    except CompactorError as error:
        return Preview(entity=entity, type=requested_type or CompactionType.MAJOR, because="", error=str(error))


def _preview(
    site: Site, survey: Survey, entity: Entity, requested_type: CompactionType | None, properties: Mapping[str, str]
) -> Preview:
    kind, because = (requested_type, "it was requested") if requested_type is not None else _choose_type(survey, entity)
    target = site.target(entity, properties)
    must_lie_alone(site, target)
    file_format_of(site, target)  # raises where files of its format are not compacted
    planning = preview_plan(site, target, kind)
    if isinstance(planning, NoPlan):
        return Preview(
            entity=entity,
            type=kind,
            because=because,
            nothing=planning.because,
            is_noop=planning.leaves_nothing,
            summary=planning.summary,
        )
    result = _add_cost(target, kind, because, planning)
    if kind is CompactionType.REBALANCE:
        return _with_all_reencoded(result)
    plan = planning.plan
    becomes_major = result.cost.delete_events_in or plan.file_format is not None
    if plan.shape is Shape.MINOR and not plan.layout.has_visibility and becomes_major:
        why = "with deletes in it" if plan.file_format is None else "of an insert-only table"
        because += f"; {why}, it becomes a major on Hive 3.1"
        return _add_cost(target, kind, because, preview_plan_of(site, target, planning.scope, CompactionType.MAJOR))
    return result


def _choose_type(survey: Survey, entity: Entity) -> tuple[CompactionType, str]:
    considered = survey.consider(entity)
    chosen = considered.decision.type if considered.decision is not None else None
    if chosen in SHAPES and chosen is not None:
        return chosen, considered.because
    because = f"the initiator would request nothing ({considered.because}), so this is what a major would do"
    return CompactionType.MAJOR, because


def _add_cost(target: Target, kind: CompactionType, because: str, planning: PlanPreview) -> Preview:
    plan = planning.plan
    costs = [(output, sum(map(_estimate_cost, output.units), Cost())) for output in plan.outputs]
    return Preview(
        entity=target.entity,
        type=kind,
        because=f"{because}; {plan.left}" if plan.left else because,
        inputs=plan.inputs,
        outputs=tuple(name for output, cost in costs for name in _name_outputs(output, cost)),
        input_bytes=plan.input_bytes,
        files=sum(len(unit.inserts) + len(unit.deletes) for output in plan.outputs for unit in output.units),
        store=store_of(target.location),
        highest_write_id=plan.highest_write_id,
        summary=planning.summary,
        cost=sum((cost for _, cost in costs), Cost()),
    )


def _name_outputs(output: Plan, cost: Cost) -> list[str]:
    """Returns the names that ``rewrite.publish.stage`` would give.

    A minor writes a delta, a delete delta or both, depending on what remains; it writes a delta if nothing remains.
    """
    kinds = [DeltaKind.INSERT]
    if output.shape is Shape.MINOR and cost.delete_events_out:
        kinds = [DeltaKind.INSERT, DeltaKind.DELETE] if cost.rows_out else [DeltaKind.DELETE]
    return [output.directory(kind) for kind in kinds]


def _with_all_reencoded(preview: Preview) -> Preview:
    """Counts every stripe as re-encoded: a rebalance changes every ROW__ID."""
    cost = replace(
        preview.cost,
        stripes_copied=0,
        stripes_reencoded=preview.cost.stripes_copied + preview.cost.stripes_reencoded,
        bytes_copied=0,
        bytes_reencoded=preview.cost.bytes_copied + preview.cost.bytes_reencoded,
    )
    return replace(preview, cost=cost)


def _estimate_cost(unit: Unit) -> Cost:
    if unit.file_format is not None:
        return _estimate_insert_only_cost(unit)
    if unit.rebalance is None:
        return _estimate_acid_cost(unit)
    # Rows and delete events meet only within a file number, even where one unit rewrites all of them.
    parts = [
        replace(unit, number=part.number, inserts=part.inserts, deletes=part.deletes, rebalance=None)
        for part in unit.rebalance.parts
    ]
    return sum(map(_estimate_acid_cost, parts), Cost())


def _estimate_insert_only_cost(unit: Unit) -> Cost:
    figures = preview_figures(unit, open_stores(unit.stores))
    return Cost(
        rows_in=figures.rows_in,
        rows_out=figures.rows_out,
        stripes_copied=figures.stripes_copied,
        stripes_reencoded=figures.stripes_encoded,
        bytes_copied=figures.bytes_copied,
        bytes_reencoded=figures.bytes_in - figures.bytes_copied,
    )


def _estimate_acid_cost(unit: Unit) -> Cost:
    events = load_delete_events(
        unit.location, unit.deletes, unit.number, unit.write_ids, tempfile.gettempdir(), open_stores(unit.stores)
    )
    kept, applied = events.events.split(unit.applies_from)
    with open_files(
        unit.location, unit.inserts, unit.number, open_stores(unit.stores), zone=unit.default_zone
    ) as files:
        choices = choose_actions(files, applied, unit.write_ids, look_always=unit.looks_always)
        is_ordered = in_order(choices)
        like = target_tail(choices, output_types(unit, files), unit.output_class)
        final = fit_to_class(choices, like, unit.small_stripe_bytes, unit.output_class) if is_ordered else []
        final = fit_to_zones(final)
        copied = [c for c in final if c.action is Action.COPY]
        dropped = [c for c in choices if c.action is Action.DROP]
        everything = sum(c.length for c in choices)
        bytes_copied, bytes_dropped = sum(c.length for c in copied), sum(c.length for c in dropped)
        return Cost(
            rows_in=sum(c.rows for c in choices),
            rows_out=sum(c.kept for c in choices),
            stripes_copied=len(copied),
            stripes_reencoded=len(choices) - len(copied) - len(dropped),
            stripes_dropped=len(dropped),
            bytes_copied=bytes_copied,
            bytes_reencoded=everything - bytes_copied - bytes_dropped,
            bytes_dropped=bytes_dropped,
            delete_events_in=events.total,
            delete_events_out=len(kept) if unit.shape is Shape.MINOR else 0,
        )
