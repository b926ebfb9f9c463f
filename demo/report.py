"""Reports the figures before and after, as a table for people and as JSON, and checks them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from compactor.state.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """The figures of one table at one time. ``checksum`` covers all rows and their ROW__IDs, in order of ROW__ID."""

    table: str
    partitions: int  #: 0 for an unpartitioned table
    directories: int
    files: int
    bytes: int
    rows: int
    seconds: float  #: to read every row
    checksum: str


def compare(before: Sequence[TableFigures], after: Sequence[TableFigures]) -> Table:
    """Builds the table for the terminal: each figure before -> after."""
    table = Table(title="Before -> after compaction", title_justify="left", box=box.SIMPLE)
    table.add_column("table", no_wrap=True)
    for heading in ("partitions", "directories", "files", "bytes", "rows", "seconds to read", "checksum"):
        table.add_column(heading, justify="right", no_wrap=True)
    for old, new in zip(before, after, strict=True):
        table.add_row(
            old.table,
            str(old.partitions) if old.partitions else "-",
            f"{old.directories:,} -> {new.directories:,}",
            f"{old.files:,} -> {new.files:,}",
            f"{old.bytes:,} -> {new.bytes:,}",
            f"{new.rows:,}" if old.rows == new.rows else f"{old.rows:,} -> {new.rows:,}",
            f"{old.seconds:.2f} -> {new.seconds:.2f}",
            f"{new.checksum[:8]} =" if old.checksum == new.checksum else f"{old.checksum[:8]} -> {new.checksum[:8]}",
        )
    return table


def write(path: Path, before: Sequence[TableFigures], after: Sequence[TableFigures], seconds: float) -> None:
    """Writes the same figures as JSON to ``path``."""
    tables = [
        {
            "table": old.table,
            "partitions": old.partitions,
            "directories_before": old.directories,
            "directories_after": new.directories,
            "files_before": old.files,
            "files_after": new.files,
            "bytes_before": old.bytes,
            "bytes_after": new.bytes,
            "rows": new.rows,
            "rows_before": old.rows,
            "rows_after": new.rows,
            "seconds_to_read_before": round(old.seconds, 3),
            "seconds_to_read_after": round(new.seconds, 3),
            "checksum_before": old.checksum,
            "checksum_after": new.checksum,
        }
        for old, new in zip(before, after, strict=True)
    ]
    path.write_text(json.dumps({"tables": tables, "seconds": round(seconds, 1)}, indent=2) + "\n", "utf-8")


def describe_copy(run: Run) -> str:
    """Returns the sentence about a compaction that only had to copy."""
    return (
        f"{run.entity}: {run.bytes_copied or 0:,} of {run.bytes_after:,} bytes were copied as they were; "
        f"{run.stripes_copied} stripes copied, {run.stripes_reencoded} decoded, {run.seconds:.1f} s"
    )


def find_decoded(run: Run) -> list[str]:
    """Returns a complaint if stripes were decoded, of a table without deletions."""
    if run.stripes_copied and not run.stripes_reencoded:
        return []
    return [f"{run.entity}: {run.stripes_reencoded} stripes were decoded; expected: all of them copied"]


def find_complaints(
    before: Sequence[TableFigures], after: Sequence[TableFigures], written: Mapping[str, int] | None = None
) -> list[str]:
    """Lists the differences from the promised result, one sentence each.

    Args:
        written: the rows of each table that was written during the demo, one row in each transaction.
    """
    complaints: list[str] = []
    for old, new in zip(before, after, strict=True):
        if (rows := (written or {}).get(old.table)) is not None:
            if new.rows != rows or new.directories >= rows:
                complaints.append(
                    f"{old.table}: {new.rows} rows in {new.directories} directories; expected: the {rows} rows that "
                    "were written, in fewer directories"
                )
            continue
        if old.rows != new.rows:
            complaints.append(f"{old.table}: {old.rows} rows before and {new.rows} after; expected: the same")
        if old.checksum != new.checksum:
            complaints.append(f"{old.table}: rows or ROW__IDs changed (checksum {old.checksum} -> {new.checksum})")
        expected = max(old.partitions, 1)
        if new.directories != expected:
            complaints.append(
                f"{old.table}: {old.directories} directories before and {new.directories} after; expected: {expected}, "
                "one for each partition"
            )
    return complaints
