"""The inputs of a compaction and the name of its output (PROTOCOL 1), over tables of our own writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from compactor.acid import bucket
from compactor.acid.names import ACID_VERSION, ACID_VERSION_FILE, Delta, DeltaKind
from compactor.base.ids import TxnId, WriteId
from compactor.metastore.catalog.values import Table
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import LocalSource
from compactor.orc.reencode import encode_acid
from compactor.rows.new_file import OutputMetadata
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.ending import Result
from demo.delta_writer import write_deletes, write_rows
from tests.support.passes import clean_all, compact, rows_without_visibility
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

ROW_TYPE = "struct<a:int,b:string>"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    return make_table(site, warehouse)


def values(site: Site, table: Table) -> list[int]:
    return sorted(row[3] for row in rows_of(site, table))


def stream(site: Site, table: Table, count: int) -> list[TxnId]:
    """Writes what a streaming writer leaves: one delta over ``count`` write IDs, a row of each, all still open."""
    txns = site.metastore.transactions.open("flume", "h", count=count)
    ids = [site.metastore.write_ids.allocate(txn, "default", "t") for txn in txns]
    for txn, write_id in zip(txns, ids, strict=True):
        site.metastore.write_ids.add_component(txn, entity_of(table), "i", write_id)
    folder = Path(table.location) / f"delta_{ids[0]:07d}_{ids[-1]:07d}"
    folder.mkdir()
    (folder / ACID_VERSION_FILE).write_bytes(ACID_VERSION)
    path = str(folder / "bucket_00000")
    types = acid_types(parse_hive_type(ROW_TYPE))
    like = empty_tail(types, name=path)

    def batch(codec: Codec) -> pa.RecordBatch:
        schema = codec.schema(types)
        write_ids = pa.array(ids, pa.int64())
        rows = [pa.array([100 + i for i in ids], pa.int32()), pa.array([f"row {100 + i}" for i in ids])]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(np.zeros(count, dtype=np.int32)),
                write_ids,
                pa.array(np.full(count, bucket.encode(0, 0), dtype=np.int32)),
                pa.array(np.zeros(count, dtype=np.int64)),
                write_ids,
                pa.StructArray.from_arrays(rows, fields=list(schema.field(5).type)),
            ],
            schema=schema,
        )

    with_codec(
        [types],
        lambda codec: encode_acid(
            [batch(codec)], path, like=like, types=types, metadata=OutputMetadata().compute, codec=codec
        ),
    )
    return list(txns)


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_an_output_never_reaches_into_a_delta_that_was_left_out(site: Site, table: Table, kind: str) -> None:
    """PROTOCOL 1.2: ``delta_3_7`` with 5 to 7 open is skipped, and the output is named 2, not by the watermark 4."""
    insert(site, table, [1, 2])
    insert(site, table, [3, 4])
    txns = stream(site, table, 5)
    for txn in txns[:2]:
        site.metastore.transactions.commit(txn)
    insert(site, table, [5, 6])
    wanted = [1, 2, 3, 4, 5, 6, 103, 104]
    assert values(site, table) == wanted
    outcome = compact(site, kind)
    assert outcome.result is Result.COMPACTED
    (output,) = outcome.output
    assert output.startswith("base_0000002_v" if kind == "major" else "delta_0000001_0000002_v")
    (entry,) = site.metastore.entries.queue()
    assert entry.highest_write_id == 2
    assert values(site, table) == wanted
    for txn in txns[2:]:
        site.metastore.transactions.abort(txn, "the writer died")
    assert values(site, table) == wanted
    assert sorted(row[3] for row in rows_without_visibility(site, table)) == wanted
    clean_all(site)
    assert values(site, table) == wanted

    (output,) = compact(site, kind).output  # now that nothing is open, all of it
    assert output.startswith("base_0000008_v" if kind == "major" else "delta_0000001_0000008_v")
    clean_all(site)
    assert values(site, table) == wanted


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_aborted_and_open_rows_are_left_out(site: Site, table: Table, kind: str) -> None:
    """PROTOCOL 1.1: nothing at or above the lowest open write ID; aborted ones are left out row by row."""
    insert(site, table, [1, 2])
    txns = stream(site, table, 4)  # 2..5
    insert(site, table, [7, 8])
    for txn, end in zip(txns, ("commit", "abort", "commit", "abort"), strict=True):
        if end == "commit":
            site.metastore.transactions.commit(txn)
        else:
            site.metastore.transactions.abort(txn, "by hand")
    with transaction(site) as writer:
        late = writer.begin_statement(entity_of(table), WriteOperation.INSERT)
        rows = pa.table({"a": pa.array([9], pa.int32()), "b": ["row 9"]})
        write_rows(late.location, ROW_TYPE, rows, write_id=late.write_id, statement_id=0)
        outcome = compact(site, kind)
        assert outcome.output[0].split("_v")[0] in ("base_0000006", "delta_0000001_0000006")
        assert outcome.figures.rows_invisible == 2
        assert outcome.figures.rows_out == 6
    assert values(site, table) == [1, 2, 7, 8, 9, 102, 104]
    clean_all(site)
    assert values(site, table) == [1, 2, 7, 8, 9, 102, 104]


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_delete_event_in_another_files_delta_is_dead_and_stays_so(site: Site, table: Table, kind: str) -> None:
    """PROTOCOL 1.3: an event in ``bucket_00001`` never meets a row of ``bucket_00000``, whatever its key says."""
    insert(site, table, [1, 2, 3, 4])
    insert(site, table, [5, 6])
    victim = next(row for row in rows_of(site, table) if row[3] == 2)  # even: file 0
    with transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.DELETE)
        ids = pa.table({n: [v] for n, v in zip(("writeid", "bucketid", "rowid"), victim, strict=False)})
        write_deletes(statement.location, ROW_TYPE, ids, write_id=statement.write_id, statement_id=0, number=1)
    wanted = rows_of(site, table)
    assert victim in wanted
    assert compact(site, kind).result is Result.COMPACTED
    assert rows_of(site, table) == wanted
    clean_all(site)
    assert rows_of(site, table) == wanted
    delete(site, table, [5])  # so that there is something to merge
    assert compact(site, "major").result is Result.COMPACTED
    assert victim in rows_of(site, table)


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_no_output_is_ever_empty_of_files(site: Site, table: Table, warehouse: Path, kind: str) -> None:
    """PROTOCOL 1.4: where every row went, one file without rows stands for them."""
    insert(site, table, [1, 2])
    insert(site, table, [3])
    delete(site, table, [1, 2, 3])
    outcome = compact(site, kind)
    (output,) = outcome.output
    assert output.startswith("base_" if kind == "major" else "delta_0000001_0000003_v")
    (file,) = (warehouse / "t" / output).glob("bucket_*")
    with LocalSource(file) as source:
        tail = read_tail(source)
    assert (tail.rows, tail.is_acid) == (0, True)
    assert rows_of(site, table) == rows_without_visibility(site, table) == []
    clean_all(site)
    assert names_in(warehouse / "t") == {output}
    assert rows_of(site, table) == rows_without_visibility(site, table) == []


def test_a_minor_writes_each_kind_that_its_range_holds(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 1.4: a range hides all smaller directories of both kinds, so what the base needs must be in it."""
    insert(site, table, range(10))
    insert(site, table, range(10, 20))
    compact(site, "major")
    clean_all(site)
    insert(site, table, range(20, 25))
    insert(site, table, range(25, 30))
    delete(site, table, [3, 14, 25])
    wanted = rows_of(site, table)
    outcome = compact(site, "minor")
    assert [name.split("_v")[0] for name in outcome.output] == ["delta_0000003_0000005", "delete_delta_0000003_0000005"]
    assert (outcome.figures.events_out, outcome.figures.events_applied) == (2, 1)
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted
    clean_all(site)
    assert rows_of(site, table) == rows_without_visibility(site, table) == wanted


def test_a_minor_over_one_write_id_applies_its_deletes(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 1.5: several statements of one transaction; otherwise vectorised Hive returns the deleted row."""
    with transaction(site) as txn:
        for start in (0, 10):
            made = txn.begin_statement(entity_of(table), WriteOperation.INSERT)
            rows = pa.table({"a": pa.array([start, start + 1], pa.int32()), "b": ["x", "y"]})
            write_rows(made.location, ROW_TYPE, rows, write_id=made.write_id, statement_id=made.statement_id)
        gone = txn.begin_statement(entity_of(table), WriteOperation.DELETE)
        ids = pa.table({"writeid": [1], "bucketid": [bucket.encode(0, 0)], "rowid": [1]})
        write_deletes(gone.location, ROW_TYPE, ids, write_id=gone.write_id, statement_id=gone.statement_id)
    assert len(names_in(warehouse / "t")) == 3
    assert values(site, table) == [0, 10, 11]
    wanted = rows_of(site, table)
    outcome = compact(site, "minor")
    assert [name.split("_v")[0] for name in outcome.output] == ["delta_0000001_0000001"]
    assert (outcome.figures.rows_deleted, outcome.figures.events_applied) == (1, 1)
    with LocalSource(warehouse / "t" / outcome.output[0] / "bucket_00000") as source:
        assert read_tail(source).rows == 3
    assert rows_of(site, table) == wanted
    clean_all(site)
    assert rows_of(site, table) == wanted


def test_write_ids_of_a_wholly_aborted_delta_may_be_spanned(site: Site, table: Table) -> None:
    """PROTOCOL 1.2: wholly aborted directories don't count as left out."""
    insert(site, table, [1])
    insert(site, table, [2], commits=False)
    insert(site, table, [3])
    assert [n.split("_v")[0] for n in compact(site, "minor").output] == ["delta_0000001_0000003"]
    assert values(site, table) == [1, 3]
    clean_all(site)
    assert values(site, table) == [1, 3]
    assert WriteId(4) == site.metastore.write_ids.next("default", "t")


@pytest.mark.parametrize("overwrites", [False, True], ids=["into a delta", "into a base"])
@pytest.mark.parametrize("files", [("000000_0",), ("000000_0", "000001_0")], ids=["only empty", "beside rows"])
def test_empty_files_of_load_data_hold_no_rows(
    site: Site, table: Table, warehouse: Path, overwrites: bool, files: tuple[str, ...]
) -> None:
    """Hive writes an empty bucket with 0 bytes, and LOAD DATA brings it into a base or delta as it is."""
    insert(site, table, range(4))
    with transaction(site) as txn:
        statement = txn.begin_statement(entity_of(table), WriteOperation.INSERT)
        written = Delta(kind=DeltaKind.INSERT, min_write_id=statement.write_id, max_write_id=statement.write_id).name
        loaded = Path(table.location) / ("base_0000002" if overwrites else f"{written}_0000")
        loaded.mkdir()
        (loaded / files[0]).write_bytes(b"")
        for name in files[1:]:
            orc.write_table(pa.table({"a": pa.array([70], pa.int32()), "b": ["loaded"]}), str(loaded / name))
    insert(site, table, [5])
    insert(site, table, [6])
    wanted = [*(() if overwrites else range(4)), 5, 6, *([70] if files[1:] else [])]
    assert values(site, table) == wanted
    assert sorted(Store(site).load_table("default.t").scan().to_arrow()["a"].to_pylist()) == wanted
    for kind in ("minor", "major"):
        outcome = compact(site, kind)
        assert outcome.result is Result.COMPACTED, outcome.message
        clean_all(site)
        assert values(site, table) == wanted
        assert names_in(warehouse / "t") >= set(outcome.output)
        insert(site, table, [80])
        wanted.append(80)
