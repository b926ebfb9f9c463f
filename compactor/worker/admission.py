"""Checks that a worker may compact an entry and its table; every refusal names the reason."""

from __future__ import annotations

from compactor.base.errors import NotSupported, Refused
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType
from compactor.rewrite.plan.unit import SHAPES
from compactor.site.exclusive import renames
from compactor.site.site import Site, Target, claims_of, must_be_compactable, must_have_its_own_ground
from compactor.worker.file_formats import file_format_of
from compactor.worker.phases import Admitted, Located
from compactor.worker.rebalance_view import must_be_possible


def admit(member: Located) -> Admitted:
    """Returns the entry if it can be compacted.

    Raises:
        Refused: the table or the request does not allow it.
        NotSupported: this release does not support it.
    """
    site, target, entry = member.site, member.target, member.entry
    _must_be_compactable(site, target, entry)
    file_format = file_format_of(site, target)
    _must_be_undone_whole(site, target)
    _must_be_named_in_one_step(site, target, entry)
    return member.admitted(file_format)


def _must_be_compactable(site: Site, target: Target, entry: Entry) -> None:
    table = target.table
    must_be_compactable(table, target.partition)
    must_have_its_own_ground(site, target.table, target.partition)
    claims_of(site).must_be_free_above(target.table, target.location)
    if entry.type not in SHAPES:
        raise NotSupported(
            f"{entry.entity}: a {entry.type.label.lower()} compaction is not done by a worker; ask for minor or major"
        )
    if entry.type is CompactionType.REBALANCE:
        must_be_possible(table, buckets=entry.buckets or None, order_by=entry.order_by)


def _must_be_undone_whole(site: Site, target: Target) -> None:
    """Refuses stores without directory rename under Hive 3.1.

    Hive 3.1 shows every directory with a final name. It would return the rows of half a directory that a dead worker left.
    """
    if not site.metastore.dialect.layout.has_visibility and not renames(site, target):
        raise NotSupported(
            f"{target.entity}: lies in a store without directory rename ({target.location}), and Hive 3.1 would show what "
            "is named half; leave it to Hive"
        )


def _must_be_named_in_one_step(site: Site, target: Target, entry: Entry) -> None:
    """Refuses entries that ``compactor.readers = strict`` excludes; a minor is checked once it is staged."""
    if target.settings.text("compactor.readers") != "strict":
        return
    if entry.type is CompactionType.REBALANCE:
        raise Refused(
            f"{entry.entity}: compactor.readers is strict, and a rebalance whose worker died would show other ROW__IDs to "
            "readers without visibility; ask for a major, or set any for the table while nobody writes to it"
        )
    if not renames(site, target):
        raise Refused(
            f"{entry.entity}: compactor.readers is strict, and a store without directory rename ({target.location}) shows "
            "files one by one; set any for the table"
        )
