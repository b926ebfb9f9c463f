"""A request of many units is stopped while they run: by a person, or by SIGTERM to its worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.ids import WriteId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.queue.worker_claims import ABORT_MESSAGE
from compactor.requests.abort import abort_compaction, abort_transaction
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.run.runner import InProcessRunner, ProcessRunner, Runner
from compactor.rewrite.run.task_queue import Job, JobAnswer
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.site.view import compactor_view
from compactor.worker.ending import Result
from demo.delta_writer import write_rows
from demo.snapshot_reader import read_snapshot
from tests.support.many import make_partitions, make_table, row_type
from tests.support.patience import PATIENCE, until
from tests.support.tables import with_settings
from tests.support.watching import files_below, names_in

COLUMNS = (Column(name="a", type="int"), Column(name="b", type="string"))
UNITS = 40
PARTITION = "p=000000"
ENTITY = Entity(database="default", table="t", partition=PARTITION)


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


def many_files(location: str, write_id: WriteId) -> None:
    for number in range(UNITS):
        rows = pa.table({"a": pa.array([number], pa.int32()), "b": [f"row {write_id}"]})
        write_rows(location, row_type(COLUMNS), rows, write_id=write_id, statement_id=0, number=number)


class Meanwhile:
    """Does something when a runner asks for the second time whether units may begin; counts those that do."""

    application: str | None = None

    def __init__(self, runner: Runner, act: Callable[[], object]) -> None:
        self._runner = runner
        self._act = act
        self._asked = 0
        self.begun = 0

    def run(self, jobs: Sequence[Job]) -> list[JobAnswer]:
        return self._runner.run([self._watched(job) for job in jobs])

    def _watched(self, job: Job) -> Job:
        def check() -> None:
            self._asked += 1
            if self._asked == 2:
                self._act()
            job.check()

        def skips(unit: Unit) -> bool:
            self.begun += 1
            return job.skips(unit)

        return replace(job, check=check, skips=skips)


def by_compaction(site: Site, entry: Entry) -> None:
    abort_compaction(site, entry.id)


def by_transaction(site: Site, entry: Entry) -> None:
    assert entry.txn_id is not None
    abort_transaction(site, entry.txn_id, "aborted by hand")


@pytest.mark.parametrize("act", [by_compaction, by_transaction])
@pytest.mark.parametrize("processes", [0, 2], ids=["in process", "processes"])
def test_a_stopped_worker_begins_no_further_unit(
    site: Site, warehouse: Path, act: Callable[[Site, Entry], None], processes: int
) -> None:
    """PROTOCOL 6: nothing is named, nothing stays; cancelled is ``x``, a transaction that is gone lets the request wait."""
    table = make_table(site.metastore, warehouse, 1, columns=COLUMNS, writes=[many_files] * 2, name="t")
    location = Path(table.location) / PARTITION
    before = files_below(location)
    request_compaction(site, table="default.t")

    def stop() -> None:
        (entry,) = site.metastore.entries.working()
        act(site, entry)

    with ProcessRunner(2) as pool:
        runner = Meanwhile(pool if processes else InProcessRunner(), stop)
        (outcome,) = run_entries(site, list_claimable_ids(site), runner).outcomes
    assert outcome.result in (Result.LOST, Result.ABORTED)
    assert "is no longer open" in outcome.message
    assert 1 <= runner.begun <= UNITS // 4  # the first parcel, of one unit or of a quarter of them
    repair(site)
    assert files_below(location) == before
    assert site.metastore.transactions.open_transactions() == []
    if act is by_compaction:
        assert site.metastore.entries.queue() == []
        ended = site.metastore.entries.get(outcome.entry.id)
        assert (ended.state, ended.error) == (State.ABORTED, ABORT_MESSAGE)
    else:
        assert [e.state for e in site.metastore.entries.queue()] == [State.INITIATED]
        (again,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
        assert again.result is Result.COMPACTED


DELTAS = 160


def rows_of_partition(site: Site, table: Table) -> int:
    """As a reader sees them who honours visibility."""
    target = site.target(replace(ENTITY, table=table.name))
    view = compactor_view(site, target)
    batches = read_snapshot(target.location, view.directory, view.write_ids, target.row_type)
    return sum(batch.num_rows for batch in batches)


def test_sigterm_publishes_what_is_whole_and_requests_the_rest_again(
    site: Site, warehouse: Path, metastore_url: str
) -> None:
    """A real worker over a request that is bounded in time: it ends well, soon, and nothing is lost."""
    table = make_partitions(site.metastore, warehouse, 1, deltas=DELTAS)
    location = Path(table.location) / PARTITION
    largest = max(file.stat().st_size for file in location.glob("delta_*/bucket_*"))
    wanted = rows_of_partition(site, table)
    properties = {"compactor.max.time": "1h", "compactor.chunk.bytes": str(2 * largest)}
    (asked,) = request_compaction(site, table="default.t", type="minor", properties=properties)
    line = [sys.executable, "-c", "from compactor.cli import main; main()", "--json", "run", "worker", "--in-process"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COMPACTOR_")}
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"COMPACTOR_METASTORE_URL": metastore_url},
    ) as process:
        try:
            until("the first unit", lambda: any(location.glob(".compactor_v*/attempts/*")), pause=0.001)
            process.send_signal(signal.SIGTERM)
            said, error = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, "Traceback" in error) == (0, False), error
    (told,) = [c for line in said.splitlines() for c in json.loads(line)["compactions"]]
    assert (told["compaction"], told["fate"]) == (asked.entry_id, "compacted")
    assert 1 <= len(told["output"]) < DELTAS // 2
    assert told["left"]["deltas"] == DELTAS - 2 * len(told["output"])
    assert told["message"].startswith("compactor.max.time; ")
    (rest,) = site.metastore.entries.queue(states=(State.INITIATED,))
    assert (rest.type, rest.properties) == (CompactionType.MINOR, properties)
    assert set(told["output"]) <= names_in(location)
    assert not [name for name in names_in(location) if name.startswith(".")]
    assert rows_of_partition(site, table) == wanted
