"""Changes of a pass, row by row and file by file, and a runner that lets a test act while units run."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from compactor.acid.names import CLAIM_PREFIX
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


_ABOUT = {
    "TXN_COMPONENTS": "TC_DATABASE",
    "COMPLETED_TXN_COMPONENTS": "CTC_DATABASE",
    "TXN_TO_WRITE_ID": "T2W_DATABASE",
    "NEXT_WRITE_ID": "NWI_DATABASE",
    "COMPACTION_QUEUE": "CQ_DATABASE",
    "COMPLETED_COMPACTIONS": "CC_DATABASE",
    "HIVE_LOCKS": "HL_DB",
    "WRITE_SET": "WS_DATABASE",
}


def rows_about(path: Path, database: str) -> dict[str, list[str]]:
    """Returns the rows that Hive keeps in an SQLite file about what happens in ``database``, by table, as text."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        return {
            table: sorted(map(repr, conn.execute(f"SELECT * FROM {table} WHERE {column} = ?", (database,))))
            for table, column in _ABOUT.items()
        }


def files_below(root: Path) -> dict[str, tuple[int, int, int]]:
    """Returns mode, modification time and checksum of everything below ``root`` but claims (see ``names_in``), by relative
    path; directories have no checksum.
    """
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            0 if path.is_dir() else zlib.crc32(path.read_bytes()),
        )
        for path in sorted(root.rglob("*"))
        if not path.name.startswith(CLAIM_PREFIX)
    }


def names_in(path: Path) -> set[str]:
    """Returns the names directly in a directory, without the claims that the first compaction leaves (PROTOCOL 11.13)."""
    return {child.name for child in path.iterdir() if not child.name.startswith(CLAIM_PREFIX)}


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
