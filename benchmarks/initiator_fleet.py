"""One pass over a fleet of which little has changed: ``python benchmarks/initiator_fleet.py [partitions] [--tables N]``.

PostgreSQL with Hive's own schema, in memory. Real are all rows of the catalog, of transactions and of what was written,
and the digests of all decisions, as a first pass stores them. Made up is that such a pass has listed anything: of the
partitions that do not change no directory exists, so a listing of one of them would be counted as an error. Those that
change (``--changed``, in percent, spread over all tables) have real directories with two deltas, and are due. Four passes,
each in a process of its own: before anything has changed, after the change, and twice while what is due is in the queue;
their seconds, their processor time and that of the server, their largest memory.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, text

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, conclude, disk_of
from compactor.compaction.portions import split_portions
from compactor.initiator import outdated
from compactor.initiator.candidate_page import CandidatePage
from compactor.initiator.candidate_scan import CandidateScan
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table as Made
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from compactor.site.site import Site
from compactor.state import state_database, state_upgrade
from compactor.state.seen_conditions import entity_key
from tests.support import servers
from tests.support.many import copy_tree, make_partitions, site_of

APART = 10_000_000  #: between the ids of one kind of rows and the next
_COLUMNS = (
    *("METASTORE", "ENTITY_KEY", "DB_NAME", "TABLE_NAME", "PART_NAME", "SEEN_AT", "OUTCOME", "BECAUSE", "FLIPS"),
    *("DIGEST", "NEWEST_TXN_ID"),
)


def say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


def fleet(metastore: Metastore, state: state_database.OwnState) -> Site:
    return site_of(metastore, state, hive_compactor_delta_num_threshold="1")


def copied(conn: Connection, table: Table, count: int, key: str, model: int, **other: str) -> None:
    """Inserts ``count`` rows like the one whose ``key`` is ``model``, with SQL of the number ``g`` for ``other`` columns."""
    names = [column.name for column in table.columns]
    values = ", ".join(other.get(name, f'm."{name}"') for name in names)
    columns = ", ".join(f'"{name}"' for name in names)
    conn.execute(
        text(
            f'INSERT INTO "{table.name}" ({columns}) SELECT {values} FROM "{table.name}" m, generate_series(1, {count}) g '
            f'WHERE m."{key}" = {model}'
        )
    )


def make_rows(metastore: Metastore, model: Made, warehouse: Path, partitions: int, tables: int) -> None:
    """Makes tables like ``model`` with partitions like its only one, each of them written to by one transaction."""
    number, table = f"({APART} + g)", f"({APART} + 1 + (g - 1) % {tables})"
    name = "('t' || lpad(g::text, 6, '0'))"
    of = "('t' || lpad((1 + (g - 1) % " + str(tables) + ")::text, 6, '0'))"
    part = "('p=' || lpad(((g - 1) / " + str(tables) + ")::text, 6, '0'))"
    with metastore.database.write() as conn:
        columns = '"TBLS"."TBL_ID", "TBLS"."SD_ID", "PART_ID", "PARTITIONS"."SD_ID" AS "PSD"'
        joined = '"TBLS" JOIN "PARTITIONS" ON "PARTITIONS"."TBL_ID" = "TBLS"."TBL_ID"'
        query = f'SELECT {columns} FROM {joined} WHERE "TBLS"."TBL_ID" = {model.id}'
        template = conn.execute(text(query)).one()
        copied(conn, t.SDS, tables, "SD_ID", template.SD_ID, SD_ID=number, LOCATION=f"('{warehouse}/' || {name})")
        copied(conn, t.TBLS, tables, "TBL_ID", template.TBL_ID, TBL_ID=number, SD_ID=number, TBL_NAME=name)
        for child in (t.TABLE_PARAMS, t.PARTITION_KEYS):
            copied(conn, child, tables, "TBL_ID", template.TBL_ID, TBL_ID=number)
        where = f"('{warehouse}/' || {of} || '/' || {part})"
        apart = f"({2 * APART} + g)"
        copied(conn, t.SDS, partitions, "SD_ID", template.PSD, SD_ID=apart, LOCATION=where)
        copied(
            conn,
            t.PARTITIONS,
            partitions,
            "PART_ID",
            template.PART_ID,
            PART_ID=apart,
            SD_ID=apart,
            TBL_ID=table,
            PART_NAME=part,
        )
        copied(conn, t.PARTITION_KEY_VALS, partitions, "PART_ID", template.PART_ID, PART_ID=apart)
        txn = "(1000 + 1 + (g - 1) % " + str(tables) + ")"
        written = {"CTC_TABLE": of, "CTC_PARTITION": part, "CTC_TXNID": txn, "CTC_WRITEID": "1"}
        model_row = conn.execute(text('SELECT min("CTC_TXNID") FROM "COMPLETED_TXN_COMPONENTS"')).scalar_one()
        copied(conn, t.COMPLETED_TXN_COMPONENTS, partitions, "CTC_TXNID", model_row, **written)
        here = "'default', 't' || lpad(g::text, 6, '0')"
        for statement in (
            f'INSERT INTO "TXN_TO_WRITE_ID" SELECT 1000 + g, {here}, 1 FROM generate_series(1, {tables}) g',
            f'INSERT INTO "NEXT_WRITE_ID" SELECT {here}, 3 FROM generate_series(1, {tables}) g',
            f'INSERT INTO "TXN_TO_WRITE_ID" SELECT 500000 + g, {here}, 2 FROM generate_series(1, {tables}) g',
        ):
            conn.execute(text(statement))
        row = conn.execute(text('SELECT max("TXN_ID") FROM "TXNS"')).scalar_one()
        copied(conn, t.TXNS, 1, "TXN_ID", row, TXN_ID="1000000", TXN_STATE="'c'")
        conn.execute(text("SELECT setval(pg_get_serial_sequence('\"TXNS\"', 'TXN_ID'), 1000000)"))


def decided(site: Site) -> Iterator[tuple[object, ...]]:
    """Yields the rows that a first pass stores, which has found that nothing is due."""
    scan = CandidateScan(site)
    for portion in split_portions(scan.candidate_tables(), None):
        for candidate in CandidatePage(scan, portion.tables).sort_out(portion).pending:
            entity, basis = candidate.entity, candidate.basis
            assert basis is not None
            key = entity_key(entity)
            named = (site.name, key, entity.database, entity.table, entity.partition)
            yield (*named, scan.now_ms, "notneeded", "1 deltas <= 1", "[]", basis.digest, basis.newest_txn)


def remember(site: Site, state: state_database.OwnState) -> None:
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    into = f'COPY "COMPACTOR_CONDITIONS" ({columns}) FROM STDIN'
    with state.database.write() as conn:
        cursor: Any = conn.connection.cursor()  # the driver's own
        with cursor.copy(into) as copy:
            for row in decided(site):
                copy.write_row(row)
    outdated.record_sweep(site, state, 0, site.metastore.now_ms())


def change(metastore: Metastore, model: Path, warehouse: Path, partitions: int, tables: int, changed: int) -> None:
    """Writes once more into ``changed`` partitions, evenly over the tables, and makes the directories of both writes."""
    for number in range(changed):
        at = number * (partitions // changed)
        at += (number - at) % tables if tables < partitions else 0  # another table each time
        at %= partitions
        table, part = f"t{1 + at % tables:06d}", f"p={at // tables:06d}"
        folder = warehouse / table
        folder.mkdir(exist_ok=True)
        if not (folder / part).exists():
            copy_tree(model, folder / part)
            _write(metastore, table, part, 500_000 + 1 + at % tables)


_WRITTEN: list[dict[str, object]] = []


def _write(metastore: Metastore, table: str, part: str, txn: int) -> None:
    row = {"CTC_DATABASE": "default", "CTC_TABLE": table, "CTC_PARTITION": part, "CTC_TXNID": txn, "CTC_WRITEID": 2}
    _WRITTEN.append({**row, "CTC_UPDATE_DELETE": "N"})


def server_cpu(metastore: Metastore) -> float:
    """Returns the processor time that the server's processes have taken, with those that have ended."""
    with metastore.database.read() as conn:
        pid = conn.execute(text("SELECT pg_read_file('postmaster.pid')")).scalar_one().split("\n")[0]
    seconds = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if pid in (stat.parent.name, fields[1]):
                seconds += sum(map(int, fields[11:15] if stat.parent.name == pid else fields[11:13]))
    return seconds / os.sysconf("SC_CLK_TCK")


def one_pass(url: str, profile: bool) -> None:
    """Runs the pass, and prints its figures as JSON."""
    metastore, state = open_metastore("default", url), state_database.open_state(url)
    site = fleet(metastore, state)
    profiler = cProfile.Profile(time.thread_time) if profile else None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    served = server_cpu(metastore)
    start, worked = time.perf_counter(), time.process_time()
    done = profiler.runcall(initiate, site) if profiler else initiate(site)
    figures = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - worked,
        "server": server_cpu(metastore) - served,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "before": before,
        "kept": done.kept,
        "enqueued": len(done.enqueued),
        "outcomes": dict(Counter(considered.outcome for considered in done.considered)),
    }
    if profiler:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(40)
    say(json.dumps(figures))


def measure(program: list[str], partitions: int, label: str, what: str) -> list[Row]:
    """Runs a pass in a process of its own, and returns its figures."""
    figures = json.loads(subprocess.run(program, check=True, stdout=subprocess.PIPE).stdout)
    say(
        f"{label:6}{figures['seconds']:8.1f} s ({figures['cpu']:.2f} s of CPU, and {figures['server']:.2f} s of the "
        f"server's), at most {figures['peak'] / 1024:.0f} MB of memory ({figures['before'] / 1024:.0f} before it began), "
        f"{figures['kept']} kept, {figures['enqueued']} requested, {figures['outcomes']}"
    )
    work = f"{partitions} partitions, {what}"
    details = {"CPU": figures["cpu"], "CPU of the server": figures["server"]}
    return [
        Row(work=f"{work}: s", bar=60, measured=figures["seconds"], details=details),
        Row(work=f"{work}: GB of memory", bar=1, measured=figures["peak"] / 1024**2),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--changed", type=float, default=1.0, help="percent of the partitions")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only-pass", metavar="URL")
    options = parser.parse_args()
    if options.only_pass:
        one_pass(options.only_pass, options.profile)
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    with tempfile.TemporaryDirectory() as name, servers.postgres() as server:
        folder, warehouse = Path(name), Path(name) / "warehouse"
        say(
            f"{options.partitions} partitions in {options.tables} tables, {options.changed:g} % changed; Python "
            f"{platform.python_version()}, {os.cpu_count()} cores, {memory:.0f} GiB, load {os.getloadavg()[0]:.1f}, "
            f"directories in {disk_of(folder)}"
        )
        url = server.make("bench", servers.hive_schema("postgresql", "4.0.0"))
        metastore, state = open_metastore("default", url), state_upgrade.init(url)
        start = time.perf_counter()
        model = make_partitions(metastore, warehouse, 1, deltas=2, name="model")
        make_rows(metastore, model, warehouse, options.partitions, options.tables)
        with metastore.database.write() as conn:
            conn.execute(text('DELETE FROM "COMPLETED_TXN_COMPONENTS" WHERE "CTC_TABLE" = \'model\''))
        analyse(metastore)
        site = fleet(metastore, state)
        remember(site, state)
        say(f"{initiate(site).kept} decisions stand")  # what a pass remembers of each table
        program = [sys.executable, __file__, "--only-pass", url, *(["--profile"] if options.profile else [])]
        rows = measure(program, options.partitions, "calm", "nothing changed")
        change(
            metastore,
            warehouse / "model" / "p=000000",
            warehouse,
            options.partitions,
            options.tables,
            max(1, int(options.partitions * options.changed / 100)),
        )
        with metastore.database.write() as conn:
            conn.execute(t.COMPLETED_TXN_COMPONENTS.insert(), _WRITTEN)
        analyse(metastore)
        say(f"made in {time.perf_counter() - start:.0f} s, {len(_WRITTEN)} partitions changed")
        metastore.close()
        state.close()
        changed = f"{options.changed:g} % changed"
        for label, what in (("pass", changed), ("queued", f"{changed} before"), ("again", f"{changed} before, again")):
            rows += measure(program, options.partitions, label, what)
    tables = f"{options.tables}, {len(_WRITTEN)} partitions changed"
    conclude(rows, "initiator_fleet", {"database": "PostgreSQL, in memory", "tables": tables})


def analyse(metastore: Metastore) -> None:
    """Lets the server know its tables, as its own vacuum does."""
    with metastore.database.write() as conn:
        conn.execute(text("ANALYZE"))


if __name__ == "__main__":
    main()
