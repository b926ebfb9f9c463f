"""Output: tables for a terminal, aligned columns for a pipe, JSON for programs; progress in words."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence

import click

from compactor.base.printable import count_text, printable, printable_json
from compactor.base.redaction import redact, redact_plain
from compactor.base.utc import utc_text

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_NONE = "-"
#: Columns whose numbers are epoch milliseconds.
_TIMES = frozenset(
    {
        "enqueuetime",
        "starttime",
        "committime",
        "startedtime",
        "lastheartbeattime",
        "last_heartbeat",
        "acquired_at",
        "at",
        "since",
        "until",
        "last_compacted",
        "committed_at",
        "cleaned_at",
        "removed_at",
        "kept_until",
        "undone_at",
        "last_commit",
        "last_pass",
    }
)
#: Columns that a narrow terminal folds, and their least width.
_SENTENCES, _LEAST = frozenset({"because", "errormessage", "effect", "place_because"}), 30
_DURATIONS = frozenset({"duration", "held_ms", "age_ms"})  #: in milliseconds
_SECONDS = frozenset({"opening_before", "opening_after"})
_BYTES = frozenset({"bytes", "bytes_waiting", "bytes_freed", "removed_bytes"})


def say(text: str, *, err: bool = False) -> None:
    """Prints one line without secrets; escapes characters that would break it or control the terminal."""
    click.echo(printable(redact(text)), err=err)


def print_json(value: object) -> None:
    """Prints one indented JSON document without secrets."""
    click.echo(printable_json(json.dumps(redact_plain(value), indent=2, ensure_ascii=False, default=str)))


def print_either(as_json: bool, value: Mapping[str, object], text: str) -> None:
    """Prints ``value`` as JSON, or else ``text``."""
    if as_json:
        print_json(value)
    else:
        for line in text.split("\n"):
            say(line)


def print_json_line(value: object, *, of_table: bool = False) -> None:
    """Prints one JSON document on one line: a row ``of_table`` as it is, anything else without secrets."""
    shown = value if of_table else redact_plain(value)
    click.echo(printable_json(json.dumps(shown, ensure_ascii=False, default=str)))


def print_table(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str],
    empty: str,
    *,
    whole: bool = False,
    of_table: bool = False,
) -> None:
    """Prints ``rows`` without truncating a value.

    Args:
        columns: columns without any value are omitted.
        empty: the sentence for no rows.
        whole: omits no column.
        of_table: prints the rows as they are, not without secrets.
    """
    if not rows:
        say(empty)
        return
    rows = rows if of_table else redact_plain(rows)
    shown = [c for c in columns if whole or any(row.get(c) is not None for row in rows)]
    cells = [[cell(column, row.get(column)) for column in shown] for row in rows]
    if sys.stdout.isatty() and _fits(shown, cells, shutil.get_terminal_size().columns):
        _print_rich(shown, cells)
    else:
        _print_plain(shown, cells)


def _fits(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> bool:
    """Tells whether the table fits if only sentences are folded.

    Folded ids and names are worse than long lines.
    """
    narrow = [max(len(c), *(len(row[i]) for row in cells)) for i, c in enumerate(columns) if c not in _SENTENCES]
    sentences = len(columns) - len(narrow)
    return sum(narrow) + sentences * _LEAST + 3 * len(columns) <= width


def cell(column: str, value: object) -> str:
    """Formats a value for people: sizes and durations with units, times in UTC."""
    if value is None:
        return _NONE
    if column in _TIMES and isinstance(value, int):
        return utc_text(value) if value > 0 else _NONE  # Hive writes 0 for no time
    if column in _BYTES and isinstance(value, int):
        return size(value)
    if column in _DURATIONS and isinstance(value, int):
        return duration(value)
    if column in _SECONDS and isinstance(value, float):
        return f"{value:.3g} s"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return printable(", ".join(map(str, value)))
    return printable(" ".join(str(value).split("\n")))


def size(count: int) -> str:
    """Formats bytes in the largest power of 1000 that leaves at least 1, as the page does (``format.js``)."""
    number, unit = float(count), 0
    while number >= (999.95 if unit else 1000) and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{math.floor(number * 10 + 0.5) / 10:.1f} {_UNITS[unit]}"


def duration(milliseconds: int) -> str:
    """Formats a duration or age in the largest unit of which it has two."""
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= 2 * length:
            return f"{milliseconds // length} {unit}"
    return f"{milliseconds} ms" if milliseconds else "0 s"


def _print_plain(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    widths = [max(len(column), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    for row in (columns, *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _print_rich(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column not in _SENTENCES)
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    Console(highlight=False).print(table)


def progress_text(row: Mapping[str, object]) -> str | None:
    """Describes a compaction's progress: units, bytes, remaining time; None if nothing is known.

    ``row`` is one of ``answers.running_compactions``.
    """
    units, total_bytes, remaining_ms = row["units"], row["bytes"], row["left_ms"]
    parts = []
    if isinstance(units, int):
        parts.append(f"{row['units_done']} of {count_text(units, 'unit')}")
    if isinstance(total_bytes, int) and total_bytes:
        parts.append(f"{size(int(str(row['bytes_done'])))} of {size(total_bytes)}")
    if isinstance(remaining_ms, int):
        parts.append(f"about {duration(remaining_ms)} left" if remaining_ms else "about to end")
    return ", ".join(parts) or None


def watch_text(row: Mapping[str, object]) -> str | None:
    """Returns the known addresses of the scheduler's task, Spark's page and the driver's log."""
    return " ".join(str(row[name]) for name in ("task_url", "tracking_url", "log_url") if row[name]) or None


def with_progress(row: Mapping[str, object]) -> dict[str, object]:
    """Returns a row of SHOW COMPACTIONS with two more columns: ``progress`` and ``watch``."""
    return {**row, "progress": progress_text(row), "watch": watch_text(row)}
