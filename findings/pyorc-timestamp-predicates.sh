#!/usr/bin/env bash
# pyorc's predicates on timestamps lose rows: before 1970 with a fraction of a second, and in a file of another time zone.
#
# A literal before 1970 is handed over with its fraction on the wrong side of the second. And the bounds of a file hold the time on
# the wall as if it were UTC, while a literal with a zone is handed over as the instant that it is: the value itself, as the reader
# shows it with timezone=, is not found.
#
# Expected: a predicate that is equal to the value shown finds its row. Needs: Python 3.11 to 3.13 with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyorc==0.12.0

venv/bin/python - <<'PYTHON'
from datetime import datetime
from zoneinfo import ZoneInfo

import pyorc

COLUMN = pyorc.PredicateColumn(pyorc.TypeKind.TIMESTAMP, "t")


def counts(zone, *time):
    """Writes one time in a zone, and returns how many rows the value shown finds by =, <= and >=."""
    zone = ZoneInfo(zone)
    with open("file.orc", "wb") as file, pyorc.Writer(file, "struct<t:timestamp>", timezone=zone) as writer:
        writer.write((datetime(*time, tzinfo=zone),))
    with open("file.orc", "rb") as file:
        ((value,),) = pyorc.Reader(file, timezone=zone)
        assert value == datetime(*time, tzinfo=zone)
        predicates = (COLUMN == value, COLUMN <= value, COLUMN >= value)
        found = [len(list(pyorc.Reader(file, timezone=zone, predicate=predicate))) for predicate in predicates]
    print(f"pyorc {pyorc.__version__}: {value}: expected 1 row by =, <= and >=; seen {found}")
    return found


plain = counts("UTC", 2020, 7, 1, 12, 0, 0, 500000)
fraction = counts("UTC", 1960, 7, 1, 12, 0, 0, 123456)
east = counts("Asia/Tokyo", 2020, 7, 1, 12)
raise SystemExit((plain, fraction, east) != ([1, 1, 1], [0, 0, 1], [0, 0, 1]))
PYTHON
