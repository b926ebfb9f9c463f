"""Rows that are streamed and mutations from outside, in tables that a live Hive and Trino read and change too."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compactor.tables import Store
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.trino import Trino
from tests.support.typed_tables import BY_BATCH, BY_ROW


class Shown:
    """Checks that all readers of a table ``(id int, note string)`` show the same rows."""

    def __init__(self, beside: Beside, trino: Trino, name: str) -> None:
        self._beside, self._trino, self._name = beside, trino, name

    def must_be(self, wanted: dict[int, str]) -> None:
        assert sorted(self._trino.sql(f"select id, note from {self._name}")) == [
            list(one) for one in sorted(wanted.items())
        ]
        lines = sorted(f"{id}\t{note}" for id, note in wanted.items())
        for session in (BY_BATCH, BY_ROW):
            assert sorted(self._beside.hive.sql(f"select id, note from {self._name}", session)) == lines, session
        self._beside.rows(self._name)


def make_rows(ids: range | list[int], note: str) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "note": [note] * len(ids)})


@pytest.mark.parametrize("clause", ["", " clustered by (id) into 2 buckets"], ids=["plain", "bucketed"])
def test_each_commit_of_a_stream_is_shown_at_once_and_changed_by_all(beside: Beside, trino: Trino, clause: str) -> None:
    """TABLES 16: one delta a commit, between whose commits Hive and Trino write, and a worker compacts. (Trino does not look
    at delete events of Hive 4: docs/readers.md.)"""
    name = "streamed_rows" + ("_bucketed" if clause else "")
    beside.hive.sql(f"create table {name} (id int, note string){clause} {TRANSACTIONAL}")
    shown = Shown(beside, trino, name)
    wanted: dict[int, str] = {}
    with Store(beside.site).load_table(f"default.{name}").stream() as stream:
        for number in range(6):
            ids = range(number * 10, number * 10 + 5)
            stream.write(make_rows(ids, "streamed"))
            shown.must_be(wanted)
            stream.commit()
            wanted |= dict.fromkeys(ids, "streamed")
            shown.must_be(wanted)
            if number == 1:
                beside.hive.sql(f"insert into {name} values (-1, 'by Hive')")
                trino.sql(f"delete from {name} where id = 11")
                wanted[-1] = "by Hive"
                del wanted[11]
            if number == 2:
                trino.sql(f"update {name} set note = 'by Trino' where id in (1, 22)")
                wanted |= dict.fromkeys((1, 22), "by Trino")
            if number in (3, 4):
                [done] = beside.compact(name, "minor" if number == 3 else "major")
                assert done["fate"] == "compacted", done
    shown.must_be(wanted)
    [done] = beside.compact(name, "major")
    assert done["fate"] == "compacted", done
    beside.clean_all()
    assert len(beside.names(name)) == 1
    shown.must_be(wanted)


@pytest.mark.parametrize("clause", ["", " clustered by (id) into 2 buckets"], ids=["plain", "bucketed"])
def test_a_mutation_is_shown_whole_and_in_its_order(beside: Beside, trino: Trino, clause: str) -> None:
    """TABLES 17: inserts, updates and deletes by key and by ROW__ID of rows that Hive, Trino and programs wrote."""
    name = "mutated" + ("_bucketed" if clause else "")
    beside.hive.sql(f"create table {name} (id int, note string){clause} {TRANSACTIONAL}")
    beside.hive.sql(f"insert into {name} values (0, 'by Hive'), (1, 'by Hive'), (2, 'by Hive')")
    trino.sql(f"insert into {name} values (10, 'by Trino'), (11, 'by Trino'), (12, 'by Trino')")
    shown = Shown(beside, trino, name)
    table = Store(beside.site).load_table(f"default.{name}")
    with table.mutate(["id"]) as mutation:
        mutation.insert(make_rows([20, 21, 22], "new"))
        mutation.update(make_rows([0, 10, 20], "updated"))
        mutation.delete(make_rows([1, 11, 21], ""))
        mutation.insert(make_rows([1], "again"))
    assert (mutation.changed.deleted, mutation.changed.updated, mutation.changed.inserted) == (1, 3, 2)
    wanted = {0: "updated", 1: "again", 2: "by Hive", 10: "updated", 12: "by Trino", 20: "updated", 22: "new"}
    shown.must_be(wanted)

    trino.sql(f"update {name} set note = 'Trino again' where id in (1, 20)")
    with Store(beside.site).transaction() as txn:
        seen = txn.load_table(f"default.{name}")
        found = seen.scan("id = 1 or id = 20 or id = 2", row_ids=True).to_arrow()
        changed = found.filter(pc.not_equal(found["id"], 2))
        notes = changed.schema.get_field_index("note")
        with seen.mutate() as mutation:
            mutation.update(changed.set_column(notes, "note", [["by ROW__ID"] * changed.num_rows]))
            mutation.delete(found.filter(pc.equal(found["id"], 2)))
    wanted |= {1: "by ROW__ID", 20: "by ROW__ID"}
    del wanted[2]
    shown.must_be(wanted)
    [done] = beside.compact(name, "major")
    assert done["fate"] == "compacted", done
    shown.must_be(wanted)
    beside.clean_all()
    shown.must_be(wanted)
