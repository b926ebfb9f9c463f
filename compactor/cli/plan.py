"""``compactor plan DB.TABLE``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from compactor.cli.context import FAILED, CliContext, with_context
from compactor.cli.output import counted, duration, print_json, say, size
from compactor.cli.requests import parse_properties

if TYPE_CHECKING:
    from compactor.answers.preview import Preview

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
        previews = preview(site, table, partition=partition, type=kind, properties=parse_properties(pairs))
    if context.json:
        print_json([p.to_json() for p in previews])
    else:
        _print(table, previews)
    if any(p.error is not None for p in previews):
        sys.exit(FAILED)


def _expected(preview: Preview) -> str:
    found = preview.expected
    if found is None:
        return "expected: unknown, too few compactions like it have ended"
    low, high = (duration(round(seconds * 1000)) for seconds in (found.low, found.high))
    cores = "" if found.core_seconds is None else f", {found.core_seconds:.3g} core-seconds"
    return (
        f"expected: about {duration(round(found.seconds * 1000))} ({low} to {high}, by {counted(found.runs, 'run')})"
        f"{cores}, about {size(found.bytes_written)} written"
    )


def _print(table: str, previews: Sequence[Preview]) -> None:
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
        say(f"  {_expected(p)}")
    if not previews:
        say(f"{table} has no partitions")
