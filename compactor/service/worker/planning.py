"""How a compaction that began now would be done: what it would read, in how many slices, and what it would leave to a
later one. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from compactor.compaction.decision import NothingToDo, enough
from compactor.compaction.states import CompactionType
from compactor.errors import LockNotGranted
from compactor.ids import TxnId
from compactor.rewrite.plan.chunks import bounded, must_hold
from compactor.rewrite.plan.plan import Plan, plan
from compactor.rewrite.plan.slices import sliced
from compactor.rewrite.plan.unit import SHAPES, Shape
from compactor.service.site import Look, Site, Target, View, compactor_view
from compactor.service.worker.bounds import bound_of
from compactor.service.worker.file_formats import file_format_of
from compactor.service.worker.naming_delay import seen_by_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """``slices`` are merged first, each of at most ``slice_deltas`` deltas. ``delay`` is what ``compactor.naming.delay``
    does to it, None where that is not set."""

    slices: int = 0
    slice_deltas: int = 0
    delay: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"slices": self.slices, "delay": self.delay}

    @property
    def sentences(self) -> list[str]:
        """For people."""
        said: list[str] = []
        if self.slices:
            said.append(
                f"{self.slices} slices of at most {self.slice_deltas} deltas are merged in the staging directory first "
                "(hive.compactor.max.num.delta)"
            )
        if self.delay is not None:
            said.append(f"compactor.naming.delay: {self.delay}")
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a worker would plan of what it would see, or why it would do ``nothing``."""

    manner: Manner
    plan: Plan | None = None
    view: View | None = None
    nothing: str | None = None


def foresee(site: Site, target: Target, kind: CompactionType) -> Foreseen:
    """What one of ``kind`` would do.

    Raises:
        CompactorError: it could not be done.
    """
    try:
        view, delay = view_now(site, target, kind)
    except LockNotGranted as error:
        return Foreseen(manner=Manner(delay=str(error)), nothing=str(error))
    found = view.directory
    is_bare = not (found.base or found.originals or found.compactable())
    sufficient = enough(found, CompactionType.MAJOR if is_bare and kind is CompactionType.REBALANCE else kind)
    if isinstance(sufficient, NothingToDo):
        return Foreseen(manner=Manner(delay=delay), nothing=sufficient.because)
    return of_view(site, target, view, kind, delay)


def of_view(site: Site, target: Target, view: View, kind: CompactionType, delay: str | None) -> Foreseen:
    """What one of ``kind`` would do with ``view``."""
    made = planned(site, target, view, kind)
    manner = Manner(slices=len(made.slices), slice_deltas=bound_of(target.settings).chunk_deltas, delay=delay)
    return Foreseen(manner=manner, plan=made, view=view)


def view_now(site: Site, target: Target, kind: CompactionType) -> tuple[View, str | None]:
    """What would be read of ``target``, and what ``compactor.naming.delay`` does to it.

    Raises:
        LockNotGranted: it lets nothing be read yet.
    """
    if kind is CompactionType.REBALANCE or not target.settings.boolean("compactor.naming.delay"):
        return compactor_view(site, target), None
    look = Look(site)
    view = seen_by_all(look, target, None, kind)
    limit = view.write_ids.high_watermark
    if limit < look.view(target, None).write_ids.high_watermark:
        return view, f"write IDs above {limit} are left until the transactions that do not see them have ended"
    return view, "every open transaction sees all that is to be merged"


def planned(site: Site, target: Target, view: View, kind: CompactionType) -> Plan:
    """What a worker would plan; its transaction bears the next number as far as is known now."""
    make = partial(
        plan,
        location=target.location,
        txn=TxnId(site.metastore.transactions.newest() + 1),
        write_ids=view.write_ids,
        row_type=target.row_type,
        layout=site.metastore.dialect.layout,
        stores=site.storage.options,
        file_format=file_format_of(site, target),
        is_bucketed=target.table.buckets > 0,
    )
    bound = bound_of(target.settings)
    if kind is CompactionType.REBALANCE:
        return must_hold(make(view.directory, Shape.MAJOR), "a rebalance", bound)
    whole = bounded(view.directory, SHAPES[kind], bound, view.write_ids, make)
    return sliced(whole, view.directory, bound.chunk_deltas, make)
