#!/usr/bin/env bash
# ClickHouse (chdb) loses rows of ORC files by NOT (n <=> 1), where the row group has NULL.
#
# The filter is pushed down to the statistics of row groups. In a group with NULLs alone, or with NULLs and ones, the comparison
# comes out as "NULL" or "true or NULL", as that of = would, and its negation leaves the group out. But <=> is never NULL. Without
# the setting, which is on by default, every row is found, and so it is with n IS DISTINCT FROM 1.
#
# Expected: the same rows, with the filter pushed down or not. Needs: Python 3.11 to 3.13 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check chdb==4.4.0 chdb-core==26.9.0 pyorc==0.12.0

venv/bin/python - <<'PYTHON'
import chdb
import pyorc

with open("file.orc", "wb") as file, pyorc.Writer(file, "struct<id:int,n:int>") as writer:
    writer.writerows([(1, None), (2, 1), (3, None)])


def ids(condition, is_pushed):
    settings = f"input_format_orc_filter_push_down = {is_pushed:d}"
    query = f"SELECT id FROM file('file.orc', ORC) WHERE {condition} ORDER BY id SETTINGS {settings}"
    return str(chdb.query(query, "CSV")).split()


print("chdb", chdb.__version__, "on ClickHouse", str(chdb.query("SELECT version()", "TSV")).strip())
seen = []
for condition in ("NOT (n <=> 1)", "NOT (n IS NOT DISTINCT FROM 1)", "n IS DISTINCT FROM 1"):
    seen.append((ids(condition, True), ids(condition, False)))
    print(f"{condition}: expected ids 1 and 3; {seen[-1][0]} if it is pushed down, {seen[-1][1]} if not")
every = ["1", "3"]
raise SystemExit(seen != [([], every), ([], every), (every, every)])
PYTHON
