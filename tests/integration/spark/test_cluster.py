"""DESIGN 6 on a real standalone cluster of two workers: the code travels as a packed environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from compactor.base.ids import WriteId
from compactor.batches.assembly import plan_batches
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Column, Table
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.run.task_queue import PARCEL_UNITS
from compactor.site.lost_workers import repair
from compactor.site.site import Site, own_state
from demo.delta_writer import write_rows
from tests.support import insert_only
from tests.support.many import make_partitions, make_table, row_type
from tests.support.patience import PATIENCE, until
from tests.support.spark_cluster import WORKERS, Cluster
from tests.support.tables import delete, insert, rows_of, story
from tests.support.tables import make_table as make_plain
from tests.support.watching import files_below

LINGER_S = int(PATIENCE)  #: it ends with the test
UNITS = 12 * PARCEL_UNITS  #: of which two workers take a sixth at once
#: Values that may reach Spark, and those that never do.
CONF = {"compactor.spark.executor.memory": "600m", "compactor.spark.jars": "/tmp/evil.jar"}
Look = Callable[[], list[Any]]


def skewed(site: Site, warehouse: Path, name: str) -> tuple[Table, Look]:
    """Creates a table with one file number that is large by its ``compactor.split.bytes``: each stripe is a task."""
    table = make_plain(site, warehouse, name, **CONF, **{"compactor.split.bytes": "1"})
    story(site, table)
    insert(site, table, range(100, 140, 2))
    delete(site, table, [100, 120])
    return table, lambda: rows_of(site, table)


def of_format(site: Site, warehouse: Path, file_format: FileFormat) -> tuple[Table, Look]:
    name = f"files_{file_format.name.lower()}"
    table = insert_only.make_insert_only(site, warehouse, file_format, name, parameters=CONF)
    insert_only.story(site, table, file_format)
    return table, lambda: insert_only.rows_of(site, table, file_format)


def parted(site: Site, warehouse: Path) -> Table:
    table = make_partitions(site.metastore, warehouse, 3, deltas=3, name="parted")
    for key, value in CONF.items():
        site.metastore.embedded_catalog.set_table_parameter(table, key, value)
    return table


def directories(location: str) -> list[str]:
    return sorted(path.name for path in Path(location).iterdir() if path.name.startswith("base_"))


def test_a_batch_runs_on_both_workers_and_its_application_takes_the_next(
    spark: Cluster, deployment: Site, metastore_url: str, warehouse: Path
) -> None:
    """Skewed units are split, small partitions and plain files go along; nothing of ours is installed on a worker."""
    runs_on_both_workers(spark, deployment, metastore_url, warehouse)


def test_the_oldest_spark_does_the_same(
    oldest_spark: Cluster, deployment: Site, metastore_url: str, warehouse: Path
) -> None:
    """Spark 3.5, which most clusters run: its own spark-submit, master, workers and pyspark, our packed environment."""
    runs_on_both_workers(oldest_spark, deployment, metastore_url, warehouse)
    [started] = [e for e in oldest_spark.events() if e["Event"] == "SparkListenerLogStart"]
    assert started["Spark Version"] == "3.5.7"


def runs_on_both_workers(spark: Cluster, deployment: Site, metastore_url: str, warehouse: Path) -> None:
    looks: dict[str, Look] = {}
    for table, look in [
        skewed(deployment, warehouse, "skewed"),
        *(of_format(deployment, warehouse, file_format) for file_format in insert_only.INPUTS),
    ]:
        looks[table.name] = look
        request_compaction(deployment, table=table.name, type="major")
    partitions = parted(deployment, warehouse)
    for number in range(3):
        request_compaction(deployment, table="parted", partition=f"p={number:06d}", type="minor")
    wanted = {name: look() for name, look in looks.items()}
    (batch,) = plan_batches(deployment)
    arguments = ["--batch", str(batch.batch_id), "--linger", str(LINGER_S)]
    with spark.submitted(arguments, {"COMPACTOR_METASTORE_URL": metastore_url}) as application:
        first = next(application)
        fates = {c["table"]: (c["fate"], c["message"]) for c in first["compactions"]}
        assert set(fates.values()) == {("compacted", "")}, fates
        assert len(fates) == len(looks) + 3
        assert {name: look() for name, look in looks.items()} == wanted
        (figures,) = [c["figures"] for c in first["compactions"] if c["table"] == "default.skewed"]
        assert figures["stripes_encoded"] > WORKERS
        assert all(directories(f"{partitions.location}/p={n:06d}") == [] for n in range(3))  # minors

        (resident,) = own_state(deployment).batches.residents(deployment.name)
        _, look = skewed(deployment, warehouse, "later")
        later = look()
        request_compaction(deployment, table="later", type="major")
        assert all(planned.resident == resident.id for planned in plan_batches(deployment))
        second = next(application)
        assert [(c["table"], c["fate"]) for c in second["compactions"]] == [("default.later", "compacted")]
        assert look() == later
        jobs = {entry.job_id for entry in deployment.metastore.entries.queue()}
        assert jobs == {resident.application_id}
    events = spark.events()
    tasks = [e["Task Info"]["Executor ID"] for e in events if e["Event"] == "SparkListenerTaskEnd"]
    assert len(set(tasks)) == WORKERS, tasks
    assert min(tasks.count(executor) for executor in set(tasks)) > 1
    (environment,) = [e["Spark Properties"] for e in events if e["Event"] == "SparkListenerEnvironmentUpdate"]
    assert environment["spark.executor.memory"] == "600m"
    assert "evil" not in str(environment)


def test_units_of_an_aborted_compaction_do_not_begin(
    spark: Cluster, deployment: Site, metastore_url: str, warehouse: Path
) -> None:
    """PROTOCOL 6: `compactor abort compaction` while executors write: no job follows, and nothing stays."""
    columns = [Column(name="a", type="int")]

    def many_files(location: str, write_id: WriteId) -> None:
        for number in range(UNITS):
            rows = pa.table({"a": pa.array([number], pa.int32())})
            write_rows(location, row_type(columns), rows, write_id=write_id, statement_id=0, number=number)

    table = make_table(deployment.metastore, warehouse, 1, columns=columns, writes=[many_files] * 2, name="wide")
    location = Path(table.location) / "p=000000"
    before = files_below(location)
    (asked,) = request_compaction(deployment, table="wide")
    assert asked.entry_id is not None
    (batch,) = plan_batches(deployment)
    arguments, memory = ["--batch", str(batch.batch_id)], {"spark.executor.memory": "600m"}
    with spark.submitted(arguments, {"COMPACTOR_METASTORE_URL": metastore_url}, memory) as application:
        until("the first units", lambda: any(location.glob(".compactor_v*/attempts/*")))
        # While executors write, staging may not go at once; then the entry stays working, and the worker or a pass ends it.
        assert abort_compaction(deployment, asked.entry_id).state in (State.ABORTED, State.WORKING)
        ((told,),) = (said["compactions"] for said in [next(application)])
    assert told["compaction"] == asked.entry_id
    assert told["fate"] in ("lost", "aborted")  # the second where the worker ended what could not be abandoned at once
    ended = sum(e["Event"] == "SparkListenerTaskEnd" for e in spark.events())
    assert 0 < ended < UNITS // PARCEL_UNITS
    repair(deployment)
    assert deployment.metastore.entries.get(asked.entry_id).state is State.ABORTED
    assert files_below(location) == before
    assert deployment.metastore.entries.queue() == []
    assert deployment.metastore.transactions.open_transactions() == []
