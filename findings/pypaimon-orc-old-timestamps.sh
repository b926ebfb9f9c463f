#!/usr/bin/env bash
# pypaimon returns other timestamps than it wrote into an ORC file, before 1677-09-21 and after 2262-04-11.
#
# It reads ORC with pyarrow 19, which its requirements demand. There, the reader of a dataset turns timestamps of ORC into 64-bit
# nanoseconds, which wrap around without an error. A table with `file.format` parquet returns the same rows unchanged.
#
# Expected: ORC returns what Parquet returns. Needs: Python 3.9 to 3.13.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip -q install pypaimon==2.1.0 pyarrow==19.0.1 2>/dev/null
cat >times.py <<'PYTHON'
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

schema = pa.schema([("t", pa.timestamp("us"))])
times = [datetime(1500, 1, 1), datetime(2020, 7, 1, 12), datetime(3000, 1, 1)]
catalog = CatalogFactory.create({"warehouse": str(Path("warehouse").absolute())})
catalog.create_database("d", True)
catalog.create_table("d.t", Schema.from_pyarrow_schema(schema, options={"file.format": sys.argv[1]}), False)
table = catalog.get_table("d.t")
builder = table.new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
writer.write_arrow(pa.table({"t": times}, schema=schema))
commit.commit(writer.prepare_commit())
reads = table.new_read_builder()
rows = reads.new_read().to_arrow(reads.new_scan().plan().splits())
print(", ".join(sorted(str(time) for time in rows["t"].to_pylist())))
PYTHON
parquet=$(venv/bin/python times.py parquet 2>/dev/null)
rm -r warehouse
orc=$(venv/bin/python times.py orc 2>/dev/null)
echo "expected:                      $parquet"
echo "pypaimon 2.1.0, pyarrow 19.0.1: $orc"
[[ $parquet == "1500-01-01 00:00:00, 2020-07-01 12:00:00, 3000-01-01 00:00:00" ]]
[[ $orc != *1500* && $orc != *3000* && $orc == *"2020-07-01 12:00:00"* ]]
