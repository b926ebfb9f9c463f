"""The demo's MERGE: it applies a day's changes to a table of orders, in SQL on Spark, before any compaction.

``python -m demo.merge CONFIG`` runs it in its own process. Spark and the keeper of its transactions end with the process, so
no open snapshot blocks the cleaner.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from compactor.base.errors import CompactorError
from compactor.compaction.queue_entry import Entity
from compactor.site.site import Site
from compactor.tables import Store
from demo.demo_folder import DemoPaths
from demo.tables import DATABASE

ORDERS, CHANGES = (Entity(database=DATABASE, table=name) for name in ("orders", "order_changes"))
INSERTS, AT_ONCE = 11, 1_000  #: more than the threshold of 10 deltas
STATEMENT = f"""\
MERGE INTO {ORDERS} AS o USING {CHANGES} AS c ON o.id = c.id
WHEN MATCHED AND c.status = 'cancelled' THEN DELETE
WHEN MATCHED THEN UPDATE SET status = c.status, cents = o.cents + c.cents
WHEN NOT MATCHED AND c.status <> 'cancelled' THEN INSERT VALUES (c.id, c.status, c.cents)
"""
_COLUMNS = {"id": "bigint", "status": "string", "cents": "bigint"}


class MergeFailed(CompactorError):
    """Spark did not run the demo's MERGE to its end."""


def load(site: Site) -> None:
    """Creates and fills both tables in an existing database."""
    store = Store(site)
    orders = store.create_table(str(ORDERS), _COLUMNS)
    for number in range(INSERTS):
        ids = range(number * AT_ONCE, (number + 1) * AT_ONCE)
        orders.append(pa.table({"id": ids, "status": ["new"] * AT_ONCE, "cents": [100 * (i % 90 + 10) for i in ids]}))
    changes = store.create_table(str(CHANGES), _COLUMNS, properties={"no_auto_compaction": "true"})
    ids = range(0, (INSERTS + 1) * AT_ONCE, 4)  # a twelfth of them are new orders
    status = ["cancelled" if i % 40 == 0 else "paid" for i in ids]
    changes.append(pa.table({"id": ids, "status": status, "cents": [i % 7 for i in ids]}))


def run(place: DemoPaths) -> str:
    """Runs the statement on Spark; returns a sentence with the numbers of changed rows.

    Raises:
        MergeFailed: the statement failed; the message names the log.
    """
    log = place.folder / "merge.log"
    command = [sys.executable, "-m", "demo.merge", str(place.config)]
    with log.open("w") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)
    if done.returncode:
        raise MergeFailed(f"the MERGE into {ORDERS} ended with {done.returncode}; {log} says why")
    return done.stdout.strip()


def main(config: Path) -> None:
    """Runs the statement in a local Spark, and prints the numbers of changed rows."""
    from pyspark.sql import SparkSession

    from compactor.spark_tables import sql

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("demo: MERGE")
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(config.parent / "spark"),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        [row] = sql(spark, STATEMENT, config=str(config)).collect()
        sys.stdout.write(f"{row.updated:,} rows updated, {row.deleted:,} deleted, {row.inserted:,} inserted\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
