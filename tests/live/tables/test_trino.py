"""Our programs and a live Trino read, append to, change and compact the same tables, of every type, in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.part_files import write_part
from compactor.tables.writing.shared_statements import begin_rows, finish_rows
from demo.delta_writer import write_rows
from tests.support.beside import TRANSACTIONAL, Beside, entity
from tests.support.trino import Trino
from tests.support.type_values import HIGHEST, LOWEST, NULL, ORDINARY
from tests.support.typed_tables import BY_BATCH, BY_ROW, TRINO_SHAPES, Other, Shape, TypedTable, begin_anew


@pytest.mark.parametrize("shape", TRINO_SHAPES, ids=lambda shape: shape.name)
def test_trino_and_our_programs_in_turn(beside: Beside, trino: Trino, shape: Shape) -> None:
    """PROTOCOL 14: each sees what the other wrote, changes it, and compacts it; Hive shows the same rows."""
    table = TypedTable(
        beside=beside, other=Other(run=trino.sql, is_trino=True), shape=shape, name=f"trino_{shape.name}", trino=trino
    )
    table.begin()
    table.check()

    table.append({10: ORDINARY, 11: LOWEST, 12: HIGHEST, 13: NULL})
    table.check(BY_BATCH, BY_ROW)
    table.change(10, HIGHEST)
    table.remove(11)
    table.merge(changed=12, number=ORDINARY, removed=13, added=14)
    table.check()

    table.update(0, LOWEST)
    table.update(10, NULL)
    table.delete(1, 14)
    table.upsert({2: ORDINARY, 15: HIGHEST, 16: NULL})
    table.check(BY_BATCH, BY_ROW)
    table.joins()

    table.compact("minor")
    table.check()
    table.append({20: ORDINARY, 21: NULL, 23: LOWEST})
    table.change(20, LOWEST)
    table.update(21, HIGHEST)
    table.hive_compact("minor")
    table.check()
    table.remove(20)
    table.delete(21)
    table.insert({25: HIGHEST})
    table.compact("major")
    table.check(BY_BATCH, BY_ROW)

    begin_anew(table)


def _as_statements(site: Site, name: str, rows: Sequence[pa.Table], _operation: WriteOperation) -> None:
    """Each writer is a statement of one program's transaction."""
    with Store(site).transaction() as txn:
        for one in rows:
            txn.load_table(f"default.{name}").append(one)


def _as_processes(site: Site, name: str, rows: Sequence[pa.Table], operation: WriteOperation) -> None:
    """Each writer is a process of its own, as the tasks of Spark are, and rows are numbered from far above the others'."""
    with transaction(site) as txn:
        statement, work = begin_rows(txn, named_table(site, f"default.{name}"), operation, None)
        finish_rows(
            txn,
            statement,
            [
                part
                for writer, one in enumerate(rows)
                for part in write_part(work, one.to_batches(), writer, site.storage)
            ],
        )


@pytest.mark.parametrize(
    ("write", "operation"),
    [
        pytest.param(_as_statements, WriteOperation.INSERT, id="statements"),
        pytest.param(_as_processes, WriteOperation.INSERT, id="processes"),
        pytest.param(_as_processes, WriteOperation.UPDATE, id="overwriting"),
    ],
)
def test_each_writer_of_one_transaction_has_a_statement_of_its_own(
    beside: Beside,
    trino: Trino,
    write: Callable[[Site, str, Sequence[pa.Table], WriteOperation], None],
    operation: WriteOperation,
) -> None:
    """PROTOCOL 14.5, 14.15: several statements of one write ID, each with its own ``bucket_00000``, rows numbered on and on.
    Trino shows, updates, deletes and merges rows of each, and no older version comes back."""
    is_overwriting = operation is WriteOperation.UPDATE
    name, writers = f"many_writers{write.__name__}{'_over' if is_overwriting else ''}", 5
    beside.hive.sql(f"create table {name} (id int, b string) {TRANSACTIONAL}")

    def shown() -> dict[int, str]:
        found = {row[0]: row[1] for row in trino.sql(f"select id, b from {name}")}
        assert trino.sql(f"select count(*) from {name}") == [[len(found)]]
        for session in (BY_BATCH, BY_ROW):
            lines = beside.hive.sql(f"select id, b from {name}", session)
            assert sorted(lines) == sorted(f"{id}\t{b}" for id, b in found.items()), session
        beside.scanned(name)
        return found

    wanted: dict[int, str] = {}
    for first in (0, 1000):
        firsts = range(first, first + 100 * writers, 100)
        rows = [
            pa.table({"id": range(at, at + 10), "b": [f"writer {writer}"] * 10}) for writer, at in enumerate(firsts)
        ]
        write(beside.site, name, rows, operation)
        wanted = {} if is_overwriting else wanted
        wanted |= {at + n: f"writer {writer}" for writer, at in enumerate(firsts) for n in range(10)}
    if not is_overwriting:
        assert [path for path in beside.names(name) if path.startswith("delta_0000001")] == [
            f"delta_0000001_0000001_{writer:04d}" for writer in range(writers)
        ]
    assert shown() == wanted
    trino.sql(f"update {name} set b = 'changed' where id % 10 in (1, 2)")
    wanted |= {id: "changed" for id in wanted if id % 10 in (1, 2)}
    assert shown() == wanted
    trino.sql(f"delete from {name} where id % 10 in (2, 3)")
    wanted = {id: b for id, b in wanted.items() if id % 10 not in (2, 3)}
    assert shown() == wanted
    trino.sql(
        f"merge into {name} t using (select id from {name} where id % 10 in (4, 5) union all values 7777) s on t.id = s.id "
        "when matched and s.id % 10 = 4 then delete when matched then update set b = 'merged' "
        "when not matched then insert values (s.id, 'added')"
    )
    wanted = {id: "merged" if id % 10 == 5 else b for id, b in wanted.items() if id % 10 != 4} | {7777: "added"}
    assert shown() == wanted
    for kind in ("minor", "major"):
        [done] = beside.compact(name, kind)
        assert done["fate"] == "compacted", done
        assert shown() == wanted
        trino.sql(f"update {name} set b = '{kind}' where id % 10 in (6, 7)")
        wanted |= {id: kind for id in wanted if id % 10 in (6, 7)}
        assert shown() == wanted
    beside.clean_all()
    assert shown() == wanted


def test_rows_numbered_anew_by_each_statement_come_back_row_by_row(beside: Beside, trino: Trino) -> None:
    """docs/readers.md: as Hive numbers them, and programs do not. Trino's delete events are passed over until we compact."""
    name, row_type = "numbered_anew", "struct<id:int,b:string>"
    beside.hive.sql(f"create table {name} (id int, b string) {TRANSACTIONAL}")
    with transaction(beside.site) as txn:
        for first in (0, 10):
            made = txn.begin_statement(entity(name), WriteOperation.INSERT)
            rows = pa.table({"id": pa.array(range(first, first + 5), pa.int32()), "b": ["x"] * 5})
            write_rows(made.location, row_type, rows, write_id=made.write_id, statement_id=made.statement_id)
    trino.sql(f"delete from {name} where id % 10 in (1, 2, 3)")
    wanted = ["0", "10", "14", "4"]

    def shown(session: str) -> list[str]:
        return sorted(beside.hive.sql(f"select id from {name}", session))

    assert sorted(trino.sql(f"select id from {name}")) == [[0], [4], [10], [14]]
    assert shown(BY_BATCH) == wanted
    assert len(shown(BY_ROW)) > len(wanted)
    assert (
        sorted(map(str, Store(beside.site).load_table(f"default.{name}").scan().to_arrow()["id"].to_pylist())) == wanted
    )
    [done] = beside.compact(name, "minor")
    assert done["fate"] == "compacted", done
    assert shown(BY_BATCH) == shown(BY_ROW) == wanted
    beside.clean_all()
    assert shown(BY_BATCH) == shown(BY_ROW) == wanted
