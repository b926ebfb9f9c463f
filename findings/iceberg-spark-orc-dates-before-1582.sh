#!/usr/bin/env bash
# In Iceberg on Spark, a predicate on days or timestamps before 1582-10-15 loses rows of an ORC file.
#
# The table's own file has them, and a query without a predicate shows them. Iceberg hands the predicate to ORC, which compares
# the bounds of a row group in one calendar with a literal in the other: the latest day of a row group lies beyond its upper
# bound. DELETE leaves such rows. All settings are the defaults, but for the file format.
#
# Expected: each predicate finds the row that has this value, and DELETE removes it.
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


query(f"CREATE TABLE lake.db.days (id int, d date, t timestamp_ntz) {ORC}")
spark.sql(
    "SELECT 1 AS id, DATE '1500-03-01' AS d, TIMESTAMP_NTZ '1500-03-01 12:00:00' AS t "
    "UNION ALL SELECT 2, DATE '1400-01-01', TIMESTAMP_NTZ '1400-01-01 12:00:00'"
).coalesce(1).writeTo("lake.db.days").append()
shown = query("SELECT CAST(d AS string), CAST(t AS string) FROM lake.db.days WHERE id = 1")
by_day = query("SELECT id FROM lake.db.days WHERE d = DATE '1500-03-01'")
by_time = query("SELECT id FROM lake.db.days WHERE t = TIMESTAMP_NTZ '1500-03-01 12:00:00'")
query("DELETE FROM lake.db.days WHERE d = DATE '1500-03-01'")
left = query("SELECT id FROM lake.db.days ORDER BY id")
print(f"pyspark {pyspark.__version__}, Iceberg {ICEBERG}: the row is {shown}")
print(f"by its day: {by_day}, by its time: {by_time} (expected [(1,)] for both); after DELETE: {left} (expected [(2,)])")
raise SystemExit((by_day, by_time, left) != ([], [], [(1,), (2,)]))
PYTHON

mvn -q dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=. >/dev/null
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check pyspark==4.1.4
PYSPARK_PYTHON="$folder/python/bin/python" SPARK_LOCAL_IP=127.0.0.1 python/bin/python tables.py 2>/dev/null
