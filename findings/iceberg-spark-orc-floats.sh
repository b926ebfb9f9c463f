#!/usr/bin/env bash
# Iceberg on Spark answers min(x) with -Infinity, and loses -0.0, where it reads FLOAT or DOUBLE from ORC files.
#
# Where a NaN comes first in a file, ORC writes NaN as its bounds. add_files takes them as infinite, and Spark answers min and max
# from them: values that no row has. In a file that Iceberg wrote itself, WHERE d = 0.0 does not find -0.0, which Spark says is
# equal, and DELETE leaves the row. All settings are the defaults, but for the file format.
#
# Expected: min 1.0, max NaN (Spark's largest number); d = 0.0 finds -0.0, and DELETE removes it.
# Needs: Python 3.11 to 3.13 with venv, Java 17 or later, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >tables.py <<'PYTHON'
import pyspark
from pyspark.sql import SparkSession

ICEBERG = "1.12.0"
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.jars", f"iceberg-spark-runtime-4.1_2.13-{ICEBERG}.jar")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", "warehouse")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
ORC = "USING iceberg TBLPROPERTIES ('write.format.default' = 'orc')"


def query(text):
    return [tuple(row) for row in spark.sql(text).collect()]


spark.sql("SELECT double('NaN') AS d UNION ALL SELECT double(id) FROM range(1, 4)").coalesce(1).write.orc("nan")
query(f"CREATE TABLE lake.db.added (d double) {ORC}")
query("CALL lake.system.add_files(table => 'db.added', source_table => '`orc`.`nan`')")
bounds = query("SELECT min(d), max(d) FROM lake.db.added")
rows = sorted(d for (d,) in query("SELECT d FROM lake.db.added WHERE NOT isnan(d)"))

query(f"CREATE TABLE lake.db.zero (d double) {ORC}")
query("INSERT INTO lake.db.zero SELECT double('-0.0')")
zeros = query("SELECT d FROM lake.db.zero WHERE d = 0.0")
query("DELETE FROM lake.db.zero WHERE d = 0.0")
left = query("SELECT d FROM lake.db.zero")
print(f"pyspark {pyspark.__version__}, Iceberg {ICEBERG}: min and max of {rows} and NaN: {bounds} (expected [(1.0, nan)])")
print(f"d = 0.0 in a table of -0.0: {zeros} (expected [(-0.0,)]); after DELETE: {left} (expected [])")
raise SystemExit((bounds, zeros, left) != ([(float("-inf"), float("inf"))], [], [(-0.0,)]))
PYTHON

mvn -q dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=. >/dev/null
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check pyspark==4.1.4
PYSPARK_PYTHON="$folder/python/bin/python" SPARK_LOCAL_IP=127.0.0.1 python/bin/python tables.py 2>/dev/null
