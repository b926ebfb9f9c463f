"""The progress of a compaction that is being worked on, in words, and where to watch it."""

from __future__ import annotations

from collections.abc import Mapping

from compactor.cli.output import counted, duration, size


def progress_text(row: Mapping[str, object]) -> str | None:
    """Returns units and bytes done of all, and the time left, of a row of ``answers.running_compactions``; None if
    nothing is known."""
    units, of_bytes, left = row["units"], row["bytes"], row["left_ms"]
    parts = []
    if isinstance(units, int):
        parts.append(f"{row['units_done']} of {counted(units, 'unit')}")
    if isinstance(of_bytes, int) and of_bytes:
        parts.append(f"{size(int(str(row['bytes_done'])))} of {size(of_bytes)}")
    if isinstance(left, int):
        parts.append(f"about {duration(left)} left" if left else "about to end")
    return ", ".join(parts) or None


def watch_text(row: Mapping[str, object]) -> str | None:
    """Returns the addresses of the scheduler's task, Spark's page and the driver's log, as far as they are known."""
    return " ".join(str(row[name]) for name in ("task_url", "tracking_url", "log_url") if row[name]) or None


def with_progress(row: Mapping[str, object]) -> dict[str, object]:
    """Returns a row of SHOW COMPACTIONS with both for people: columns ``progress`` and ``watch``."""
    return {**row, "progress": progress_text(row), "watch": watch_text(row)}
