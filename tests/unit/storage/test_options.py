from __future__ import annotations

import pytest

from compactor.errors import BadSetting
from compactor.storage.options import StoreOptions, scrub


def test_a_place_has_its_own_options_over_those_of_its_kind() -> None:
    options = StoreOptions.of(
        {
            "s3": {"endpoint_url": "http://a", "anon": True},
            "s3://far": {"endpoint_url": "http://b"},
            "hdfs": {"user": "x"},
        }
    )
    assert options.of_place("s3", "near") == {"endpoint_url": "http://a", "anon": True}
    assert options.of_place("s3", "far") == {"endpoint_url": "http://b", "anon": True}
    assert options.of_place("gs", "near") == {}


def test_an_unknown_store_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(BadSetting, match=r"\[storage.ftp\].*known are hdfs, s3, abfs, gs"):
        StoreOptions.of({"ftp": {}})
    with pytest.raises(BadSetting, match="wanted a table"):
        StoreOptions.of({"s3": "x"})  # type: ignore[dict-item]


def test_no_secret_is_shown() -> None:
    assert "hush" not in repr(StoreOptions.of({"s3": {"secret": "hush"}}))
    scrubbed = scrub(
        "GET http://nn:9870/webhdfs/v1/a?delegation=hush&op=OPEN, http://b/c?sig=hush&X-Amz-Signature=hush)"
    )
    assert "hush" not in scrubbed
    assert "op=OPEN" in scrubbed


def test_equal_options_are_one_key() -> None:
    one, two = {"s3": {"a": 1, "b": 2}}, {"s3": {"b": 2, "a": 1}}
    assert hash(StoreOptions.of(one)) == hash(StoreOptions.of(two))
