#!/usr/bin/env bash
# pyarrow writes wrong values to ORC where a table with a struct column is written slice by slice.
#
# It looks up which structs of a slice are NULL at the beginning of the whole column. Where the column has a NULL anywhere, that
# of another row counts: NULLs become values, values become NULL, and the later ones move. Tables, batches of a fixed
# size and rows of a filter by position are all slices.
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

values = [{"x": 0}, {"x": 1}, None, {"x": 3}]
table = pa.table({"s": pa.array(values, pa.struct([("x", pa.int32())]))})
with orc.ORCWriter("file.orc") as writer:
    for batch in table.to_batches(max_chunksize=2):
        writer.write(pa.table(batch))
with open("file.orc", "rb") as file:
    seen = [None if struct is None else struct[0] for (struct,) in pyorc.Reader(file)]
expected = [None if value is None else value["x"] for value in values]
print("pyarrow", pa.__version__, "wrote", expected, "and pyorc", pyorc.__version__, "reads", seen)
raise SystemExit(seen != [0, 1, 0, 1])
PYTHON
