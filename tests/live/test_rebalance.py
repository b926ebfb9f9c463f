"""Our rebalance under a live Hive: it reads, deletes, updates and merges over it, and compacts and cleans it."""

from __future__ import annotations

from compactor.acid.names import Base, parse_directory
from compactor.compaction.states import State
from tests.support.beside import TRANSACTIONAL, Beside


def test_hive_writes_and_compacts_over_our_rebalance(beside: Beside) -> None:
    """PROTOCOL 1.6: ROW__IDs change once, for both sides alike; whatever is deleted by them later is the right row."""
    sql, name = beside.hive.sql, "rebal"
    sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
    rows: dict[int, str] = {}
    for first in range(0, 40, 10):
        values = ", ".join(f"({key}, 'row {key}')" for key in range(first, first + 10))
        sql(f"insert into {name} values {values}")
        rows |= {key: f"row {key}" for key in range(first, first + 10)}

    def check() -> None:
        beside.rows(name, [f"{a}\t{b}" for a, b in rows.items()])

    def change(*keys: int) -> None:
        sql(f"update {name} set b = concat(b, ' changed') where a in ({', '.join(map(str, keys))})")
        rows.update({key: rows[key] + " changed" for key in keys})

    def remove(*keys: int) -> None:
        sql(f"delete from {name} where a in ({', '.join(map(str, keys))})")
        for key in keys:
            del rows[key]

    change(3, 14)
    remove(25)
    asked = ("--set", "compactor.mode=clean", "compact", f"default.{name}", "--type", "rebalance", "--buckets", "3")
    beside.ours(*asked)
    [done] = beside.work()
    assert done["fate"] == "compacted", done
    check()
    remove(0, 14, 26, 39)
    change(1, 20, 38)
    check()
    assert sql(f"select a, b from {name} where a = 20", "by row") == [f"20\t{rows[20]}"]
    beside.hive_clean()
    check()
    beside.hive_compact(name, "minor")
    check()
    remove(2, 37)
    beside.hive_compact(name, "major")
    check()
    beside.hive_clean()
    beside.hive_clean()
    check()
    assert beside.queue() == []

    ordered = (*asked[:-2], "--order-by", "a desc", "--buckets", "2")
    beside.ours(*ordered)
    [done] = beside.work()
    assert done["fate"] == "compacted", done
    check()
    in_order = [int(line.split("\t")[0]) for line in sql(f"select a from {name} order by row__id.rowid")]
    assert in_order == sorted(rows, reverse=True)
    change(5, 30)
    remove(6, 31)
    check()
    while beside.queue(State.READY_FOR_CLEANING):
        beside.clean()
    bases = [acid for acid in map(parse_directory, beside.names(name)) if isinstance(acid, Base)]
    assert len(bases) == 1
    assert len(list(beside.directory(name).glob("base_*/bucket_*"))) == 2
    check()
