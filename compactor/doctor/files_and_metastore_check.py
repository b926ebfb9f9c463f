"""The doctor's check of files against the metastore, as the initiator found them."""

from __future__ import annotations

from collections.abc import Iterator

from compactor.initiator.candidate_scan import DISAGREEMENT
from compactor.site.finding import Finding, Level, first_few, ok
from compactor.site.site import Site
from compactor.state.seen_conditions import ConditionFilter

_MOST = 100  #: disagreements that are read


def check_agreement(site: Site) -> Iterator[Finding]:
    """Yields findings on tables whose files and metastore contradict each other (PROTOCOL 11)."""
    if site.state is None:
        return
    condition_filter = ConditionFilter(outcomes=(DISAGREEMENT,))
    found = site.state.conditions.page(site.name, condition_filter, order="table", limit=_MOST)
    if not found:
        yield ok("agreement", "the initiator found no files that contradict the metastore")
        return
    yield Finding(
        level=Level.FAIL,
        subject="agreement",
        found=f"{site.state.conditions.count(site.name, condition_filter)} tables and partitions: "
        + first_few([f"{seen.entity}: {seen.because}" for seen in found]),
        wanted="files and a metastore that agree; nothing is compacted or removed there until they do",
        fix="stop Hive's own compactor and cleaner; put the right database back, or decide about each directory: "
        "compactor resolve DB.TABLE, or compactor metastore advance for all tables",
    )
