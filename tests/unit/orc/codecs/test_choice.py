"""The choice between the codecs."""

from __future__ import annotations

from compactor.orc.codecs.choice import ARROW, with_codec
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import Types, acid_types


def test_the_second_codec_is_used_only_if_the_first_would_lose_something() -> None:
    asked: list[str] = []

    def work(codec: Codec) -> str:
        asked.append(codec.name)
        if codec is ARROW:
            raise Unfit("because")
        return codec.name

    types: Types = acid_types(parse_hive_type("struct<a:int>"))
    assert with_codec([types], work) == "pyorc"
    assert with_codec([types], lambda codec: codec.name) == "arrow"
    assert asked == ["arrow", "pyorc"]
