"""Deletes one row in a hundred of eight million, scattered over the table, beside a Hive 4.1 that is warm:
``python benchmarks/table_delete.py [rows] [pairs]``; see ``parts/beside_hive.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.beside_hive import Contest, Rivals, race
from compactor.tables.store import Store

BAR = 5.0
WHERE = "k < 10000"  #: of a million values, each as frequent as every other


def begin(rivals: Rivals) -> Contest:
    store = Store(rivals.lab.site)
    return Contest(
        ours=lambda p: store.load_table("default.facts").delete(f"p = '{p}' AND {WHERE}"),
        theirs=lambda p: rivals.hive.sql(f"delete from facts where p = '{p}' and {WHERE}"),
        left=lambda p: (store.load_table("default.facts").scan(f"p = '{p}'").count(),),
    )


def main() -> None:
    count, (left,) = race("table_delete", "delete", BAR, begin)
    assert left < count, (left, count)


if __name__ == "__main__":
    main()
