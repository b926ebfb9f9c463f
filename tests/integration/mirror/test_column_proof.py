"""A proof that a mirror has all values of its table, and one that it has not (PROTOCOL 15.5)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.mirror import column_proof
from compactor.mirror.column_proof import prove_columns
from compactor.tables.store import Store
from tests.integration.mirror.conftest import numbered
from tests.support.mirrored import MirroredTable, execute, mirror_table

TYPES = {
    "a_boolean": "boolean",
    "a_tinyint": "tinyint",
    "a_bigint": "bigint",
    "a_float": "float",
    "a_double": "double",
    "a_decimal": "decimal(20,4)",
    "a_string": "string",
    "a_char": "char(5)",
    "a_binary": "binary",
    "a_date": "date",
    "a_timestamp": "timestamp",
    "a_list": "array<char(3)>",
    "a_map": "map<string,int>",
    "a_struct": "struct<x:int,y:array<timestamp>>",
}


def array_of(values: list[object], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind) if pa.types.is_nested(kind) else pa.array(values).cast(kind)


def test_all_types_are_equal(store: Store, tmp_path: Path) -> None:
    table = store.create_table("d.w", TYPES)
    rows = {
        "a_boolean": [True, False, None],
        "a_tinyint": [1, -1, None],
        "a_bigint": [2**60, 0, None],
        "a_float": [1.5, float("nan"), None],
        "a_double": [-0.0, 0.0, None],
        "a_decimal": ["1.5", "-2", None],
        "a_string": ["", "żółć  ", None],
        "a_char": ["ab", "", None],
        "a_binary": [b"\xff", b"", None],
        "a_date": ["2026-11-28", "1700-01-01", None],
        "a_timestamp": ["2026-11-28 01:02:03.000004", "1969-12-31 23:59:58", None],
        "a_list": [["a", None, "b  "], [], None],
        "a_map": [[("k", 1)], [], None],
        "a_struct": [{"x": 1, "y": [None]}, {"x": None, "y": None}, None],
    }
    arrays = [array_of(values, table.schema.field(name).type) for name, values in rows.items()]
    table.append(pa.table(arrays, names=list(rows)))
    mirrored = mirror_table(store.site, tmp_path / "lake", "d.w")
    proof = prove_columns(mirrored.site, "d.w")
    assert (proof.rows, proof.mirrored_rows, proof.columns, proof.differing) == (3, 3, len(TYPES), ())
    table.delete("a_tinyint = 1")
    proof = prove_columns(mirrored.site, "d.w")
    assert (proof.rows, proof.is_equal) == (2, True)
    assert mirrored.run().snapshot is None, "the proof has brought it up to date"


def test_partition_columns_are_compared(store: Store, tmp_path: Path) -> None:
    table = store.create_table("d.p", {"id": "int", "code": "char(3)"}, partitioned_by=["code"])
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "code": ["a", None]}))
    mirrored = mirror_table(store.site, tmp_path / "lake", "d.p")
    assert prove_columns(mirrored.site, "d.p").is_equal


def test_a_mirror_without_rows_is_equal_to_an_empty_table(store: Store, tmp_path: Path) -> None:
    store.create_table("d.e", {"id": "int"})
    mirrored = mirror_table(store.site, tmp_path / "lake", "d.e")
    assert prove_columns(mirrored.site, "d.e").is_equal


def test_another_value_is_found_by_its_column(mirrored: MirroredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of the mirror shows another table's rows, which differ in one value."""
    store = Store(mirrored.site)
    store.create_table("d.other", {"id": "bigint", "name": "string"}).append(numbered(range(5)))
    execute(mirrored.site, "UPDATE d.other SET name = 'row 3 ' WHERE id = 3")
    other = store.load_table("d.other")
    monkeypatch.setattr(column_proof, "_read_mirror", lambda *_: other.scan().to_arrow().to_batches())
    proof = prove_columns(mirrored.site, "d.t")
    assert (proof.rows, proof.mirrored_rows, proof.differing, proof.is_equal) == (5, 5, ("name",), False)
    other.delete("id = 4")
    proof = prove_columns(mirrored.site, "d.t")
    assert (proof.mirrored_rows, set(proof.differing)) == (4, {"id", "name"})
