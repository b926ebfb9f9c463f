"""DESIGN 6 on a real standalone cluster of two workers: the code travels as a packed environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from compactor.metastore.catalog import Table
from compactor.rewrite.file_format import FileFormat
from compactor.service.batch import own_state, plan_batches
from compactor.service.request import request_compaction
from compactor.service.site import Site
from tests.support import insert_only
from tests.support.many import make_partitions
from tests.support.spark_cluster import WORKERS, Cluster
from tests.support.tables import delete, insert, make_table, rows_of, story

LINGER_S = 120
#: What may reach Spark, and what never does.
CONF = {"compactor.spark.executor.memory": "600m", "compactor.spark.jars": "/tmp/evil.jar"}
Look = Callable[[], list[Any]]


def skewed(site: Site, warehouse: Path, name: str) -> tuple[Table, Look]:
    """A table of one large file number, as far as ``compactor.split.bytes`` says: each stripe is a task."""
    table = make_table(site, warehouse, name, **CONF, **{"compactor.split.bytes": "1"})
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
        site.metastore.catalog.set_table_parameter(table, key, value)
    return table


def directories(location: str) -> list[str]:
    return sorted(path.name for path in Path(location).iterdir() if path.name.startswith("base_"))


def test_a_batch_runs_on_both_workers_and_its_application_takes_the_next(
    spark: Cluster, deployment: Site, metastore_url: str, warehouse: Path
) -> None:
    """Skewed units are divided, small partitions and plain files go along; nothing of ours is installed on a worker."""
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

        (resident,) = own_state(deployment).residents.find(deployment.name)
        _, look = skewed(deployment, warehouse, "later")
        later = look()
        request_compaction(deployment, table="later", type="major")
        assert all(planned.resident == resident.id for planned in plan_batches(deployment))
        second = next(application)
        assert [(c["table"], c["fate"]) for c in second["compactions"]] == [("default.later", "compacted")]
        assert look() == later
        jobs = {entry.job_id for entry in deployment.metastore.compactions.queue()}
        assert jobs == {resident.application_id}
    events = spark.events()
    tasks = [e["Task Info"]["Executor ID"] for e in events if e["Event"] == "SparkListenerTaskEnd"]
    assert len(set(tasks)) == WORKERS, tasks
    assert min(tasks.count(executor) for executor in set(tasks)) > 1
    (environment,) = [e["Spark Properties"] for e in events if e["Event"] == "SparkListenerEnvironmentUpdate"]
    assert environment["spark.executor.memory"] == "600m"
    assert "evil" not in str(environment)
