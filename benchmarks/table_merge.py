"""Merges changes of one row in a hundred of eight million, scattered over the table, beside a Hive 4.1 that is warm:
``python benchmarks/table_merge.py [rows] [pairs]``; see ``parts/beside_hive.py``.

The same MERGE in SQL, on Spark with two cores and in Hive. Both sessions are in use: before each of ours Spark changes a
small table, since it ends its Python workers while Hive is at work; once it is measured after such a pause, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts import contents
from benchmarks.parts.beside_hive import Contest, Rivals, race
from compactor.spark_tables import sql
from compactor.tables.store import Store
from tests.support.beside import TRANSACTIONAL
from tests.support.spark_sessions import local_session

BAR = 5.0
KEYS = 1_000_000  #: values of ``k``, each as frequent as every other
CHANGED, ADDED = KEYS // 100, KEYS // 1000
STATEMENT = """MERGE INTO facts AS t USING changes AS s ON t.p = '{p}' AND t.k = s.k
WHEN MATCHED THEN UPDATE SET name = s.name, f = s.f
WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k, s.name, s.f, s.note, '{p}')"""


def changes() -> pa.Table:
    """Returns rows of which one in eleven has a key that no row of the table has."""
    keys = np.concatenate([np.arange(0, KEYS, KEYS // CHANGED), np.arange(KEYS, KEYS + ADDED)]).astype(np.int32)
    names = [f"changed-{key}" for key in keys]
    return pa.table({"id": -1 - np.arange(len(keys)), "k": keys, "name": names, "f": keys / 7, "note": names})


def begin(rivals: Rivals) -> Contest:
    """Makes the table ``changes``, and starts Spark."""
    store = Store(rivals.lab.site)
    columns = ", ".join(f"{column.name} {column.type}" for column in contents.ROWS)
    rivals.hive.sql(f"create table changes ({columns}) {TRANSACTIONAL}")
    store.load_table("default.changes").append(changes())
    rivals.hive.sql(f"create table small (i int) {TRANSACTIONAL}")
    store.load_table("default.small").append(pa.table({"i": pa.array([1, 2], pa.int32())}))
    config = rivals.folder / "compactor.toml"
    config.write_text(f'[metastore.default]\nurl = "{rivals.url}"\nmode = "clean"\n')
    spark = rivals.stack.enter_context(local_session(rivals.folder, conf={"spark.driver.memory": "2g"}))

    def left(p: str) -> tuple[int, int]:
        """Returns the number of rows, and of those that were updated or added."""
        table = store.load_table("default.facts")
        return table.scan(f"p = '{p}'").count(), table.scan(f"p = '{p}' and name like 'changed-%'").count()

    return Contest(
        ours=lambda p: sql(spark, STATEMENT.format(p=p), config=str(config)).collect(),
        theirs=lambda p: rivals.hive.sql(STATEMENT.format(p=p)),
        left=left,
        awake=lambda: sql(spark, "update small set i = i + 1 where i > 0", config=str(config)).collect(),
    )


def main() -> None:
    count, (left, changed) = race("table_merge", "merge", BAR, begin)
    assert left >= count + ADDED, left  # a key of the table may have come to no row
    assert changed >= ADDED, changed


if __name__ == "__main__":
    main()
