#!/usr/bin/env bash
# Iceberg exchanges the values of two columns of files that add_files took, after their names were exchanged.
#
# Iceberg knows a column by an id, so that a rename never changes what a column has. Files of Hive or Spark have no ids: they are
# read by the table's name mapping, and a rename takes a name away from the column that had it before.
#
# Expected: after RENAME a to x, b to a and x to b, column a has what b had.
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


spark.sql("SELECT 1 AS a, 1000 AS b").coalesce(1).write.orc("files")
query(f"CREATE TABLE lake.db.names (a int, b int) {ORC}")
query("CALL lake.system.add_files(table => 'db.names', source_table => '`orc`.`files`')")
before = query("SELECT a, b FROM lake.db.names")
for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
    query(f"ALTER TABLE lake.db.names RENAME COLUMN {old} TO {new}")
after = query("SELECT a, b FROM lake.db.names")
print(f"pyspark {pyspark.__version__}, Iceberg {ICEBERG}: a and b are {before}, with exchanged names {after} (expected [(1000, 1)])")
raise SystemExit(after != [(1, 1000)])
PYTHON

mvn -q dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=. >/dev/null
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check pyspark==4.1.4
PYSPARK_PYTHON="$folder/python/bin/python" SPARK_LOCAL_IP=127.0.0.1 python/bin/python tables.py 2>/dev/null
