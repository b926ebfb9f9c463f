"""The doctor's check of the ground: tables and partitions whose directories overlap (PROTOCOL 11.13)."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.site import Site, ground_of


def check_ground(site: Site) -> Iterator[Finding]:
    """Yields findings on every overlap, however its locations are spelt: a pass compares a partition only where something
    unusual lies near."""
    found = ground_of(site).everything()
    if found.refused:
        yield Finding(
            level=Level.FAIL,
            subject="overlapping tables",
            found=first_few(list(found.refused.values())),
            wanted="tables that have their directories to themselves; these are neither compacted nor cleaned",
            fix="move one of each pair, or drop what is not needed; keep Hive's own compactor and cleaner away, too",
        )
    if found.warned:
        yield Finding(
            level=Level.WARN,
            subject="tables in plain tables",
            found=first_few(list(found.warned.values())),
            wanted="transactional tables that no other table reads as plain files",
            fix="give the plain table a directory of its own: its readers take deltas for rows, and a DROP may remove all",
        )
    if not found.refused and not found.warned:
        yield ok("overlapping tables", "every transactional table has its directory to itself")
