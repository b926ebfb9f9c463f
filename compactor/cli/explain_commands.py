"""Commands that explain a table's state (explain), a compaction (plan) and locks (explain-locks)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from compactor.base.printable import count_text
from compactor.base.utc import utc_text
from compactor.cli.context import FAILED, CliContext, parse_pairs, with_context
from compactor.cli.output import duration, print_json, say, size

if TYPE_CHECKING:
    from compactor.answers.explain import Explanation, PartitionExplanation, Queued
    from compactor.answers.preview import Preview
    from compactor.answers.show_rows import QuarantineRow
    from compactor.compaction.queue_entry import Entry
    from compactor.initiator.candidate_scan import Considered


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--partition", metavar="SPEC", help="Only this partition: as in SHOW PARTITIONS, or k=v,k=v.")
@with_context
def explain(context: CliContext, table: str, partition: str | None) -> None:
    """Explain what would happen to a table now, why, what would change it, and what its last runs did."""
    from compactor.answers import explain as service

    with context.site(read_only=True) as site:
        explanation = service.explain(site, table, partition)
    if context.json:
        print_json(explanation.to_json())
        return
    for line in explanation_lines(explanation):
        say(line)


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """Yields the explanation as lines of text."""
    table = explanation.table
    kind = "insert-only" if table.is_insert_only else "full ACID" if table.is_transactional else "not transactional"
    yield f"{table}: {kind}, {table.location}"
    for sentence in explanation.doubt:
        yield f"  nothing is done now: {sentence}"
    yield f"  mode {explanation.mode} (from {explanation.mode_source})"
    for setting in explanation.settings:
        yield f"  {setting.key} = {setting.value} (from {setting.source})"
    for key, value in explanation.spark_conf.items():
        yield f"  {key} = {value} (for its Spark application)"
    for key, reason in explanation.ignored:
        yield f"  without effect: {key}: {reason}"
    for sentence in explanation.protections:
        yield f"  {sentence}"
    for partition in explanation.partitions:
        yield from _partition_lines(partition)
    if not explanation.partitions:
        yield "  the table has no partitions"
    for queued in explanation.queue_elsewhere:
        yield f"{queued.entry.entity.partition or 'the table'}: not a partition that the metastore lists"
        yield from _request_lines(queued)
    if explanation.unnamed is not None:
        yield "aborted writes without a partition's name"
        yield from _outcome_lines(explanation.unnamed)


def _partition_lines(partition: PartitionExplanation) -> Iterator[str]:
    content = partition.surveyed.content
    yield (
        f"{partition.surveyed.entity.partition or 'the table'}: "
        f"{count_text(content.directories, 'directory', 'directories')} ({count_text(content.deltas, 'delta')}), "
        f"{count_text(content.files, 'file')}, {size(content.bytes)}"
        + (
            f"; {count_text(content.obsolete, 'obsolete directory', 'obsolete directories')}"
            if content.obsolete
            else ""
        )
    )
    yield from _outcome_lines(partition.surveyed.considered)
    for sentence in partition.summary.sentences:
        yield f"  {sentence}"
    for queued in partition.queue:
        yield from _request_lines(queued)
    for entry in partition.history:
        yield f"  {_moments(entry)} compaction {entry.id} {entry.type.label.lower()}: {entry.state.label}" + (
            f": {entry.error}" if entry.error else ""
        )
    for kept in partition.quarantine:
        yield _quarantine_line(kept)
    for run in partition.runs:
        yield (
            f"  run of compaction {run['entry_id']}: {run['directories_before']} -> {run['directories_after']} "
            f"directories, {run['files_before']} -> {run['files_after']} files, "
            f"{count_text(int(str(run['stripes_copied'])), 'stripe')} copied, "
            f"{run['stripes_reencoded']} re-encoded, {float(str(run['seconds'])):.2f} s"
            + (f"; {size(int(str(run['bytes_taken_over'])))} in place, unread" if run["bytes_taken_over"] else "")
            + (
                f"; {count_text(int(str(run['deltas_left'])), 'delta')}, {size(int(str(run['bytes_left'])))} left"
                if run["deltas_left"]
                else ""
            )
        )


def _moments(entry: Entry) -> str:
    """Formats when an entry of the history committed and was cleaned, or when it ended."""
    named = (("committed", entry.committed_at), ("cleaned", entry.cleaned_at))
    moments = [f"{what} {utc_text(at)}" for what, at in named if at is not None]
    return ", ".join(moments) or (f"ended {utc_text(entry.end)}" if entry.end else "ended")


def _quarantine_line(row: QuarantineRow) -> str:
    return (
        f"  quarantine of compaction {row.compactionid}: {count_text(len(row.directories), 'directory', 'directories')}, "
        f"{size(row.bytes)}, until {utc_text(row.until)}"
    )


def _outcome_lines(considered: Considered) -> Iterator[str]:
    yield f"  now: {considered.outcome}, because {considered.because}"
    if considered.decision is not None:
        for flip in considered.decision.flips:
            yield f"  would change with: {flip}"


def _request_lines(queued: Queued) -> Iterator[str]:
    entry = queued.entry
    waits = f", waits for: {queued.waits_for}" if queued.waits_for else ""
    yield f"  compaction {entry.id} {entry.type.label.lower()}: {entry.state.label}{waits}"
    for blocker in queued.blockers:
        yield f"    held by {blocker} ({duration(blocker.age_ms)})"


@click.command("explain-locks")
@click.argument("statement", metavar="STATEMENT")
@click.option("--database", metavar="DB", default="default", show_default=True, help="The current database.")
@click.option("--old", is_flag=True, help="List the S and X locks of Hive's lock manager without transactions.")
@with_context
def explain_locks(context: CliContext, statement: str, database: str, old: bool) -> None:
    """List the locks that a HiveQL statement would take, like Hive's EXPLAIN LOCKS. Takes no lock."""
    from compactor.answers import explain_locks as service

    with context.site(read_only=True) as site:
        explanation = service.explain_locks(site, statement, database=database.lower(), old=old)
    if context.json:
        print_json(explanation.to_json())
        return
    say("LOCK INFORMATION:")
    for lock in explanation.locks:
        say(str(lock))


_TYPES = click.Choice(["minor", "major", "rebalance"], case_sensitive=False)


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--partition", metavar="P", help="PART_NAME as Hive stores it, or k=v,k=v. Default: every partition.")
@click.option("--type", "kind", type=_TYPES, help="Default: the type the initiator would request.")
@click.option("--property", "pairs", metavar="K=V", multiple=True, help="A property of the request; may be repeated.")
@with_context
def plan(context: CliContext, table: str, partition: str | None, kind: str | None, pairs: tuple[str, ...]) -> None:
    """Dry run: show what a compaction would read, write, copy and re-encode."""
    from compactor.answers.preview import preview

    with context.site(read_only=True) as site:
        previews = preview(site, table, partition=partition, type=kind, properties=parse_pairs(pairs, "--property"))
    if context.json:
        print_json([p.to_json() for p in previews])
    else:
        _print_plans(table, previews)
    if any(p.error is not None for p in previews):
        sys.exit(FAILED)


def _expected_text(preview: Preview) -> str:
    cost = preview.expected
    if cost is None:
        return "expected: unknown, too few compactions like it have ended"
    low, high = (duration(round(seconds * 1000)) for seconds in (cost.low, cost.high))
    cores = "" if cost.core_seconds is None else f", {cost.core_seconds:.3g} core-seconds"
    return (
        f"expected: about {duration(round(cost.seconds * 1000))} ({low} to {high}, by {count_text(cost.runs, 'run')})"
        f"{cores}, about {size(cost.bytes_written)} written"
    )


def _print_plans(table: str, previews: Sequence[Preview]) -> None:
    for p in previews:
        if p.error is not None:
            say(f"{p.entity}: {p.error}")
            continue
        say(f"{p.entity}: {p.type.label.lower()}, because {p.because}")
        if p.nothing is not None:
            say(f"  nothing to do: {p.nothing}")
            continue
        say(f"  reads  {', '.join(p.inputs)} ({size(p.input_bytes)})")
        say(f"  writes {', '.join(p.outputs)}")
        for sentence in p.summary.sentences:
            say(f"  {sentence}")
        c = p.cost
        say(
            f"  stripes: {c.stripes_copied} copied ({size(c.bytes_copied)}), {c.stripes_reencoded} re-encoded "
            f"({size(c.bytes_reencoded)}), {c.stripes_dropped} dropped ({size(c.bytes_dropped)})"
        )
        say(f"  rows: {c.rows_in} -> {c.rows_out}; delete events: {c.delete_events_in} -> {c.delete_events_out}")
        say(f"  {_expected_text(p)}")
    if not previews:
        say(f"{table} has no partitions")
