"""A batch of transactions that Hive's updater streams into one delta, compacted while it is open and when it has ended."""

from __future__ import annotations

import pytest

from tests.support.beside import TRANSACTIONAL, Beside


class _Batch:
    """Transactions that write ``bucket_00000`` of a partition one after the other."""

    def __init__(self, beside: Beside, table: str, transactions: int) -> None:
        self._hive = beside.hive
        where = {"database": "default", "table": table, "partition": "p=x", "type": "SHARED_READ"}
        self.write_ids = [int(one) for one in self._do("stream", transactions=transactions, **where)]

    def write(self, *keys: int) -> None:
        self._do("write", text="\n".join(f"{key},row {key}" for key in keys))

    def commit(self) -> None:
        self._do("end", commit=True)

    def abort(self) -> None:
        self._do("end", commit=False)

    def close(self, *, lost: bool) -> None:
        self._do("close", lost=lost)

    def _do(self, what: str, **arguments: object) -> list[str]:
        return self._hive.do(what, session="stream", **arguments)


@pytest.mark.parametrize(("kind", "lost"), [("minor", True), ("major", False)])
def test_a_batch_is_left_alone_until_it_has_ended(beside: Beside, kind: str, lost: bool) -> None:
    """PROTOCOL 1.2: while one of its transactions is open, neither the batch's delta nor what is newer is read, and no
    output reaches into its range. When it has ended, by a close or without one, its committed rows are compacted."""
    name = f"streamed_{kind}"
    insert = f"insert into {name} partition (p='x') values "
    beside.hive.sql(f"create table {name} (a int, b string) partitioned by (p string) {TRANSACTIONAL}")
    for key in (1, 2):
        beside.hive.sql(f"{insert} ({key}, 'row {key}')")

    def must_show(*keys: int) -> None:
        beside.rows(name, [f"{key}\trow {key}\tx" for key in keys])

    batch = _Batch(beside, name, 6)
    assert batch.write_ids == [3, 4, 5, 6, 7, 8]
    batch.write(31, 32)
    batch.commit()
    batch.write(4)
    batch.abort()
    batch.write(5)
    batch.commit()
    batch.write(6)
    beside.hive.sql(f"{insert} (9, 'row 9')")
    streamed = "delta_0000003_0000008"
    assert _files(beside, name, streamed) == ["bucket_00000", "bucket_00000_flush_length"]
    must_show(1, 2, 31, 32, 5, 9)

    [open_] = beside.compact(name, kind, "p=x")
    assert open_["fate"] == "compacted", open_
    left = beside.names(name, "p=x")
    output = "base_0000002_v" if kind == "major" else "delta_0000001_0000002_v"
    assert [one for one in left if "_v" in one and not one.startswith(output)] == []
    assert {streamed, "delta_0000009_0000009_0000"} < set(left)
    assert len(left) == 5
    must_show(1, 2, 31, 32, 5, 9)
    assert beside.clean()["cleaned"] == []

    batch.commit()
    batch.write(7)
    batch.close(lost=lost)
    assert (len(_files(beside, name, streamed)) == 2) is lost
    must_show(1, 2, 31, 32, 5, 6, 9)
    [ended] = beside.compact(name, kind, "p=x")
    assert ended["fate"] == "compacted", ended
    must_show(1, 2, 31, 32, 5, 6, 9)
    beside.clean_all()
    [left_over] = beside.names(name, "p=x")
    assert left_over.startswith("base_0000009_v" if kind == "major" else "delta_0000001_0000009_v")
    must_show(1, 2, 31, 32, 5, 6, 9)


def _files(beside: Beside, table: str, directory: str) -> list[str]:
    found = (beside.directory(table, "p=x") / directory).iterdir()
    return sorted(path.name for path in found if not path.name.startswith((".", "_")))
