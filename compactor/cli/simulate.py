"""``compactor simulate``."""

from __future__ import annotations

from pathlib import Path

import click

from compactor.cli.context import CliContext, with_context
from compactor.cli.line_plot import line_plot
from compactor.cli.output import counted, print_json, print_table, say
from compactor.cli.requests import parse_properties


@click.command()
@click.option(
    "--days", type=click.IntRange(min=1), default=14, show_default=True, help="The last days, as far as recorded."
)
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="A setting; may be repeated.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, writable=True, path_type=Path), metavar="FILE", help="Draw it as SVG."
)
@with_context
def simulate(context: CliContext, days: int, pairs: tuple[str, ...], plot: Path | None) -> None:
    """Replay the last days under other settings: runs, core-seconds, directories that readers
    meet. What was written comes again, from our own record; nothing is listed or changed.

    --set takes settings of tables, compactor.order and compactor.budget.
    """
    from compactor.answers.replay import simulate as replayed

    with context.site(read_only=True) as site:
        found = replayed(site, days, parse_properties(pairs, "--set"))
    named = {"happened": found.happened, "simulated as it is": found.present, "simulated as given": found.other}
    if plot is not None:
        curves = {name: tally.curve.points() for name, tally in named.items()}
        plot.write_text(line_plot("Directories that a reader meets, on average", curves), encoding="utf-8")
    if context.json:
        print_json(found.to_json())
        return
    entities, passes = found.entities, counted(found.passes, "pass", "passes")
    what = counted(entities, "table or partition", "tables and partitions")
    say(f"{what} in {passes} of the last {counted(found.days, 'day')}")
    rows = [{"": name, **tally.to_json()} for name, tally in named.items()]
    print_table(rows, tuple(rows[0]), "")
