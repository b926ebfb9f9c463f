from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from compactor.orc.codecs.codec import Unfit
from compactor.orc.codecs.pyorc_codec import TIMESTAMP
from compactor.tables.writing.encodable import to_encodable

EARLY = [datetime(1, 1, 1), None, datetime(1969, 12, 31, 23, 59, 59, 500000)]
PARTS = [{"seconds": -62135596800, "nanos": 0}, None, {"seconds": -1, "nanos": 500_000_000}]


def test_timestamps_get_the_codecs_form_at_any_depth() -> None:
    item = pa.struct([pa.field("k", pa.map_(pa.string(), pa.timestamp("us")))])
    given = pa.array([[{"k": [("a", day)]}] for day in EARLY], pa.list_(item))
    kind = pa.list_(pa.struct([pa.field("k", pa.map_(pa.string(), TIMESTAMP))]))
    assert to_encodable(given, kind).to_pylist() == [[{"k": [("a", part)]}] for part in PARTS]
    assert to_encodable(pa.array(EARLY), TIMESTAMP).to_pylist() == PARTS


def test_nanoseconds_are_for_the_other_codec_where_they_do_not_reach() -> None:
    assert to_encodable(pa.array(EARLY[1:]), pa.timestamp("ns")).type == pa.timestamp("ns")
    with pytest.raises(Unfit):
        to_encodable(pa.array(EARLY), pa.timestamp("ns"))


def test_nothing_else_changes() -> None:
    array = pa.array([[1], None])
    assert to_encodable(array, array.type) is array
