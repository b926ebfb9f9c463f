from __future__ import annotations

import pytest

from compactor.settings.output_class import OutputClass, refusal


def test_of_a_requests_table_properties() -> None:
    given = {"ORC.Compress": " zstd ", "orc.row.index.stride": "5000"}
    wanted = OutputClass(compression="ZSTD", row_index_stride=5000)
    assert OutputClass.of(given) == wanted
    assert str(wanted) == "orc.compress = ZSTD, orc.row.index.stride = 5000"
    assert OutputClass.of({}) is None


@pytest.mark.parametrize(("key", "text"), [("orc.compress", "none"), ("orc.row.index.stride", "1000")])
def test_what_is_accepted(key: str, text: str) -> None:
    assert refusal(key, text) is None
