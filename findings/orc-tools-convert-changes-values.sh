#!/usr/bin/env bash
# `orc-tools convert` changes values of JSON and CSV without a word. Days before 1582-10-15 move, because their proleptic Gregorian
# numbers go into a file of the hybrid calendar. A number beyond `int` goes into a column of `int`, where readers disagree on it.
#
# Expected: each value is stored as it is, or refused. Needs: Java 11 or later, Maven, Python 3.11 to 3.14.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

python3 -m venv venv
venv/bin/pip -q install pyarrow==26.0.1 2>/dev/null
mvn -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact=org.apache.orc:orc-tools:2.1.2:jar:uber \
  -DoutputDirectory=. >/dev/null
tools() { java -jar orc-tools-2.1.2-uber.jar "$@" 2>/dev/null; }

echo '{"day":"1000-02-28","number":3000000000}' >rows.json
echo '1000-02-28,3000000000' >rows.csv
seen=()
for rows in rows.json rows.csv; do
  tools convert --overwrite --schema 'struct<day:date,number:int>' --output rows.orc "$rows" >/dev/null
  seen+=("$(tools data rows.orc | grep '^{')")
  seen+=("$(venv/bin/python -c 'import pyarrow.orc; print(pyarrow.orc.read_table("rows.orc")["number"][0])')")
done
echo 'expected:        an error, or {"day":"1000-02-28","number":3000000000} in orc-tools and 3000000000 in pyarrow'
echo "orc-tools 2.1.2: ${seen[0]} in orc-tools and ${seen[1]} in pyarrow (JSON)"
echo "                 ${seen[2]} in orc-tools and ${seen[3]} in pyarrow (CSV)"
row='{"day":"1000-02-23","number":3000000000} -1294967296'
[[ ${seen[*]} == "$row $row" ]]
