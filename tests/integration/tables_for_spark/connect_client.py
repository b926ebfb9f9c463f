"""A program of Spark Connect: reads and writes ``db.t``, and prints what it found as JSON.

It has a process of its own, since a process that has used Connect has no classic sessions any more.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from compactor.spark_tables import register, snapshot


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
    try:
        read(filter="i >")
    except PySparkException as error:
        found["error"] = str(error)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
