"""Reads the view of a compaction and makes its plan, for the worker and for previews.

The worker and a preview differ only in three parameters: the transaction (a preview has none yet), the write ID of a
rebalance (allocated, or the next one) and the options of the pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.listing import Listing
from compactor.base.errors import LockNotGranted
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.decision import NothingToDo, check_enough
from compactor.compaction.states import CompactionType
from compactor.orc.format.java_zones import default_zone
from compactor.rewrite.full_acid.rebalance import plan_rebalance
from compactor.rewrite.full_acid.split import with_split_bytes
from compactor.rewrite.plan.chunks import must_fit, plan_slices, plan_within_bound
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.unit import SHAPES
from compactor.site.site import Site, Target
from compactor.site.view import Look, View, compactor_view
from compactor.worker.bounded_requests import bound_of
from compactor.worker.file_formats import file_format_of
from compactor.worker.naming_delay import delayed_view
from compactor.worker.plan_summary import PlanSummary
from compactor.worker.rebalance_view import allocate_write_id, must_be_possible


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScope:
    """The view that a compaction reads. ``write_id`` is the rebalance's own write ID.

    In a preview, ``delay`` says what ``compactor.naming.delay`` does to the view; None where it is not set.
    """

    view: View
    write_id: WriteId | None = None
    delay: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A compaction to plan, of type ``kind`` under transaction ``txn``.

    ``token`` is the random part of the name of the staging directory; a preview has none. ``file_format`` is that of an
    insert-only table. ``buckets`` and ``order_by`` apply to a rebalance. With ``small_stripe_bytes`` None, the default of a
    unit applies.
    """

    target: Target
    kind: CompactionType
    txn: TxnId
    file_format: FileFormat | None
    token: str = ""
    buckets: int | None = None
    order_by: str | None = None
    small_stripe_bytes: int | None = None
    full_verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPreview:
    """A plan with the scope that it reads, and its summary."""

    scope: ReadScope
    plan: Plan
    summary: PlanSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """A preview of a compaction that would not run; ``because`` says why.

    ``leaves_nothing`` is true if the cleaner would have nothing to remove either.
    """

    because: str
    summary: PlanSummary
    leaves_nothing: bool = False


def scope_of(look: Look, target: Target, txn: TxnId, kind: CompactionType, listing: Listing) -> ReadScope:
    """Returns the scope that transaction ``txn`` may read for a compaction of type ``kind``.

    A rebalance allocates its write ID, reads a later snapshot than ``look`` and ignores ``compactor.naming.delay``, because
    it waits for every writer.

    Args:
        listing: a listing of the target from after ``look``. A rebalance lists the target again.

    Raises:
        LockNotGranted: the view has to wait for other transactions; the next pass tries again.
    """
    if kind is CompactionType.REBALANCE:
        view, write_id = allocate_write_id(look.site, target, txn)
        return ReadScope(view=view, write_id=write_id)
    return ReadScope(view=_view(look, target, txn, kind, listing))


def preview_scope(site: Site, target: Target, kind: CompactionType) -> ReadScope:
    """Returns the scope that a compaction would read if it began now. Nothing is written.

    Raises:
        LockNotGranted: ``compactor.naming.delay`` does not admit any input yet.
    """
    if kind is CompactionType.REBALANCE:
        write_id = site.metastore.write_ids.next(target.table.database, target.table.name)
        return ReadScope(view=compactor_view(site, target), write_id=write_id)
    look = Look(site)
    view = _view(look, target, None, kind)
    return ReadScope(view=view, delay=_effect_of_delay(look, target, view))


def _view(look: Look, target: Target, txn: TxnId | None, kind: CompactionType, listing: Listing | None = None) -> View:
    if target.settings.boolean("compactor.naming.delay"):
        return delayed_view(look, target, txn, kind, listing)
    return look.view(target, txn, listing=listing)


def _effect_of_delay(look: Look, target: Target, view: View) -> str | None:
    if not target.settings.boolean("compactor.naming.delay"):
        return None
    limit = view.write_ids.high_watermark
    if limit < look.view(target, None).write_ids.high_watermark:
        return f"write IDs above {limit} are left until the transactions that do not see them have ended"
    return "every open transaction sees all that is to be merged"


def plan_scope(site: Site, request: PlanRequest, scope: ReadScope) -> Plan:
    """Plans the compaction of ``scope``.

    Raises:
        Refused: there is no input, or the bounds of the request admit none of it.
        CompactorError: the directory cannot be compacted; see ``rewrite.plan.plan.plan``.
    """
    target, directory = request.target, scope.view.directory
    context = PlanContext(
        location=target.location,
        txn=request.txn,
        token=request.token,
        write_ids=scope.view.write_ids,
        row_type=target.row_type,
        layout=site.metastore.dialect.layout,
        small_stripe_bytes=request.small_stripe_bytes,
        full_verify=request.full_verify,
        stores=site.storage.options,
        file_format=request.file_format,
        is_bucketed=target.table.buckets > 0,
        output_class=target.settings.output_class,
        default_zone=default_zone(target.settings),
    )
    bound, shape = bound_of(target.settings), SHAPES[request.kind]
    if scope.write_id is None:
        planned = plan_within_bound(directory, shape, bound, context)
        planned = plan_slices(planned, directory, bound.chunk_deltas, context)
        return with_split_bytes(planned, target.settings.integer("compactor.split.bytes"))
    unbounded = must_fit(plan(directory, shape, context), "a rebalance", bound)
    order = must_be_possible(target.table, buckets=request.buckets, order_by=request.order_by)
    return plan_rebalance(unbounded, scope.write_id, request.buckets, order)


def preview_plan(site: Site, target: Target, kind: CompactionType) -> PlanPreview | NoPlan:
    """Returns the plan that a worker would make now, or why it would make none. Nothing is written.

    Raises:
        CompactorError: the compaction would be refused or fail.
    """
    try:
        scope = preview_scope(site, target, kind)
    except LockNotGranted as error:
        return NoPlan(because=str(error), summary=PlanSummary(delay=str(error)))
    directory = scope.view.directory
    is_bare = not (directory.base or directory.originals or directory.compactable())
    judged = CompactionType.MAJOR if is_bare and kind is CompactionType.REBALANCE else kind
    sufficient = check_enough(directory, judged, is_insert_only=target.table.is_insert_only)
    if isinstance(sufficient, NothingToDo):
        leaves_nothing = not (directory.obsolete or directory.aborted)
        return NoPlan(because=sufficient.because, summary=PlanSummary(delay=scope.delay), leaves_nothing=leaves_nothing)
    return preview_plan_of(site, target, scope, kind)


def preview_plan_of(site: Site, target: Target, scope: ReadScope, kind: CompactionType) -> PlanPreview:
    """Returns the plan that a worker would make of ``scope``, under the next transaction."""
    request = PlanRequest(
        target=target,
        kind=kind,
        txn=TxnId(site.metastore.transactions.newest() + 1),
        file_format=file_format_of(site, target),
    )
    planned = plan_scope(site, request, scope)
    chunk_deltas = bound_of(target.settings).chunk_deltas
    summary = PlanSummary(
        slices=len(planned.slices),
        slice_deltas=chunk_deltas,
        delay=scope.delay,
        output_class=target.settings.output_class,
    )
    return PlanPreview(scope=scope, plan=planned, summary=summary)
