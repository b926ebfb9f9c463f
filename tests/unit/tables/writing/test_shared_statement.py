from __future__ import annotations

import pickle

from compactor.base.ids import WriteId
from compactor.tables.writing.shape import TravellingColumn, TravellingShape
from compactor.tables.writing.shared_statement import SharedChange, SharedStatement


def test_a_statement_travels_without_the_properties_of_its_table_in_its_text() -> None:
    shape = TravellingShape(
        name="db.t",
        columns=(TravellingColumn(name="i", type="int"),),
        partition_keys=(),
        buckets=-1,
        bucket_columns=(),
        parameters={"secret": "hidden"},
        row_type="struct<i:int>",
    )
    rows = SharedStatement(table=shape, attempts="/t/.compactor_w1_x", write_id=WriteId(4), calendar=0)
    change = SharedChange(rows=rows, is_checked=True)
    assert pickle.loads(pickle.dumps(change)) == change
    assert "hidden" not in repr(change)
