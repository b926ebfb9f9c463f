#!/usr/bin/env bash
# pyarrow casts a decimal to one with more fractional digits and returns another number, without an error.
#
# A decimal(38,0) of 38 digits has no room for ten more. The cast is a checked one (safe=True), and refuses a number that is a
# little too large; of one that leaves 128 bits it keeps the lowest 128. A Hive column decimal(38,10) then holds a wrong value.
#
# Expected: an error, or the same number. Needs: Python 3.11 to 3.13 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1

"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

import pyarrow as pa

number = Decimal("12345678901234567890123456789012345678")
wanted = pa.decimal128(38, 10)
try:
    seen = pa.array([number], pa.decimal128(38, 0)).cast(wanted)[0].as_py()
except pa.ArrowInvalid as error:
    seen = error
print(f"pyarrow {pa.__version__}: {number} as {wanted}: expected an error, seen {seen!r}")
raise SystemExit(not isinstance(seen, Decimal) or seen == number)
PYTHON
