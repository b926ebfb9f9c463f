from __future__ import annotations

import pytest

from compactor.settings.output_class import OutputClass, refusal


def test_of_a_requests_table_properties() -> None:
    given = {"ORC.Compress": " zstd ", "orc.row.index.stride": "5000"}
    wanted = OutputClass(compression="ZSTD", row_index_stride=5000)
    assert OutputClass.from_request(given) == wanted
    assert str(wanted) == "orc.compress = ZSTD, orc.row.index.stride = 5000"
    assert OutputClass.from_request({}) is None


def test_all_of_them() -> None:
    given = {
        "orc.compress": "none",
        "orc.compress.size": "131072",
        "orc.row.index.stride": "1000",
        "orc.stripe.size": "1048576",
        "orc.bloom.filter.columns": "B, a,b",
        "orc.bloom.filter.fpp": "0.01",
    }
    wanted = OutputClass.from_request(given)
    assert wanted == OutputClass(
        compression="NONE",
        row_index_stride=1000,
        block_bytes=131072,
        stripe_bytes=1048576,
        bloom_filters=("b", "a"),
        false_positives=0.01,
    )
    assert [refusal(key, text) for key, text in given.items()] == [None] * 6
    assert str(wanted).endswith("orc.bloom.filter.columns = b,a, orc.bloom.filter.fpp = 0.01")


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("orc.compress", "lzo", "expected one of NONE, ZLIB, SNAPPY, LZ4, ZSTD"),
        ("orc.compress.size", "8192", "expected a number of bytes, 65536 to 4194304, a multiple of 65536"),
        ("orc.compress.size", "100000", "a multiple of 65536"),
        ("orc.row.index.stride", "999", "expected a number of rows, 1000 to 2147483647"),
        ("orc.stripe.size", "-1", "expected a number of bytes, 1048576 to 268435456"),
        ("orc.bloom.filter.columns", "a,,b", "expected names of columns separated by commas, or *"),
        ("orc.bloom.filter.fpp", "nan", "expected a share of values, 0.0001 to 0.5"),
        ("orc.bloom.filter.fpp", "five", "expected a share of values"),
        ("orc.encrypt", "pii", "a compaction cannot change it, only orc.compress, orc.compress.size"),
    ],
)
def test_what_is_refused(key: str, text: str, said: str) -> None:
    assert said in (refusal(key, text) or "")


def test_what_a_file_does_not_say_is_asked_of_every_stripe() -> None:
    assert not OutputClass(compression="ZSTD", block_bytes=65536, row_index_stride=1000).is_of_every_stripe
    assert OutputClass(stripe_bytes=1 << 20).is_of_every_stripe
    assert OutputClass(bloom_filters=("a",)).is_of_every_stripe
    assert OutputClass(false_positives=0.01).is_of_every_stripe
