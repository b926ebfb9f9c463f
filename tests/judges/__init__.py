"""Judges: readers of ORC that share no code with Compactor, and writers whose files Compactor has to keep right.

A rule about bytes is proved only by a reader that shares no code with their writer. Each judge offers::

    judge.rows(path) -> list[Row]                        # all rows of a file, in their order
    judge.rows_matching(path, predicate) -> list[Row]    # the rows that a reader with this predicate pushed down returns
    judge.answers(path, [None, predicate, ...])          # several of these from one opened file; None means all rows

| judge            | stands for                                              | writes |
|------------------|---------------------------------------------------------|--------|
| ``orc_1_5()``    | ORC Java 1.5.13: Hive 3.1, Spark 2.4 to 3.1             | yes    |
| ``orc_2_3()``    | ORC Java 2.3.1: Hive 4, Spark 4                         | yes    |
| ``trino_476()``  | Trino 476, with bloom filters on                        | no     |
| ``PYORC``        | ORC C++; never the only judge of what pyorc wrote       | yes    |
| ``PYARROW``      | ORC C++; never the only judge of what pyarrow wrote     | no     |

``judges()`` returns them all. ``rows_matching`` pushes the predicate down, so that the reader passes over stripes and row
groups, and then drops the remaining rows that do not match. If a row is missing, the reader or the file is at fault:
``[row for row in judge.rows(path) if predicate.matches(row, judge.schema(path))]`` is the right answer. pyarrow pushes
nothing into ORC, so its ``rows_matching`` judges nothing but values.

**Values** are plain Python: None, bool, int, float, str, ``bytes`` (binary), ``Decimal`` (normalised), and

* date: ``"1999-12-31"``, in the proleptic Gregorian calendar whatever the file's calendar is
* timestamp: ``"1999-12-31 23:59:59.123456789"``, the wall clock that the reader shows, to the nanosecond
* timestamp with local time zone: the same in UTC with a ``Z`` at its end
* array: a tuple; map: a tuple of pairs in the file's order; struct: a tuple; union: a tuple of tag and value

Compare rows by ``repr`` (``shown(rows)``): it tells ``-0.0`` from ``0.0`` and lets NaN equal itself. Strings that are not
UTF-8 hold surrogates (``surrogateescape``); char values have lost the spaces at their end.

**Zones.** The Java judges run as Hive 3.1 and 4 do in a JVM whose zone is UTC. ``orc_1_5().in_zone("Europe/Paris")`` is
the same release as Spark and Hive 2 use it in that zone: it reads and writes timestamps of the zone and names the zone in
the stripes that it writes. ``in_zone("Europe/Paris", utc=True)`` is Hive 3.1 or 4 in a JVM of that zone.

**Writing.** ``orc_1_5().write(path, schema, rows)`` takes values of the same form; its keywords name the codec, stripes,
row groups, bloom filters, the calendar, metadata and any of ORC's settings. ``PYORC.write`` and ``PYARROW.write`` take the
options of their libraries, and ``to_arrow(schema, rows)`` gives the rows that a test hands to Compactor.

A full ACID file is a file like any other: a row is ``(operation, original transaction, bucket property, row id, current
transaction, (values...))``, and a predicate names the columns of the inner row, as Hive's does.

The JVMs start when they are first asked (0.5 s) and end with the tests. ``jars`` of both are downloaded once by Maven.
"""

from __future__ import annotations

from tests.judges.orc_cpp import PYARROW, PYORC, PyarrowJudge, PyorcJudge, to_arrow
from tests.judges.orc_java import JavaJudge, orc_1_5, orc_2_3
from tests.judges.orc_trino import TrinoJudge, trino_476
from tests.judges.predicates import Predicate
from tests.judges.values import Row, Unreadable, shown

__all__ = [
    "PYARROW",
    "PYORC",
    "JavaJudge",
    "Judge",
    "Predicate",
    "PyarrowJudge",
    "PyorcJudge",
    "Row",
    "TrinoJudge",
    "Unreadable",
    "judges",
    "orc_1_5",
    "orc_2_3",
    "shown",
    "to_arrow",
    "trino_476",
]

Judge = JavaJudge | TrinoJudge | PyorcJudge | PyarrowJudge


def judges() -> list[Judge]:
    """Returns every judge that needs no server."""
    return [orc_1_5(), orc_2_3(), trino_476(), PYORC, PYARROW]
