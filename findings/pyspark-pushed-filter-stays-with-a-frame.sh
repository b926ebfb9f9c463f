#!/usr/bin/env bash
# In PySpark, a filter that a Python data source takes in one query is still applied in later queries of the same DataFrame.
#
# Spark makes one reader for a loaded frame and calls pushFilters() on it while it plans the first query. A reader that keeps
# its documented promise, to leave out the rows that a filter refuses, then leaves them out of every later query too:
# count() of the whole frame, a union of the filtered and the whole frame, a self-join. An implementer sees no way to
# tell the queries apart.
#
# Expected: 4 rows counted, after any other query. Needs: Python 3.11 to 3.13 with venv, Java 17 or later.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >frames.py <<'PYTHON'
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "id int"

    def reader(self, schema):
        return NumbersReader()


class NumbersReader(DataSourceReader):
    def __init__(self):
        self.wanted = None

    def pushFilters(self, filters):
        for pushed in filters:
            if isinstance(pushed, EqualTo) and pushed.attribute == ("id",):
                self.wanted = pushed.value
            else:
                yield pushed

    def partitions(self):
        return [InputPartition(0)]

    def read(self, partition):
        return ((number,) for number in (1, 2, 3, 4) if self.wanted in (None, number))


spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.python.filterPushdown.enabled", "true")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(Numbers)
frame = spark.read.format("numbers").load()
before = frame.count()
filtered = frame.filter("id = 1").count()
after = frame.count()
print(f"pyspark {pyspark.__version__}: {before} rows, {filtered} with a filter, {after} in the same frame afterwards (expected 4)")
spark.stop()
raise SystemExit((before, filtered, after) != (4, 1, 1))
PYTHON

for version in 4.1.4 4.3.0; do
  python3 -m venv "$version"
  "$version/bin/pip" install --quiet --disable-pip-version-check "pyspark==$version" pyarrow==24.0.0 pandas==2.3.3
  PYSPARK_PYTHON="$folder/$version/bin/python" SPARK_LOCAL_IP=127.0.0.1 "$version/bin/python" frames.py 2>/dev/null
done
