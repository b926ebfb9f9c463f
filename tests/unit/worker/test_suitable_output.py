"""The class of files that a request asks for, compared with the table."""

from __future__ import annotations

import pytest

from compactor.acid.names import Layout
from compactor.base.errors import Refused
from compactor.metastore.catalog.values import Column, Table
from compactor.settings.output_class import OutputClass
from compactor.worker.suitable_output import must_suit

TABLE = Table(
    id=1,
    database="default",
    name="t",
    location="/w/t",
    columns=(
        Column(name="name", type="string"),
        Column(name="flag", type="boolean"),
        Column(name="seen", type="timestamp"),
    ),
)


@pytest.mark.parametrize("asked", [None, OutputClass(compression="ZSTD"), OutputClass(bloom_filters=("*", "name"))])
def test_what_suits(asked: OutputClass | None) -> None:
    must_suit(TABLE, asked, Layout.VISIBILITY)


def test_a_codec_that_hive_3_1_cannot_read_is_refused_by_name() -> None:
    """ORC 1.5 reads no ZSTD."""
    must_suit(TABLE, OutputClass(compression="SNAPPY"), Layout.PLAIN)
    with pytest.raises(Refused, match=r"orc\.compress = ZSTD: Hive 3\.1, .* expected NONE, ZLIB, SNAPPY or LZ4"):
        must_suit(TABLE, OutputClass(compression="ZSTD"), Layout.PLAIN)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nam", "it has no column 'nam'; did you mean name?"),
        ("flag", "column flag is boolean, which cannot have a bloom filter"),
        ("seen", "column seen is timestamp, which cannot have a bloom filter"),
    ],
)
def test_a_filter_that_a_column_cannot_have_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        must_suit(TABLE, OutputClass(bloom_filters=("name", name)), Layout.VISIBILITY)
    assert said in str(refused.value)
