from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadName
from compactor.metastore.queue.properties_text import decode, encode

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def test_as_hive_writes_it() -> None:
    """CQ_TBLPROPERTIES of a real Hive 4.1."""
    text = "1:33:compactor.mapreduce.map.memory.mb3:512"
    assert encode({"compactor.mapreduce.map.memory.mb": "512"}) == text
    assert decode(text) == {"compactor.mapreduce.map.memory.mb": "512"}


def test_lengths_count_as_javas() -> None:
    assert encode({"a": "\N{GRINNING FACE}"}) == "1:1:a2:\N{GRINNING FACE}"


def test_null_and_nothing() -> None:
    assert decode(None) == decode("") == decode("0:") == {}
    assert decode("1:1:a-1:") == {"a": ""}


@given(st.dictionaries(texts, texts, max_size=4))
def test_round_trip(properties: dict[str, str]) -> None:
    assert decode(encode(properties)) == properties


@pytest.mark.parametrize("text", ["x", "1:", "1:3:ab", "2:1:a1:b", "1:x:a1:b"])
def test_what_is_cut_off_is_named(text: str) -> None:
    with pytest.raises(BadName, match="CQ_TBLPROPERTIES"):
        decode(text)
