from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.orc.format import index_positions, messages
from compactor.orc.format.index_positions import can_seek
from compactor.orc.format.stripe_footer import ROW_INDEX, read_indexes, read_stripe_footer
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from tests.support import scanned

ROW_TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in scanned.COLUMNS.items())}>"
COLUMNS = range(7, 7 + len(scanned.COLUMNS))


@pytest.fixture(scope="module")
def source() -> Iterator[LocalSource]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, scanned.rows(1000), 1, 0, ())
        with LocalSource(path) as opened:
            yield opened


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("damage", ["none", "position", "entry", "index"])
def test_an_index_that_lacks_something_is_not_gone_by(
    source: LocalSource, column: int, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = read_tail(source)
    footer = read_stripe_footer(source, tail, 0)

    def damaged(*arguments: object) -> Iterator[tuple[int, int, messages.Message]]:
        for kind, number, index in read_indexes(source, tail, 0, footer, [column]):
            if damage == "index" and kind == ROW_INDEX:
                continue
            if damage == "position":
                del index.entry[1].positions[-1:]
            if damage == "entry":
                del index.entry[-1:]
            yield kind, number, index

    monkeypatch.setattr(index_positions, "read_indexes", damaged)
    assert can_seek(source, tail, 0, footer, [column]) is (damage == "none")


def test_a_file_without_an_index_has_no_positions(source: LocalSource) -> None:
    tail = replace(read_tail(source), row_index_stride=0)
    assert not can_seek(source, tail, 0, read_stripe_footer(source, tail, 0), [7])
