"""``compactor plan DB.TABLE``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from compactor.cli.context import FAILED, Face, faced
from compactor.cli.output import print_json, size

if TYPE_CHECKING:
    from compactor.service.answers.preview import Preview

_TYPES = click.Choice(["minor", "major", "rebalance"], case_sensitive=False)


@click.command()
@click.argument("table", metavar="DB.TABLE")
@click.option("--partition", metavar="P", help="PART_NAME as Hive stores it, or k=v,k=v; else every partition.")
@click.option("--type", "kind", type=_TYPES, help="Else what the initiator would ask for.")
@faced
def plan(face: Face, table: str, partition: str | None, kind: str | None) -> None:
    """Dry run: what a compaction would read, write, copy and re-encode."""
    from compactor.service.answers.preview import preview

    with face.site(read_only=True) as site:
        previews = preview(site, table, partition=partition, type=kind)
    if face.json:
        print_json([p.to_json() for p in previews])
    else:
        _print(table, previews)
    if any(p.error is not None for p in previews):
        sys.exit(FAILED)


def _print(table: str, previews: Sequence[Preview]) -> None:
    for p in previews:
        if p.error is not None:
            click.echo(f"{p.entity}: {p.error}")
            continue
        click.echo(f"{p.entity}: {p.type.label.lower()}, because {p.because}")
        if p.nothing is not None:
            click.echo(f"  nothing to do: {p.nothing}")
            continue
        click.echo(f"  reads  {', '.join(p.inputs)} ({size(p.input_bytes)})")
        click.echo(f"  writes {', '.join(p.outputs)}")
        for sentence in p.summary.sentences:
            click.echo(f"  {sentence}")
        c = p.cost
        click.echo(
            f"  stripes: {c.stripes_copied} copied ({size(c.bytes_copied)}), {c.stripes_reencoded} re-encoded "
            f"({size(c.bytes_reencoded)}), {c.stripes_dropped} dropped ({size(c.bytes_dropped)})"
        )
        click.echo(f"  rows: {c.rows_in} -> {c.rows_out}; delete events: {c.delete_events_in} -> {c.delete_events_out}")
    if not previews:
        click.echo(f"{table} has no partitions")
