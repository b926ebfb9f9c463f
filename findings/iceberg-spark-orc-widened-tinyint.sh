#!/usr/bin/env bash
# An Iceberg table cannot be read after int became bigint, if add_files took an ORC file with a tinyint.
#
# add_files accepts the file for a column of type int, and Spark reads it. Widening to bigint is always allowed and rewrites
# nothing. Afterwards each query of the column fails, and so does rewrite_data_files, which should mend such a table.
#
# Expected: 7 before and after.
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


spark.sql("SELECT tinyint(7) AS n").coalesce(1).write.orc("files")
query(f"CREATE TABLE lake.db.widened (n int) {ORC}")
query("CALL lake.system.add_files(table => 'db.widened', source_table => '`orc`.`files`')")
before = query("SELECT n FROM lake.db.widened")
query("ALTER TABLE lake.db.widened ALTER COLUMN n TYPE bigint")
REFUSAL = "Can not promote BYTE type to LONG"


def refuses(text):
    try:
        print(query(text))
    except Exception as error:  # Spark has a class for each version
        return REFUSAL in str(error)
    return False


read = refuses("SELECT n FROM lake.db.widened")
mend = refuses("CALL lake.system.rewrite_data_files(table => 'db.widened', options => map('rewrite-all', 'true'))")
print(f"pyspark {pyspark.__version__}, Iceberg {ICEBERG}: {before}, then as bigint: {REFUSAL if read else 'read'}; rewritten: {not mend}")
raise SystemExit((before, read, mend) != ([(7,)], True, True))
PYTHON

mvn -q dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=. >/dev/null
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check pyspark==4.1.4
PYSPARK_PYTHON="$folder/python/bin/python" SPARK_LOCAL_IP=127.0.0.1 python/bin/python tables.py 2>/dev/null
