"""Compactor and a live Hive on one PostgreSQL: statements and passes of both sides, and what each of them sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from click.testing import CliRunner
from sqlalchemy import Engine, create_engine, text

from compactor.acid.bucket import RowId
from compactor.acid.directory import acid_directory
from compactor.acid.names import CLAIM_PREFIX
from compactor.base.ids import WriteId
from compactor.cli.program import program
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import State
from compactor.database.engine import open_database
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema import tables
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import Job, JobAnswer
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state import state_upgrade
from compactor.tables.store import Store
from demo.snapshot_reader import read_snapshot
from tests.support.expected import difference, plain_rows, render
from tests.support.live_hive import Hive, Place
from tests.support.oracle import read_lines
from tests.support.patience import until
from tests.support.scan_lines import lines_of_scan
from tests.support.servers import Server

TRANSACTIONAL = "stored as orc tblproperties('transactional'='true')"
#: hive.txn.opentxn.timeout, plus a margin for clocks and statements: nothing is cleaned sooner after a commit.
SETTLED_SECONDS = 1.2
_PASSES = 10
#: Every table that holds transactions, locks and compactions, and those of the catalog that a role could touch.
TABLES = (
    *("TXNS", "TXN_COMPONENTS", "COMPLETED_TXN_COMPONENTS", "TXN_TO_WRITE_ID", "NEXT_WRITE_ID", "WRITE_SET"),
    *("MIN_HISTORY_LEVEL", "MIN_HISTORY_WRITE_ID", "HIVE_LOCKS", "NEXT_LOCK_ID", "TXN_LOCK_TBL", "AUX_TABLE"),
    *("COMPACTION_QUEUE", "NEXT_COMPACTION_QUEUE_ID", "COMPLETED_COMPACTIONS", "COMPACTION_METRICS_CACHE"),
    *("DBS", "TBLS", "SDS", "PARTITIONS", "TABLE_PARAMS", "PARTITION_PARAMS", "SEQUENCE_TABLE", "VERSION"),
)

Lines = list[tuple[RowId, str]]


class Meanwhile(InProcessRunner):
    """Calls ``what`` while a compaction is under way, with the check that its worker makes between two units."""

    def __init__(self, what: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self._what = what

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        for job in jobs:
            self._what(job.check)
        return super().run(jobs)


@dataclass(slots=True, kw_only=True)
class Beside:
    """One metastore, two masters. ``hive`` may be a different process after a restart."""

    hive: Hive
    site: Site
    url: str
    engine: Engine

    def restart(self, place: Place) -> None:
        """Kills Hive whatever it is doing, and starts a new one in its place."""
        self.hive.kill()
        self.hive = Hive(place)
        prepare(self.hive)

    # --- requests and passes ------------------------------------------------------------------------------------------

    def ours(self, *arguments: str, code: int = 0) -> Any:
        """Runs our program, which must end with ``code``, and returns the JSON that it prints."""
        done = CliRunner().invoke(program, ["--json", *arguments], env=self.environment(), catch_exceptions=False)
        assert done.exit_code == code, done.output
        lines = done.stdout.splitlines()
        return json.loads(done.stdout) if lines and lines[0] in "[{" else [json.loads(line) for line in lines]

    def process(
        self, output: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts our program in a separate process, whose output goes to ``output``."""
        command = [sys.executable, "-c", "from compactor.cli import main; main()", "--set", "compactor.mode=clean"]
        given = os.environ | self.environment() | (environment or {})
        with output.open("wb") as said:
            return subprocess.Popen([*command, *arguments], env=given, stdout=said, stderr=subprocess.STDOUT)

    def environment(self) -> dict[str, str]:
        return {"COMPACTOR_METASTORE_URL": self.url}

    def compact(self, table: str, kind: str, partition: str | None = None, *settings: str) -> list[dict[str, Any]]:
        """Runs our request and our worker, under ``settings``; returns the result of each partition."""
        where = ["--partition", partition] if partition else []
        asked = self.ours("--set", "compactor.mode=clean", "compact", f"default.{table}", "--type", kind, *where)
        ids = {one["compaction"] for one in asked}
        assert ids, asked
        assert None not in ids, asked
        return [done for done in self.work(*settings) if done["compaction"] in ids]

    def work(self, *settings: str, repairs: int = 0) -> list[dict[str, Any]]:
        """Runs one pass of our worker, which takes back ``repairs`` requests of dead workers."""
        [passed] = self.ours("--set", "compactor.mode=clean", *settings, "run", "worker", "--once", "--in-process")
        assert len(passed["repaired"]) == repairs, passed
        return list(passed["compactions"])

    def clean(self, grace: str = "0s") -> dict[str, Any]:
        """Runs one pass of our cleaner once the last commits have settled; what was aborted ``grace`` ago may go."""
        time.sleep(SETTLED_SECONDS)
        given = ("--set", "compactor.mode=clean", "--set", f"compactor.forget.grace={grace}")
        [passed] = self.ours(*given, "run", "cleaner", "--once")
        return dict(passed)

    def clean_all(self) -> None:
        """Runs passes of our cleaner, none of which may fail, until the queue is empty."""

        def is_done() -> bool:
            if not self.queue():
                return True
            passed = self.clean()
            assert passed["failed"] == [], passed
            return False

        until("the queue is empty", is_done)

    def hive_compact(self, table: str, kind: str, partition: str | None = None) -> None:
        """Runs Hive's request and Hive's worker."""
        self.hive_request(table, kind, partition)
        self.hive_work()

    def hive_request(self, table: str, kind: str, partition: str | None = None, session: str = "main") -> None:
        where = f" partition ({partition})" if partition else ""
        self.hive.sql(f"alter table {table}{where} compact '{kind}'", session)

    def hive_work(self) -> None:
        """Runs passes of Hive's worker, each of which handles one request."""
        for _ in range(_PASSES):
            if not self.queue(State.INITIATED):
                return
            self.hive.do("worker", session="roles")
        raise AssertionError(f"Hive's worker leaves {self.queue()}")

    def hive_clean(self) -> None:
        """Runs one pass of Hive's cleaner once the last commits have settled."""
        time.sleep(SETTLED_SECONDS)
        self.hive.do("cleaner", session="roles")

    def two_rows(self, name: str) -> None:
        """Makes a table of two rows, each inserted by a transaction of its own."""
        self.hive.sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
        for key in (1, 2):
            self.hive.sql(f"insert into {name} values ({key}, 'row {key}')")

    def lock_exclusively(self, name: str) -> tuple[int, int]:
        """Lets Hive lock a table in a transaction; returns the transaction and the lock."""
        [txn] = self.hive.do("open")
        lock, state = self.hive.do("lock", txn=int(txn), type="EXCLUSIVE", database="default", table=name)
        assert state == "ACQUIRED"
        return int(txn), int(lock)

    def later(self, text: str, session: str) -> Future[list[str]]:
        """Starts a statement in Hive that runs on while other calls are made."""
        return self.hive.begin("sql", session, text=text)

    # --- what is observed -------------------------------------------------------------------------------------------

    def rows(self, table: str, wanted: Sequence[str] | None = None) -> list[str]:
        """Returns the table's rows: Hive's SELECT, our reader and the plain reader agree on them and on their ROW__IDs."""
        hives = sorted(_with_id(line) for line in self.hive.sql(f"select row__id, * from {table}"))
        found = self.site.metastore.catalog.table("default", table)
        for reader, seen in (
            ("our reader", self.lines(found)),
            ("the plain one", read_lines(self.site.metastore, found)),
        ):
            differs = difference(hives, seen)
            assert differs == "", f"{table}: Hive's rows and those of {reader}: {differs}"
        lines = sorted(line for _, line in hives)
        if wanted is not None:
            differs = difference(wanted, lines)
            assert differs == "", f"{table}: what was written, and what is read: {differs}"
        return lines

    def lines(self, table: Table) -> Lines:
        """Returns every row as our reader reads it, with its ROW__ID."""
        txns = self.site.metastore.transactions.snapshot()
        write_ids = self.site.write_ids(table, txns)
        types = [column.type for column in table.columns]
        partitions = self.site.metastore.catalog.partitions(table) if table.partition_keys else ()
        places = [(p.location, p.values) for p in partitions] if partitions else [(table.location, ())]
        lines: Lines = []
        for location, values in places:
            path = self.site.storage.resolve(location)
            directory = acid_directory(self.site.storage.listing(path), write_ids, txns)
            row_type = f"struct<{','.join(f'{c.name}:{c.type}' for c in table.columns)}>"
            for batch in read_snapshot(path, directory, write_ids, row_type):
                for write_id, bucket, number, *cells in plain_rows(batch):
                    texts = [render(cell, kind) for cell, kind in zip(cells, types, strict=True)]
                    lines.append((RowId(WriteId(write_id), bucket, number), "\t".join([*texts, *values])))
        return sorted(lines)

    def scanned(self, table: str) -> None:
        """Checks that a scan of ``compactor.tables`` shows what Hive's SELECT shows, with its ROW__IDs."""
        hives = sorted(_with_id(line) for line in self.hive.sql(f"select row__id, * from {table}"))
        found = self.site.metastore.catalog.table("default", table)
        kinds = [column.type for column in found.columns]
        lines = lines_of_scan(Store(self.site).load_table(f"default.{table}"), kinds, len(found.partition_keys))
        seen = sorted(
            (RowId(WriteId(row_id[0]), *row_id[1:]), "\t".join([*texts, *values])) for row_id, texts, values in lines
        )
        assert difference(hives, seen) == "", table

    def shown(self, what: str) -> list[dict[str, str]]:
        """Returns the rows of a SHOW statement, as Hive prints them."""
        headings, *rows = [line.split("\t") for line in self.hive.sql(f"show {what}", session="looker")]
        return [{name: value.strip() for name, value in zip(headings, row, strict=True)} for row in rows]

    def shown_compaction(self, number: int) -> dict[str, str]:
        """Returns the row of one compaction, as Hive prints it."""
        [row] = [row for row in self.shown("compactions") if row["CompactionId"] == str(number)]
        return row

    def queue(self, *states: State) -> list[Entry]:
        return self.site.metastore.entries.queue(states=states or None)

    def history(self, table: str, partition: str | None = None) -> list[Entry]:
        """Returns the results of the table's compactions, newest first."""
        return self.site.metastore.entries.history(entity(table, partition))

    def directory(self, table: str, partition: str | None = None) -> Path:
        target = self.site.target(entity(table, partition))
        return Path(urlparse(target.location).path)

    def names(self, table: str, partition: str | None = None) -> list[str]:
        """Returns the names in the table's or partition's directory, without our claim."""
        names = (path.name for path in self.directory(table, partition).iterdir())
        return sorted(name for name in names if not name.startswith(CLAIM_PREFIX))

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns rows of the database itself."""
        with self.engine.begin() as conn:
            found = conn.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        """Returns every row of ``TABLES``."""
        return {name: sorted(self.sql(f'SELECT * FROM "{name}"'), key=repr) for name in TABLES}


@contextmanager
def side_by_side(place: Place, server: Server) -> Iterator[Beside]:
    """Yields both sides, running on the place's database; Hive ends with the block, and so does one started in its place."""
    url = server.url.format(name=place.release.name)
    database = open_database(url)
    state_upgrade.upgrade(database)
    database.close()
    engine = create_engine(url)
    hive = Hive(place)
    made = None
    try:
        prepare(hive)
        with open_site(configure(flags={"compactor.mode": "clean", "url": url}, environment={})) as site:
            made = Beside(hive=hive, site=site, url=url, engine=engine)
            yield made
    finally:
        (made.hive if made is not None else hive).kill()
        engine.dispose()


@contextmanager
def left_clean(both: Beside) -> Iterator[None]:
    """A block that must leave nothing queued, locked or open; if it does, that is removed for those after it."""
    yield
    left = [*both.queue(), *both.site.metastore.locks.show(), *both.site.metastore.transactions.open_transactions()]
    for txn in both.site.metastore.transactions.open_transactions():
        both.site.metastore.transactions.abort(txn.id, "left by a test")
    with both.site.metastore.database.write() as conn:
        conn.execute(tables.COMPACTION_QUEUE.delete())
    assert left == []


def prepare(hive: Hive) -> None:
    """Waits for Hive to start. Its session ``by row`` disables vectorised execution; ``by batch`` has it in every query,
    where others fetch rows one by one if there is nothing to compute."""
    hive.wait_until_ready()
    hive.sql("show databases")  # makes the database default
    hive.set("hive.vectorized.execution.enabled", "false", session="by row")
    hive.set("hive.fetch.task.conversion", "none", session="by batch")


def entity(table: str, partition: str | None = None) -> Entity:
    return Entity(database="default", table=table, partition=partition)


def _with_id(line: str) -> tuple[RowId, str]:
    row_id, _, rest = line.partition("\t")
    parts = json.loads(row_id)
    return RowId(WriteId(parts["writeid"]), parts["bucketid"], parts["rowid"]), rest
