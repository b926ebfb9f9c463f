#!/usr/bin/env bash
# After PyIceberg has expired a snapshot, its child names no parent: in the metadata it looks like the table's first snapshot. Iceberg
# Java leaves the id of the parent. Whoever asks whether a snapshot descends from another one, as a reader of increments does, gets
# "no history" instead of "expired history", and takes the table for a new one.
#
# Expected: the remaining snapshot names its parent. Needs: Python 3.11 to 3.13.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip -q install 'pyiceberg[sql-sqlite]==0.12.0' pyarrow==26.0.1 2>/dev/null
venv/bin/python - <<'PYTHON'
import os
import warnings

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

warnings.simplefilter("ignore")
catalog = SqlCatalog("lake", uri="sqlite:///catalog.db", warehouse=f"file://{os.getcwd()}")
catalog.create_namespace("d")
rows = pa.table({"id": pa.array([1, 2])})
table = catalog.create_table("d.t", schema=rows.schema)
table.append(rows)
first = table.current_snapshot().snapshot_id
table.append(rows)
before = table.current_snapshot().parent_snapshot_id
table.maintenance.expire_snapshots().by_id(first).commit()
after = catalog.load_table("d.t").current_snapshot().parent_snapshot_id
print("expected:         the parent is the first snapshot before and after")
print(f"PyIceberg 0.12.0: it is {'the first snapshot' if before == first else before} before, {after} after")
raise SystemExit(not (before == first and after is None))
PYTHON
