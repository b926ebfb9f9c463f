"""Plays a day of writers, failures, restores and held-back cleaning, and counts every figure by hand.

The counts come from files and from rows of the queue, read without our code. The API, the command line and the metrics
must show the same numbers at each moment.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from compactor.airflow.page import queries
from compactor.cleaner.cleaner import clean
from compactor.cli.program import program
from compactor.compaction.states import State
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.requests.restore import restore
from compactor.site.site import Site
from demo.demo_folder import DemoPaths
from tests.support.passes import ROLES, clean_all, settle
from tests.support.sizes import sized
from tests.support.tables import delete, insert, make_table, with_settings
from tests.unit.airflow.page.conftest import Caller

_DELTA = re.compile(r"(delete_)?delta_(\d+)_(\d+)(?:_\d+)?(?:_v(\d+))?$")
_BASE = re.compile(r"base_(\d+)(?:_v\d+)?$")
_WEEK = 0  #: its place in ``returns``


class Day:
    """The metastore under test, what a person counts in it, and what the product says."""

    def __init__(self, site: Site, place: DemoPaths, client: Any) -> None:
        self.site, self._place, self._client = site, place, client
        self.fewer_files = 0  #: that readers read since the commits, by the files on disk
        self.gains: dict[int, int] = {}
        self.removed_files = 0
        self.removed_bytes = 0
        self.runs = 0
        self.moments = 0

    # what a person counts

    def rows(self, query: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._place.folder / "metastore.db")) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query)]

    def on_disk(self) -> dict[str, int]:
        """Returns every file of rows in the warehouse with its size, in quarantine or not."""
        root = self._place.warehouse
        return {
            str(path.relative_to(root)): path.stat().st_size
            for path in root.rglob("*")
            if path.is_file() and not path.name.startswith(("_", "."))
        }

    def read_by_a_reader(self, table: Table) -> dict[str, Path]:
        """Returns the base and the deltas that a reader reads, by the names alone; nothing is open or aborted here."""
        names = {path.name: path for path in Path(table.location).iterdir() if path.is_dir()}
        bases = {int(match[1]): name for name in names if (match := _BASE.match(name))}
        newest = max(bases, default=0)
        chosen = {bases[newest]: names[bases[newest]]} if bases else {}
        deltas = [(bool(m[1]), int(m[2]), int(m[3]), n) for n in names if (m := _DELTA.match(n)) and int(m[3]) > newest]
        for deletes, low, high, name in deltas:
            inside = (d == deletes and a <= low and high <= b and (a, b) != (low, high) for d, a, b, _ in deltas)
            if not any(inside):
                chosen[name] = names[name]
        return chosen

    def files_of(self, table: Table) -> list[Path]:
        directories = self.read_by_a_reader(table).values()
        return [path for name in directories for path in name.iterdir() if not path.name.startswith("_")]

    # what the product says

    def api(self, path: str, **parameters: object) -> Any:
        answer = self._client.get(f"/compactor/default/api/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def cli(self, *arguments: str) -> Any:
        done = CliRunner().invoke(program, ["--config", str(self._place.config), "--json", *arguments])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    def metrics(self) -> dict[str, float]:
        done = CliRunner().invoke(program, ["--config", str(self._place.config), "metrics"])
        assert done.exit_code == 0, done.output
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(done.output)
            for sample in family.samples
            if sample.labels.get("days", "7") == "7"
        }

    def check(self, *tables: Table) -> None:
        """Compares everything at this moment."""
        self.moments += 1
        queries._COUNTS.clear()  # the page says how old a count is, and uses it again only for a while
        fleet, printed, metrics = self.api("fleet"), self.cli("overview"), self.metrics()
        queue = self.rows("SELECT * FROM COMPACTION_QUEUE")
        history = self.rows("SELECT * FROM COMPLETED_COMPACTIONS ORDER BY CC_ID DESC")
        states = {"waiting": "i", "working": "w", "ready_for_cleaning": "r"}
        counts = {name: sum(row["CQ_STATE"] == code for row in queue) for name, code in states.items()}
        counts["failed"] = sum(row["CC_STATE"] == "f" for row in history)
        week = {
            "runs": self.runs,
            "fewer_files": self.fewer_files,
            "removed_files": self.removed_files,
            "removed_bytes": self.removed_bytes,
        }
        for answer in (fleet, printed):
            assert {name: answer[name] for name in counts} == counts
            assert {name: answer["returns"][_WEEK][name] for name in week} == week
            assert sum(day["removed_files"] for day in answer["days"]) == self.removed_files
        assert metrics["compactor_initiated"] == counts["waiting"]
        assert metrics["compactor_ready_for_cleaning"] == counts["ready_for_cleaning"]
        assert metrics["compactor_runs_fewer_files"] == self.fewer_files
        assert metrics["compactor_removed_files"] == self.removed_files
        assert metrics["compactor_removed_bytes"] == self.removed_bytes
        assert [alarm["name"] for alarm in fleet["alarms"]] == [alarm["name"] for alarm in printed["alarms"]]
        assert [alarm["name"] for alarm in self.cli("show", "alarms")] == [alarm["name"] for alarm in fleet["alarms"]]
        self._check_history(history)
        self._check_blocked(queue)
        self._check_tables(queue, history, tables)

    def _check_history(self, history: list[dict[str, Any]]) -> None:
        on_page, printed = self.api("history")["rows"], self.cli("show", "history")
        assert len(on_page) == len(printed) == len(history)
        for row, *answers in zip(history, on_page, printed, strict=True):
            committed = row["CC_COMMIT_TIME"]
            cleaned = row["CC_END"] if row["CC_STATE"] == "s" else None
            kept = self.rows(f"SELECT * FROM COMPACTOR_QUARANTINES WHERE ENTRY_ID = {row['CC_ID']}")
            for shown in answers:
                assert shown["compactionid"] == row["CC_ID"]
                assert (shown["committed_at"], shown["cleaned_at"]) == (committed, cleaned)
                assert shown["duration"] == (committed or row["CC_END"]) - row["CC_START"]
                assert shown["kept_until"] == (kept[0]["UNTIL"] if kept else None)
                assert (shown["removed_at"] is not None) == (cleaned is not None and not kept)

    def _check_blocked(self, queue: list[dict[str, Any]]) -> None:
        ready = [row for row in queue if row["CQ_STATE"] == "r"]
        opened = [row["TXN_ID"] for row in self.rows("SELECT * FROM TXNS WHERE TXN_STATE = 'o'")]
        pairs = {(txn, row["CQ_ID"]) for row in ready for txn in opened if txn <= row["CQ_NEXT_TXN_ID"]}
        on_page = {(row["txnid"], of["compaction"]) for row in self.api("blocked")["rows"] for of in row["compactions"]}
        printed = {(row["txnid"], row["compactionid"]) for row in self.cli("show", "blockers")}
        assert on_page == printed == pairs

    def _check_tables(self, queue: list[Any], history: list[Any], tables: tuple[Table, ...]) -> None:
        printed = {row["table"]: row for row in self.cli("show", "tables")}
        undone = {row["ENTRY_ID"] for row in self.rows("SELECT * FROM COMPACTOR_UNDONE")}
        for table in tables:
            looked = self.api("explain", table=str(table))["row"]
            commits = [row["CQ_COMMIT_TIME"] for row in queue if row["CQ_TABLE"] == table.name]
            commits += [
                row["CC_COMMIT_TIME"] for row in history if row["CC_TABLE"] == table.name and row["CC_ID"] not in undone
            ]
            last = max((at for at in commits if at), default=None)
            row, read, files = printed[str(table)], self.read_by_a_reader(table), self.files_of(table)
            assert looked["last_compacted"] == row["last_compacted"] == last, table
            deltas = sum(name.startswith("d") for name in read)
            assert (row["directories"], row["deltas"], row["files"]) == (len(read), deltas, len(files)), table
            assert row["bytes"] == sum(path.stat().st_size for path in files), table
            if looked["figures"] is not None:
                assert (looked["figures"]["deltas"], looked["figures"]["files"]) == (deltas, len(files)), table
        on_page = [f"{row['table']}" for row in self.api("tables", order="health")["rows"]]
        assert on_page == [name for name in printed if name in on_page]

    # what happens

    def compact(self, *tables: Table) -> None:
        """Runs the worker, and notes by how many files each table has become smaller for its readers."""
        before = {table.name: len(self.files_of(table)) for table in tables}
        ROLES[1](self.site)
        for table in tables:
            newest = self.rows(f"SELECT MAX(CQ_ID) AS N FROM COMPACTION_QUEUE WHERE CQ_TABLE = '{table.name}'")[0]["N"]
            self.gains[newest] = before[table.name] - len(self.files_of(table))
            self.fewer_files += self.gains[newest]
            self.runs += 1

    def while_removing(self, role: Any) -> None:
        """Runs a role that removes files, and counts those that are gone from the disk."""
        before = self.on_disk()
        role(self.site)
        after = sorted(self.on_disk().values())
        gone = sorted(before.values())
        self.removed_files += len(gone) - len(after)
        self.removed_bytes += sum(gone) - sum(after)


@pytest.fixture
def day(site: Site, place: DemoPaths, client: Caller) -> Day:
    with place.config.open("a", encoding="utf-8") as config:
        config.write('"hive.txn.opentxn.timeout" = "1ms"\n"hive.compactor.delta.num.threshold" = "3"\n')
    busy = with_settings(
        site,
        hive_txn_opentxn_timeout="1ms",
        hive_compactor_delta_num_threshold="3",
        compactor_lock_wait="50ms",
    )
    return Day(busy, place, client("admin"))


@pytest.mark.parametrize("number", range(sized(short=1, whole=3)))
def test_every_figure_is_the_one_that_a_person_counts(day: Day, number: int) -> None:
    site, warehouse = day.site, Path(day._place.warehouse)
    orders = make_table(site, warehouse, "orders", **{"compactor.quarantine": "7d"})
    clicks, quiet = make_table(site, warehouse, "clicks"), make_table(site, warehouse, "quiet")
    tables = (orders, clicks, quiet)
    for start in range(5 + number):
        insert(site, orders, range(start * 10, start * 10 + 10))
        insert(site, clicks, range(start * 10, start * 10 + 10))
    delete(site, orders, [3, 14])
    insert(site, quiet, [1, 2])
    settle()
    day.check(*tables)  # 1: written, and nothing else

    initiate(site)
    day.check(*tables)  # 2: requested

    (reader,) = site.metastore.transactions.open("ann", "laptop-7")
    day.compact(orders, clicks)
    day.while_removing(clean)
    day.check(*tables)  # 3: committed; a reader holds the cleaner back

    for start in range(100, 104):
        insert(site, clicks, range(start * 10, start * 10 + 10))
    request_compaction(site, table="default.clicks", type="minor")
    day.check(*tables)  # 4: a newer request waits behind a result that is not cleaned

    site.metastore.transactions.commit(reader)
    settle()
    day.while_removing(clean)
    day.check(*tables)  # 5: cleaned; what was in orders is in quarantine

    day.compact(clicks)
    settle()
    day.while_removing(clean_all)
    day.check(*tables)  # 6: compacted again

    (failing,) = request_compaction(site, table="default.clicks", type="major")
    entry = site.metastore.claims.claim("compactor-w", "1", pool_timeout_ms=0, ids=[cast(int, failing.entry_id)])
    assert entry is not None
    site.metastore.claims.finish(entry, State.FAILED, "no space")
    day.check(*tables)  # 7: one has failed

    (first,) = (row["ENTRY_ID"] for row in day.rows("SELECT ENTRY_ID FROM COMPACTOR_QUARANTINES"))
    restore(site, "default.orders", None, first, "ann")
    day.fewer_files -= day.gains[first]
    day.check(*tables)  # 8: a restore put the old directories back

    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTOR_QUARANTINES SET UNTIL = 1")
    day.while_removing(keep_house)
    day.check(*tables)  # 9: the quarantine is erased

    insert(site, quiet, [5, 6, 7, 8], commits=False)
    settle()
    day.while_removing(lambda site: clean(replace(site, settings=_cleaning_aborts(site))))
    day.check(*tables)  # 10: what an aborted writer left is removed
    assert day.moments == 10
    assert day.removed_files > 0
    assert day.fewer_files > 0


def _cleaning_aborts(site: Site) -> Any:
    return with_settings(site, hive_compactor_abortedtxn_threshold="0", hive_txn_opentxn_timeout="1ms").settings
