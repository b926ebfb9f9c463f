"""Changes of a pass, row by row and file by file, and a runner that lets a test act while units run."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import Job, JobAnswer


def rows_of_database(path: Path) -> dict[str, list[str]]:
    """Returns every row of every table of an SQLite file, as text and sorted."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as conn:
        tables = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {table: sorted(map(repr, conn.execute(f'SELECT * FROM "{table}"'))) for table in tables}
    conn.close()
    assert len(found) > 20, "this is no metastore"
    return found


def files_below(root: Path) -> dict[str, tuple[int, int, int]]:
    """Returns mode, modification time and checksum of everything below ``root``, by relative path; directories have no
    checksum.
    """
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            0 if path.is_dir() else zlib.crc32(path.read_bytes()),
        )
        for path in sorted(root.rglob("*"))
    }


def names_in(path: Path) -> set[str]:
    """Returns the names directly in a directory."""
    return {child.name for child in path.iterdir()}


class Interrupted:
    """Runs units in this process; calls ``before`` when they begin and ``after`` when they are done."""

    application: str | None = None

    def __init__(self, before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None) -> None:
        self._before = before
        self._after = after

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        self._before()
        answers = InProcessRunner().run(jobs)
        self._after()
        return answers
