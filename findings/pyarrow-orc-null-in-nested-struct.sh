#!/usr/bin/env bash
# pyarrow's ORC writer shifts values where a struct within a struct is NULL.
#
# It passes the NULLs of a struct on to its children, and then encodes the values that lie below them all the same: each later
# value of the child moves down by one row. The file is valid ORC and holds other rows than the table.
#
# Expected: the rows that were written. Needs: Python 3.11 to 3.13 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 pyorc==0.12.0
cd "$folder"

venv/bin/python - <<'PYTHON'
import pyarrow as pa
import pyorc
from pyarrow import orc

inner = pa.struct([("x", pa.int32())])
values = [None, {"x": 1}, {"x": 2}]
outer = pa.StructArray.from_arrays([pa.array(values, inner)], names=["s"])
orc.write_table(pa.table({"c": outer}), "file.orc")
with open("file.orc", "rb") as file:
    seen = [None if struct is None else struct[0] for ((struct,),) in pyorc.Reader(file)]
expected = [None if value is None else value["x"] for value in values]
print("pyarrow", pa.__version__, "wrote", expected, "and pyorc", pyorc.__version__, "reads", seen)
raise SystemExit(seen == expected)
PYTHON
