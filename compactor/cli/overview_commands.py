"""Commands about all tables: overview, their readers (reads), other settings on the past (simulate)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from compactor.base.printable import count_text
from compactor.base.utc import utc_text
from compactor.cli.context import CliContext, parse_pairs, with_context
from compactor.cli.output import (
    cell,
    duration,
    print_either,
    print_json,
    print_table,
    progress_text,
    say,
    size,
)

if TYPE_CHECKING:
    from compactor.answers.fleet import Fleet, Returns
    from compactor.answers.reader_gains import TableReads


@click.command()
@click.option("--worst", type=click.IntRange(min=1), default=10, show_default=True, help="The number of tables shown.")
@with_context
def overview(context: CliContext, worst: int) -> None:
    """Show the health of all tables, what is due or running, and the gains of 7 and 30 days.

    Lists no directories.
    """
    from compactor.answers.fleet import fleet
    from compactor.answers.reader_gains import table_reads

    with context.site(read_only=True) as site:
        summary, reads = fleet(site, worst), table_reads(site)
    if context.json:
        print_json({**summary.to_json(), "reads": [table.to_json() for table in reads]})
        return
    for line in _overview_lines(summary):
        say(line)
    print_table(summary.health_rows, _health_columns(), "the initiator has not looked at any table yet")
    print_table(
        [table._asdict() for table in summary.worst],
        ("database", "table", "partitions", "health", "deltas", "bytes"),
        "",
    )
    for returns in summary.returns:
        say(_gain_line(returns))
    for table in reads:
        say(_reads_line(table))


def _reads_line(reads: TableReads) -> str:
    if not reads.is_read:
        return f"reads of {reads.table}: none, although it was compacted {count_text(reads.runs, 'time')}"
    row = reads.to_json()
    gain = (
        ""
        if row["before"] is None
        else f"; like queries took {row['before']} s before compactions, {row['after']} s after"
    )
    return f"reads of {reads.table}: {count_text(reads.queries, 'query', 'queries')}, {reads.seconds:.3g} s{gain}"


def _health_columns() -> tuple[str, ...]:
    from compactor.answers.fleet import STEPS

    return ("database", *STEPS, "unknown")


def _overview_lines(fleet: Fleet) -> Iterator[str]:
    for alarm in fleet.alarms:
        yield f"alarm ({alarm.level.value}) {alarm.name}: {alarm.message}; {alarm.fix}"
    looked = "the initiator has not made a pass yet" if fleet.looked_at is None else f"at {utc_text(fleet.looked_at)}"
    yield f"due: {count_text(fleet.due, 'table or partition', 'tables and partitions')} ({looked})"
    expected = (
        "" if fleet.expected_seconds is None else f", about {duration(round(fleet.expected_seconds * 1000))} of work"
    )
    now = fleet.readings
    if fleet.estimate_error is not None:
        yield f"estimates: {fleet.estimate_error:.0%} off in the median of the newest runs"
    yield f"waiting: {count_text(now.initiated, 'compaction')}{expected}; ready for cleaning: {now.ready_for_cleaning}"
    for entry in fleet.running:
        progress = progress_text(fleet.at_work[entry.id].to_json())
        yield f"running: compaction {entry.id} of {entry.entity}" + (f": {progress}" if progress else "")
    yield from _remaining_line(now.working, len(fleet.running), "running")
    for entry in fleet.failures:
        yield f"failed: compaction {entry.id} of {entry.entity}: {entry.error or 'unknown reason'}"
    yield from _remaining_line(now.failed_lately, len(fleet.failures), "failed in 7 days")


def _remaining_line(count: int, shown: int, what: str) -> Iterator[str]:
    if count > shown:
        yield f"{what}: {count - shown} more"


def _gain_line(returns: Returns) -> str:
    opening = f", {returns.opening:.3g} s less to open what was measured" if returns.opening else ""
    fewer = (
        f"{count_text(returns.fewer_directories, 'directory', 'directories')} and "
        f"{count_text(returns.fewer_files, 'file')} fewer to read"
    )
    removed = f"removed {count_text(returns.removed_files, 'file')} ({size(returns.removed_bytes)})"
    cores = f" ({duration(round(returns.core_seconds * 1000))} of processor time)" if returns.core_seconds else ""
    moved = f"{size(returns.bytes_moved)} in {duration(round(returns.seconds * 1000))}{cores}"
    runs = count_text(returns.runs, "run")
    return f"last {returns.days} days: {runs}, {fewer}{opening}; moved {moved}; cleaners {removed}"


_READ_COLUMNS = (
    "table",
    "queries",
    "took",
    "last_read",
    "runs",
    "compared",
    "like_queries",
    "before",
    "after",
    "files_before",
    "files_after",
)


@click.group()
def reads() -> None:
    """Import and show the queries that read tables, and what compactions gained for them."""


@reads.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8", errors="surrogateescape"))
@with_context
def import_(context: CliContext, file: TextIO) -> None:
    """Import queries, one JSON object a line: events of Trino's HTTP event listener, rows of
    HiveServer2's query history, or plain records. FILE - is standard input. Each query is stored
    once, however often it is imported; its text is not stored."""
    from compactor.requests.import_reads import import_reads

    with context.site() as site:
        result = import_reads(site, _bounded_lines(file), file.name)
    counts = f"{count_text(result.events, 'event')}, {count_text(result.queries, 'query', 'queries')} that read tables"
    print_either(context.json, result.to_json(), f"{counts}; {count_text(result.stored, 'read')} of tables here stored")


def _bounded_lines(file: TextIO) -> Iterator[str]:
    """Yields lines; a line that is longer than any event comes in pieces."""
    from compactor.insight.read_events import MOST_BYTES

    while line := file.readline(MOST_BYTES + 2):
        yield line


@reads.command("show")
@click.argument("table", metavar="[DB.TABLE]", required=False)
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="The last days.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Of read and unread tables each."
)
@with_context
def show_reads(context: CliContext, table: str | None, days: int, limit: int) -> None:
    """Show how often tables are read, and how long like queries took before and after compactions.

    With a table: each of its compactions that can be compared.
    """
    from compactor.answers.reader_gains import reads_of, table_reads
    from compactor.site.named_tables import find_table

    with context.site(read_only=True) as site:
        if table is None:
            tables = table_reads(site, days=days, limit=limit)
        else:
            entity = find_table(site.metastore.catalog, table)
            tables = [reads_of(site, entity.database, entity.name, days=days)]
    rows = [reads.to_json() for reads in tables]
    of_runs = [run.to_json() for reads in tables for run in reads.compared] if table is not None else []
    if context.json:
        print_json({"tables": rows, "compactions": of_runs})
        return
    print_table([_read_row(row) for row in rows], _READ_COLUMNS, "no read has been reported")
    if of_runs:
        print_table(of_runs, tuple(of_runs[0]), "")


def _read_row(row: dict[str, object]) -> dict[str, object]:
    times = {name: None if row[name] is None else f"{row[name]} s" for name in ("before", "after")}
    last = "never" if row["last_at"] is None else cell("at", row["last_at"])
    return {**row, **times, "took": f"{row['seconds']} s", "last_read": last}


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
    meet. The recorded writes are repeated; nothing is listed or changed.

    --set takes settings of tables, compactor.order and compactor.budget.
    """
    from compactor.answers.replay import simulate as replay

    with context.site(read_only=True) as site:
        simulation = replay(site, days, parse_pairs(pairs, "--set"))
    named = {
        "happened": simulation.happened,
        "simulated as it is": simulation.present,
        "simulated as given": simulation.other,
    }
    if plot is not None:
        curves = {name: tally.curve.points() for name, tally in named.items()}
        plot.write_text(line_plot("Directories that a reader meets, on average", curves), encoding="utf-8")
    if context.json:
        print_json(simulation.to_json())
        return
    entities, passes = simulation.entities, count_text(simulation.passes, "pass", "passes")
    what = count_text(entities, "table or partition", "tables and partitions")
    say(f"{what} in {passes} of the last {count_text(simulation.days, 'day')}")
    rows = [{"": name, **tally.to_json()} for name, tally in named.items()]
    print_table(rows, tuple(rows[0]), "")


WIDTH, HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 62, 34
_COLOURS = ("#5b6470", "#2477d4", "#e0912f", "#16693a")
_LINES = 4  #: of the grid
Curve = Sequence[tuple[int, float]]


def line_plot(title: str, curves: Mapping[str, Curve]) -> str:
    """Draws named curves as SVG without a library, in the colours of the page.

    Times are epoch ms, values at least 0.
    """
    points = [point for curve in curves.values() for point in curve]
    times = [at for at, _ in points] or [0, 1]
    begin, end = min(times), max(max(times), min(times) + 1)
    top = max([value for _, value in points] + [1.0])

    def place(at: float, value: float) -> str:
        x = _LEFT + (at - begin) / (end - begin) * (WIDTH - _LEFT - _RIGHT)
        return f"{x:.1f},{_plot_height(value / top):.1f}"

    parts = [_svg_text(_LEFT, 22, title, size=15), *_grid_lines(top), *_date_labels(begin, end)]
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(place(at, value) for at, value in curve)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>')
        parts.append(_svg_text(_LEFT + 170 * number, 46, f"— {name}", colour=colour))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">'
    )
    background = f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, background, *parts, "</svg>", ""])


def _plot_height(share: float) -> float:
    return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def _grid_lines(top: float) -> list[str]:
    lines = []
    for number in range(_LINES + 1):
        y = _plot_height(number / _LINES)
        lines.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e1e4e8"/>')
        lines.append(_svg_text(_LEFT - 8, y + 4, f"{top * number / _LINES:.3g}", anchor="end"))
    return lines


def _date_labels(begin: int, end: int) -> list[str]:
    y = HEIGHT - 10
    return [
        _svg_text(_LEFT, y, utc_text(begin)),
        _svg_text(WIDTH - _RIGHT, y, utc_text(end), anchor="end"),
    ]


def _svg_text(x: float, y: float, text: str, *, size: int = 12, colour: str = "#1b1f24", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
    )
