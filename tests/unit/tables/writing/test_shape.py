"""The part of a table that travels is all that its writers ask for."""

from __future__ import annotations

import pickle

from compactor.metastore.catalog.values import Column, Table
from compactor.tables.writing.shape import TravellingShape


def test_a_travelling_shape_is_the_table_s() -> None:
    table = Table(
        id=1,
        database="db",
        name="t",
        location="/t",
        columns=(Column(name="a:b", type="int"),),
        partition_keys=(Column(name="p", type="date"),),
        buckets=3,
        bucket_columns=("a:b",),
        parameters={"orc.compress": "ZSTD"},
    )
    found = pickle.loads(pickle.dumps(TravellingShape.from_table(table)))
    assert str(found) == "db.t"
    assert found.row_type == table.row_type
    assert [(one.name, one.type) for one in (*found.columns, *found.partition_keys)] == [("a:b", "int"), ("p", "date")]
    assert (found.buckets, found.bucket_columns, found.parameters) == (3, ("a:b",), {"orc.compress": "ZSTD"})
