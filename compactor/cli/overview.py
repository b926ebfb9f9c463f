"""``compactor overview``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from compactor.base.utc import utc_text
from compactor.cli.context import CliContext, with_context
from compactor.cli.output import counted, duration, print_json, print_table, say, size
from compactor.cli.progress_text import progress_text

if TYPE_CHECKING:
    from compactor.answers.fleet import Fleet, Returns
    from compactor.answers.reader_gains import TableReads


@click.command()
@click.option("--worst", type=click.IntRange(min=1), default=10, show_default=True, help="The number of tables shown.")
@with_context
def overview(context: CliContext, worst: int) -> None:
    """The health of all tables, what is due and runs, and what compaction brought in 7 and 30 days. Nothing is listed."""
    from compactor.answers.fleet import fleet
    from compactor.answers.reader_gains import table_reads

    with context.site(read_only=True) as site:
        found, told = fleet(site, worst), table_reads(site)
    if context.json:
        print_json({**found.to_json(), "reads": [one.to_json() for one in told]})
        return
    for line in _lines(found):
        say(line)
    print_table(found.health_rows, _columns(), "no table has been looked at yet")
    print_table(
        [one._asdict() for one in found.worst], ("database", "table", "partitions", "health", "deltas", "bytes"), ""
    )
    for one in found.returns:
        say(_returned(one))
    for read in told:
        say(_read(read))


def _read(one: TableReads) -> str:
    if not one.is_read:
        return f"reads of {one.table}: none, although it was compacted {counted(one.runs, 'time')}"
    told = one.to_json()
    felt = (
        ""
        if told["before"] is None
        else f"; like queries took {told['before']} s before compactions, {told['after']} s after"
    )
    return f"reads of {one.table}: {counted(one.queries, 'query', 'queries')}, {one.seconds:.3g} s{felt}"


def _columns() -> tuple[str, ...]:
    from compactor.answers.fleet import STEPS

    return ("database", *STEPS, "unknown")


def _lines(found: Fleet) -> Iterator[str]:
    looked = "the initiator has not made a pass yet" if found.looked_at is None else f"at {utc_text(found.looked_at)}"
    yield f"due: {counted(found.due, 'table or partition', 'tables and partitions')} ({looked})"
    expected = (
        "" if found.expected_seconds is None else f", about {duration(round(found.expected_seconds * 1000))} of work"
    )
    now = found.readings
    if found.estimate_error is not None:
        yield f"estimates: {found.estimate_error:.0%} off in the median of the newest runs"
    yield f"waiting: {counted(now.initiated, 'compaction')}{expected}; ready for cleaning: {now.ready_for_cleaning}"
    for entry in found.running:
        told = progress_text(found.at_work[entry.id].to_json())
        yield f"running: compaction {entry.id} of {entry.entity}" + (f": {told}" if told else "")
    yield from _more(now.working, len(found.running), "running")
    for entry in found.failures:
        yield f"failed: compaction {entry.id} of {entry.entity}: {entry.error or 'the reason is not known'}"
    yield from _more(now.failed_lately, len(found.failures), "failed in 7 days")
    for alarm in found.alarms:
        yield f"alarm ({alarm.level.value}) {alarm.name}: {alarm.message}; {alarm.fix}"


def _more(there: int, shown: int, what: str) -> Iterator[str]:
    if there > shown:
        yield f"{what}: {there - shown} more"


def _returned(one: Returns) -> str:
    opening = f", {one.opening:.3g} s less to open what was measured" if one.opening else ""
    removed = f"{counted(one.directories, 'directory', 'directories')} and {counted(one.files, 'file')}"
    cores = f" ({duration(round(one.core_seconds * 1000))} of processor time)" if one.core_seconds else ""
    moved = f"{size(one.bytes_moved)} in {duration(round(one.seconds * 1000))}{cores}"
    return f"last {one.days} days: {counted(one.runs, 'run')} removed {removed}, moved {moved}{opening}"
