#!/usr/bin/env bash
# PyIceberg writes and shows an empty list, or an empty map, where the value is NULL and the elements are structs.
#
# It rebuilds such columns from their offsets alone, which do not say which lists are NULL. It does so when it appends, so the
# data file no longer has the NULL, and when it reads the files of other writers. Lists of other elements keep their NULLs.
#
# Expected: NULL, as given. Needs: Python 3.11 to 3.13 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'pyiceberg[sql-sqlite]==0.12.0' pyarrow==26.0.1

cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import glob
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog

folder = os.getcwd()
catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
catalog.create_namespace("db")
structs = pa.struct({"x": pa.int32()})
given = pa.table(
    {
        "list": pa.array([None, [{"x": 1}]], pa.list_(structs)),
        "map": pa.array([None, [("k", {"x": 1})]], pa.map_(pa.string(), structs)),
        "plain": pa.array([None, [1]], pa.list_(pa.int32())),
    }
)
table = catalog.create_table("db.t", given.schema)
table.append(given)
(file,) = glob.glob("lake/**/*.parquet", recursive=True)
stored, shown = pq.read_table(file).to_pydict(), table.scan().to_arrow().to_pydict()
print(f"pyiceberg {pyiceberg.__version__}, pyarrow {pa.__version__}: given {given.to_pydict()}")
print(f"in the data file: {stored}; read: {shown}")
changed = [name for name in given.column_names if stored[name] != given[name].to_pylist()]
raise SystemExit(changed != ["list", "map"] or stored != shown)
PYTHON
