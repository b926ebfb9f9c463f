#!/usr/bin/env bash
# sqlglot turns Hive's LATERAL VIEW OUTER into a CROSS JOIN, which loses the rows with an empty array, and drops LIKE's escapes.
#
# OUTER keeps a row whose array is empty or NULL; the query for DuckDB or Trino has no trace of the word. A backslash in LIKE escapes
# in Hive; in the other two it needs ESCAPE, which is not added, so that nothing is found. Even with unsupported_level=RAISE there
# is no word of it.
#
# Expected: the rows that Hive returns, or an error. Needs: Python 3.11 to 3.13 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check sqlglot==30.30.0 duckdb==2.0.0

"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
import sqlglot

connection = duckdb.connect()
connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, [10, 20], 'a_c'), (2, [], 'abc'), (3, NULL, NULL)) v(id, a, s)")
of_hive = {
    "SELECT id, x FROM t LATERAL VIEW OUTER explode(a) e AS x": [(1, 10), (1, 20), (2, None), (3, None)],
    r"SELECT id FROM t WHERE s LIKE 'a\\_c'": [(1,)],
}
as_seen = True
print("sqlglot", sqlglot.__version__)
for (query, expected), rows in zip(of_hive.items(), ([(1, 10), (1, 20)], []), strict=True):
    for dialect in ("trino", "duckdb"):
        [text] = sqlglot.transpile(query, read="hive", write=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE)
        print(f"for {dialect}: {text}")
        as_seen &= "LEFT" not in text and "ESCAPE" not in text
    seen = connection.execute(text).fetchall()
    print(f"  expected {expected}, seen {seen}")
    as_seen &= sorted(seen) == rows
raise SystemExit(not as_seen)
PYTHON
