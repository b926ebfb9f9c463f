"""DataFrames of ``hive_acid`` beside Spark's own ORC: reads of two columns and of all, an append, and one percent of the
rows deleted or merged: ``python benchmarks/spark_tables.py [rows]``.

One session with two cores does both, in turns, three times. The table was compacted; the plain ORC has the same rows,
written by Spark itself. Rows that are read go nowhere (Spark's ``noop``); rows that are appended come from memory.
Transactions, the keeper and the commit are part of what is measured. Without deltas a table of ORC is changed by writing it
again, without the rows that go or with a join, which is what a delete and a merge are set beside.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.programs import Cost, cheapest, environment_of, fill, make_table, opened
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES = 3
READ, APPEND, DELETE, MERGE = 2.5, 1.5, 1.0, 2.0
HUNDREDTH = 100
TWO = ("id", "amount")


def session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    from compactor.spark_tables import register

    os.environ |= {
        **environment_of(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.warehouse.dir": str(folder / "spark"),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


class Changes:
    """One percent of the rows of a table, another one each time, deleted or merged."""

    def __init__(self, spark: SparkSession, name: str, plain: str, count: int) -> None:
        from compactor.spark_tables import AcidTable

        self._spark, self._plain, self._count, self._turn = spark, plain, count, 0
        self._table = AcidTable.for_name(spark, name)

    def delete(self) -> None:
        self._turn += 1
        changed = self._table.delete(f"id % {HUNDREDTH} = {self._turn}")
        assert changed.deleted == self._count // HUNDREDTH, changed

    def merge(self) -> None:
        """Updates half a percent of the rows, each ID of which two have, and adds half as many."""
        self._turn += 1
        every = HUNDREDTH * 2
        merge = self._table.alias("t").merge(self._arrived(every).alias("s"), "t.id = s.id")
        changed = merge.when_matched_update(set={"amount": "s.amount"}).when_not_matched_insert_all().execute()
        assert changed.updated == changed.inserted * 2 == self._count // every, changed

    def rewrite_without(self, to: str) -> None:
        kept = self._spark.read.orc(self._plain).filter(f"id % {HUNDREDTH} <> 1")
        kept.write.mode("overwrite").orc(to, compression="zlib")

    def rewrite_merged(self, to: str) -> None:
        from pyspark.sql.functions import coalesce, col

        old = self._spark.read.orc(self._plain)
        new = self._arrived(HUNDREDTH * 2).select(*(col(name).alias(f"new_{name}") for name in old.columns))
        joined = old.join(new, col("id") == col("new_id"), "full_outer")
        amount = coalesce(col("new_amount"), col("amount")).alias("amount")
        rows = [
            amount if name == "amount" else coalesce(col(name), col(f"new_{name}")).alias(name) for name in old.columns
        ]
        joined.select(*rows).write.mode("overwrite").orc(to, compression="zlib")

    def _arrived(self, every: int) -> DataFrame:
        """Returns rows of which half are new: those of other turns are out of the way."""
        rows = (
            self._spark.read.orc(self._plain).filter(f"id % {every} = {HUNDREDTH + self._turn}").dropDuplicates(["id"])
        )
        shifted = rows.withColumn("id", (rows.id + self._turn * 10 * self._count).cast("bigint"))
        return rows.union(shifted)


def row_of(work: str, bar: float, ours: Cost, native: Cost) -> Row:
    return Row(
        work=work, bar=bar, measured=ours.wall / native.wall, details={"s": ours.wall, "s of Spark's ORC": native.wall}
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as store:
        folder, plain = Path(name), f"{name}/plain"
        for table in ("t", "u", "c"):
            make_table(store, folder, table)
        progress(f"writing and compacting {count} rows, twice")
        for table in ("t", "c"):
            fill(store, table, count)
        spark = session(folder)

        def acid(**options: str) -> DataFrame:
            return spark.read.format("hive_acid").options(table="b.t", **options).load()

        acid().write.orc(plain)
        memory = acid().repartition(2).cache()
        memory.count()
        changes = Changes(spark, "b.c", plain, count)
        progress(f"reading, appending and changing {TIMES} times")
        costs = cheapest(
            {
                "two": lambda: consume(acid(columns=",".join(TWO))),
                "two of ORC": lambda: consume(spark.read.orc(plain).select(*TWO)),
                "all": lambda: consume(acid()),
                "all of ORC": lambda: consume(spark.read.orc(plain)),
                "append": lambda: memory.write.format("hive_acid").option("table", "b.u").mode("append").save(),
                "write of ORC": lambda: memory.write.mode("overwrite").orc(f"{name}/written", compression="zlib"),
                "delete": changes.delete,
                "rewrite": lambda: changes.rewrite_without(f"{name}/written"),
                "merge": changes.merge,
                "rewrite of a join": lambda: changes.rewrite_merged(f"{name}/written"),
            },
            TIMES,
        )
        rows = [
            row_of("read of two columns: times Spark's ORC", READ, costs["two"], costs["two of ORC"]),
            row_of("read of all columns: times Spark's ORC", READ, costs["all"], costs["all of ORC"]),
            row_of("append: times Spark's ORC", APPEND, costs["append"], costs["write of ORC"]),
            row_of("delete of 1 %: times ORC written again", DELETE, costs["delete"], costs["rewrite"]),
            row_of("merge of 1 %: times ORC written again", MERGE, costs["merge"], costs["rewrite of a join"]),
        ]
        facts = machine_facts() | {"rows": str(count)}
        sys.stdout.write("\n" + as_text(rows, facts, []) + "\n")
        write_results(rows, facts, [], name="spark_tables")
        spark.stop()


if __name__ == "__main__":
    main()
