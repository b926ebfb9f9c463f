#!/usr/bin/env bash
# In Spark, a filter s.x IS NULL on an ORC file loses the rows in which the struct s itself is NULL.
#
# Spark pushes the filter down for the field. ORC's writer passes nothing on to the fields of a NULL struct, so that their statistics
# say that there is no NULL, and the reader leaves out the whole row group. Both are the defaults of Spark, and the file is its own;
# files of Hive have the same statistics.
#
# Expected: 5 rows, with the filter pushed down or not. Needs: Python 3.11 to 3.13 with venv, Java 17 or later.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >filters.py <<'PYTHON'
import pyspark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(10).selectExpr("id", "if(id % 2 = 0, named_struct('x', id), null) AS s").coalesce(1)
rows.write.orc(pyspark.__version__ + ".orc")


def count(is_pushed):
    spark.conf.set("spark.sql.orc.filterPushdown", is_pushed)
    return spark.read.orc(pyspark.__version__ + ".orc").filter("s.x IS NULL").count()


pushed, plain = count(True), count(False)
print(f"pyspark {pyspark.__version__}: {pushed} rows with s.x IS NULL, {plain} if the filter is not pushed down (expected 5)")
spark.stop()
raise SystemExit((pushed, plain) != (0, 5))
PYTHON

for version in 4.1.4 4.3.0; do
  python3 -m venv "$version"
  "$version/bin/pip" install --quiet --disable-pip-version-check "pyspark==$version"
  PYSPARK_PYTHON="$folder/$version/bin/python" SPARK_LOCAL_IP=127.0.0.1 "$version/bin/python" filters.py 2>/dev/null
done
