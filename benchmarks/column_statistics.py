"""The cost of statistics to a worker over many small partitions: ``benchmarks/column_statistics.py [partitions] [deltas]``.

Groups of entries are compacted in this process, every other one with ``hive.compactor.gather.stats`` off. The ratio is that
of the processor's time for the groups with statistics to that for the others; nothing was known of any partition before, so
that everything is written. ``--columns`` adds rows of column statistics, on a server; ``--database`` and ``--folder`` are
those of ``initiator.py``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from fleet import queue_requests
from initiator import facts, say
from sqlalchemy import select, text

from benchmarks.parts.report import Row, conclude
from compactor.batches.driver import MAX_GROUP_SIZE
from compactor.metastore.schema.tables import PARTITIONS
from compactor.rewrite.run.runner import InProcessRunner
from compactor.settings.precedence import Layer, Settings
from compactor.site.site import Site
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from compactor.worker.worker import work_together

BAR = 1.04  #: of the time without
_KEY = "hive.compactor.gather.stats"


def with_columns(site: Site, columns: int) -> None:
    """Gives each partition so many rows of column statistics, of which the first is that of ``a``."""
    with site.metastore.database.write() as conn:
        ids = conn.execute(select(PARTITIONS.c.PART_ID)).scalars().all()
        rows = [
            {"id": columns * part + number, "part": part, "name": f"c{number}" if number else "a"}
            for part in ids
            for number in range(columns)
        ]
        names = '"CS_ID", "PART_ID", "COLUMN_NAME", "COLUMN_TYPE", "NUM_NULLS", "LAST_ANALYZED", "ENGINE"'
        quoted = names if site.metastore.dialect.database == "postgresql" else names.replace('"', "`")
        table = "PART_COL_STATS" if site.metastore.dialect.database != "postgresql" else '"PART_COL_STATS"'
        conn.execute(text(f"INSERT INTO {table} ({quoted}) VALUES (:id, :part, :name, 'int', 0, 0, 'hive')"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=640)
    parser.add_argument("deltas", type=int, nargs="?", default=12)
    parser.add_argument("--columns", type=int, default=0)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "mysql"), default="sqlite")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        say(f"{options.partitions} partitions x {options.deltas} deltas, {options.database}, {facts(folder)}")
        with queue_requests(options.database, folder, options.partitions, options.deltas, "major") as (site, _):
            if options.columns:
                with_columns(site, options.columns)
            spent, done = {"true": 0.0, "false": 0.0}, {"true": 0, "false": 0}
            waiting = [entry.id for entry in site.metastore.entries.queue()]
            for number, start in enumerate(range(0, len(waiting), MAX_GROUP_SIZE)):
                turn = "true" if number % 2 else "false"
                layer = Layer(name="flag", values={"compactor.mode": "clean", _KEY: turn})
                pass_site = replace(site, settings=Settings.of([layer])).for_a_pass()
                outcomes: list[Outcome] = []
                begun = time.process_time()
                group = waiting[start : start + MAX_GROUP_SIZE]
                work_together(pass_site, group, InProcessRunner(), Options(), outcomes.append)
                if number < 2:
                    continue  # imports, and statements that are built once
                spent[turn] += time.process_time() - begun
                done[turn] += len(outcomes)
                assert {outcome.result for outcome in outcomes} == {Result.COMPACTED}
            each = {turn: 1000 * spent[turn] / done[turn] for turn in spent}
            for turn, words in (("false", "without"), ("true", "with statistics")):
                say(f"{words:22}{each[turn]:8.2f} ms of the processor each")
    work, details = (
        "worker's processor time with statistics to without",
        {"ms": each["true"], "ms without": each["false"]},
    )
    conclude([Row(work=work, bar=BAR, measured=each["true"] / each["false"], details=details)], "column_statistics")


if __name__ == "__main__":
    main()
