"""A program of Spark Connect: reads and writes ``db.t``, and prints what it found as JSON.

It has a process of its own, since a process that has used Connect has no classic sessions any more.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from compactor.base.errors import NotFound
from compactor.spark_tables import AcidTable, register, snapshot


def main(address: str, config: str) -> None:
    spark = SparkSession.builder.remote(address).create()
    register(spark)

    def read(**options: str) -> list[int]:
        frame = spark.read.format("hive_acid").options(table="db.t", config=config, **options).load()
        return sorted(row.i for row in frame.collect())

    def write(*values: int, mode: str = "append") -> None:
        frame = spark.createDataFrame([(value, "x") for value in values], "i bigint, s string")
        frame.write.format("hive_acid").options(table="db.t", config=config).mode(mode).save()

    found: dict[str, object] = {"before": read(filter="i > 1")}
    with snapshot(spark, config=config) as name:
        found["first"] = read(snapshot=name)
        write(4, 5)
        found["same"] = read(snapshot=name)
        frame = spark.read.format("hive_acid").options(table="db.t", config=config, snapshot=name).load()
        found["joined"] = frame.alias("a").join(frame.alias("b"), "i").count()
    found["after"] = read()
    write(9, mode="overwrite")
    found["overwritten"] = read()
    table = AcidTable.for_name(spark, "db.t", config=config)
    source = spark.createDataFrame([(9, "y"), (10, "z"), (11, "z")], "i bigint, s string").alias("a")
    merge = table.merge(source, "t.i = a.i").when_matched_update(set={"s": "a.s"}).when_not_matched_insert_all()
    found["merged"] = asdict(merge.execute())
    found["deleted"] = table.delete("s = 'z' and i > 10").deleted
    found["updated"] = table.update("i = 10", {"s": "upper(s)"}).updated
    found["changed"] = sorted((row.i, row.s) for row in table.toDF().collect())
    try:
        table.update(set={"x": "1"})
    except NotFound as error:
        found["refused"] = str(error)
    try:
        read(filter="i >")
    except PySparkException as error:
        found["error"] = str(error)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
