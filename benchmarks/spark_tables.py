"""DataFrames of ``hive_acid`` beside Spark's own ORC: reads of two columns and of all, and an append:
``python benchmarks/spark_tables.py [rows]``.

One session with two cores does both, in turns, three times. The table was compacted; the plain ORC has the same rows,
written by Spark itself. Rows that are read go nowhere (Spark's ``noop``); rows that are appended come from memory.
Transactions, the keeper and the commit are part of what is measured.
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
READ, APPEND = 2.5, 1.5
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
    made = builder.getOrCreate()
    register(made)
    return made


def consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def row_of(work: str, bar: float, ours: Cost, native: Cost) -> Row:
    return Row(
        work=work, bar=bar, measured=ours.wall / native.wall, details={"s": ours.wall, "s of Spark's ORC": native.wall}
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as store:
        folder, plain = Path(name), f"{name}/plain"
        for table in ("t", "u"):
            make_table(store, folder, table)
        progress(f"writing and compacting {count} rows")
        fill(store, "t", count)
        spark = session(folder)

        def acid(**options: str) -> DataFrame:
            return spark.read.format("hive_acid").options(table="b.t", **options).load()

        acid().write.orc(plain)
        memory = acid().repartition(2).cache()
        memory.count()
        progress(f"reading and appending {TIMES} times")
        costs = cheapest(
            {
                "two": lambda: consume(acid(columns=",".join(TWO))),
                "two of ORC": lambda: consume(spark.read.orc(plain).select(*TWO)),
                "all": lambda: consume(acid()),
                "all of ORC": lambda: consume(spark.read.orc(plain)),
                "append": lambda: memory.write.format("hive_acid").option("table", "b.u").mode("append").save(),
                "write of ORC": lambda: memory.write.mode("overwrite").orc(f"{name}/written", compression="zlib"),
            },
            TIMES,
        )
        rows = [
            row_of("read of two columns: times Spark's ORC", READ, costs["two"], costs["two of ORC"]),
            row_of("read of all columns: times Spark's ORC", READ, costs["all"], costs["all of ORC"]),
            row_of("append: times Spark's ORC", APPEND, costs["append"], costs["write of ORC"]),
        ]
        facts = machine_facts() | {"rows": str(count)}
        sys.stdout.write("\n" + as_text(rows, facts, []) + "\n")
        write_results(rows, facts, [], name="spark_tables")
        spark.stop()


if __name__ == "__main__":
    main()
